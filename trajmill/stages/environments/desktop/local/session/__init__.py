"""One session of a local desktop: its X server, its buses, its home folder and its user."""
