"""Causal pathways: tasks in several apps of which each needs the answer of the one before (NaturalGAIA 3)."""
