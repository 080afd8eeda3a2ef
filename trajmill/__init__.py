"""trajmill produces trajectories of GUI agents, and makes the agent that produces them better, round after round."""
