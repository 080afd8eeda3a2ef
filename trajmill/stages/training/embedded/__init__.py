"""Training of the embedded policy: supervised, or trajectory-level RL."""
