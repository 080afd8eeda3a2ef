"""The state of a running phone or desktop, and the effect of each action."""
