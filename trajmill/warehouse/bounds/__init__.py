"""Leaves out files and row groups whose bounds say that they have none of the rows that are looked for."""
