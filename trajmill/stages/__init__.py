"""The verbs: pure functions and small protocols, one sub-package per stage."""
