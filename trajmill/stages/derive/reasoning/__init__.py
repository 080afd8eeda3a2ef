"""Reasoning: thoughts from which the right action follows without any other context (paper 2.2.3)."""
