"""Brings trajectories that were recorded elsewhere into the warehouse."""
