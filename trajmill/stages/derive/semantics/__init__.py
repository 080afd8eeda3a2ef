"""Action semantics: which action leads from one screen to the next, and what an action does (paper 2.2.2)."""
