"""One page of the browser: observations of it, and mouse, keyboard and touch in it."""
