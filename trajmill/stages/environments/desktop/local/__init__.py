"""A desktop on this machine: Xvfb, openbox, a session bus, AT-SPI and programs, served on loopback."""
