"""Rows as the trainers read them, and the dataset card."""
