"""Environments: one protocol, and an implementation for each kind."""
