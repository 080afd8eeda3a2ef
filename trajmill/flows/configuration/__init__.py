"""The configuration of a run: its tables, its file, and its models, judges and prompts."""
