"""Figures with intervals."""
