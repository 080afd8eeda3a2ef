"""CODA: Planner and Executor (paper CODA, 3.2)."""
