"""Judging stored trajectories again, and measuring how good a judge is."""
