"""RL of the roles that plan, by what a frozen Executor does on their words (CES 4.3 and A, CODA 3.3.1)."""
