"""Supervised training by TRL."""
