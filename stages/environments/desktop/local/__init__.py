"""A desktop of this machine's own: Xvfb, openbox, a session bus, AT-SPI and the programs, served on loopback."""
