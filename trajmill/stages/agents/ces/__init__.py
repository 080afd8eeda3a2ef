"""CES: Coordinator, Executor and State Tracker (paper CES, 4.2)."""
