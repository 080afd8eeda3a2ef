"""Trajectory-level RL on stored replies (paper 3.1.2)."""
