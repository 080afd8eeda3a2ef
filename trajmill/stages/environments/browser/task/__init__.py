"""The start state and the goal of a query for the browser, and the check of the goal."""
