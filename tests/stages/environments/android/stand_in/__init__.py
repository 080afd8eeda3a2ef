"""An adb server in front of simulated phones, for adbutils, Debian's adb and our own environment alike."""
