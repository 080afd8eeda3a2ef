"""Agents, which decide on the next action of an episode."""
