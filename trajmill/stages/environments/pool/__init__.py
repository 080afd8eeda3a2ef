"""A pool of environments: episodes lease them, failed ones are replaced, and all end with their worker."""
