"""Commands that a vision-language model writes for what a screen shows, from exemplars (GUI-Owl 6.2, computers)."""
