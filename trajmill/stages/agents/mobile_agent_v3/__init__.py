"""Mobile-Agent-v3: Manager, Worker, Reflector and Notetaker (paper Mobile-Agent-v3, 4 and 7)."""
