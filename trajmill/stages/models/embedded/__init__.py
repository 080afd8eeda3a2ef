"""The embedded policy: a small network that scores the candidate actions on screen against the instruction."""
