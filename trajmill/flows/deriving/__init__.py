"""Derives further kinds of data from the stored trajectories of a run."""
