"""The tasks that make queries."""
