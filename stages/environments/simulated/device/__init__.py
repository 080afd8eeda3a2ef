"""The state of a running phone or desktop, and what each action does to it."""
