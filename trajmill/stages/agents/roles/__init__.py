"""What the agents of several roles share: asking the model of a role, and the sections of its prompt and reply."""
