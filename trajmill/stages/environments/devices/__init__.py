"""Several devices in one episode, for tasks across them."""
