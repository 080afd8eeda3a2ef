"""The policy versions of a run: choose the one that acts; add, promote and roll back versions."""
