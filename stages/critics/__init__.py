"""Judging steps and trajectories."""
