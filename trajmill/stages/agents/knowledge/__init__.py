"""Retrieves what an agent is told before it plans (paper Mobile-Agent-v3, 7.2.1)."""
