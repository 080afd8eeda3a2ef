"""What the app files annotate about a task: page descriptions, slot values, the words for them."""
