"""Atomic operations of mouse and keyboard on objects that the start state creates (paper 6.2, computers)."""
