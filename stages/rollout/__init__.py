"""Where an agent meets an environment."""
