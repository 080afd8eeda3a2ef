"""The figures by which agents and data are compared: each of a paper, with its intervals."""
