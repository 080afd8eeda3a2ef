"""Training by a command of the user's own."""
