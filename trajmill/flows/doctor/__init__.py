"""Finds out what is wrong with an installation and its warehouse, and names the command that mends it."""
