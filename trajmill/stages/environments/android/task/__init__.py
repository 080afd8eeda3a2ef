"""The start state and the goal of a query for a device, and the check of the goal."""
