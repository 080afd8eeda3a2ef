"""Runs attempts: here an agent acts in an environment."""
