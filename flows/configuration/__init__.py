"""The configuration of a run: its tables, its file, and what it says of models, judges and prompts."""
