"""Models: one protocol, and an implementation for each way to run a model."""
