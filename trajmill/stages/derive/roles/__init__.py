"""Training rows for the roles of agents: from what the roles said, and from the trajectories of any agent."""
