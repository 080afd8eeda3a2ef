"""Trainers that step environments themselves: episodes whose decisions come from outside, and how they are served."""
