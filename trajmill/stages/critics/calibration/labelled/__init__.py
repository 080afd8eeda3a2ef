"""Reads labelled sets in AgentRewardBench's public layout, as episodes that a judge can judge."""
