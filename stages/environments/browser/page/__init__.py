"""One page of the browser: what it shows, and mouse, keyboard and touch in it."""
