"""Real desktops: machines with the OSWorld server protocol, or Xvfb and programs that are started here."""
