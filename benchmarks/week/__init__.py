"""A simulated week of nights against a real Prefect server, with everything going wrong once."""
