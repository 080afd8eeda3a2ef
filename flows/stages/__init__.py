"""The stages of a round, one a file: each names its order, its inputs and its outputs, and calls a pipeline."""
