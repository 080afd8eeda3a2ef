"""The work of each stage of a round, one stage a file: each reads what it needs and calls a pipeline."""
