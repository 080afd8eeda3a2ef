"""What stands in the staging folder of a stage while it works: its counts, and the journals of its screens."""
