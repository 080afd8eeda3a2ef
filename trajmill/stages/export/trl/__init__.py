"""The supervised file for TRL."""
