"""What a run does, has done and needs: the morning view of whoever operates it."""
