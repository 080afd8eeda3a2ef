"""Reads trajectories that were recorded elsewhere: one module for each published layout."""
