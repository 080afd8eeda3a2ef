"""The RL file for verl."""
