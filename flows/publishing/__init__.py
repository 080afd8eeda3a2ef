"""Gives releases away."""
