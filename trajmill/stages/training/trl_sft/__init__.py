"""Supervised training with TRL."""
