"""Asks the warehouse questions at a prompt."""
