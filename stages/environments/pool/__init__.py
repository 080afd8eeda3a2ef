"""A pool of environments: leased to episodes within time limits, replaced when they fail, ended with their worker."""
