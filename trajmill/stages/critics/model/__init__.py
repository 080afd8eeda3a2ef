"""Critics that ask models about each step, and about a trajectory in each channel."""
