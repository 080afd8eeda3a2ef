"""What a query for the browser says: its start state, its goal and the check of the goal."""
