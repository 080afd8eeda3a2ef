"""What the embedded policy reads: words, candidates and features of a prompt and a screen."""
