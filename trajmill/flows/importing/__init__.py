"""Imports trajectories of other agents and people, and judges them."""
