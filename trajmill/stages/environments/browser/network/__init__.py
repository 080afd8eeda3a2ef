"""The network of a browser context: the allowed hosts, and the pending requests."""
