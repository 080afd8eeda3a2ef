"""Agents: what decides on the next action."""
