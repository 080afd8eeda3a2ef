"""Training with the user's own command."""
