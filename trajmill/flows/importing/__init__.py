"""Imports trajectories from elsewhere, judges them, and says what landed."""
