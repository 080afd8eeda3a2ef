"""What a query for a device says: its start state, its goal and the check of the goal."""
