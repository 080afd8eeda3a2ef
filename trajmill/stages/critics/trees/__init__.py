"""Reads accessibility trees: the state of a screen, the element of an action, the outcome of a step."""
