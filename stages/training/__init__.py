"""The trainers that downstream flows start."""
