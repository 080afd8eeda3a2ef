"""Labelled sets of others as episodes that a judge can judge: AgentRewardBench's public layout."""
