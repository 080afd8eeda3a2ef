"""Real desktops: any machine that speaks the OSWorld server protocol, or Xvfb and its programs started here."""
