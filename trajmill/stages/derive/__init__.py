"""Training examples from judged trajectories."""
