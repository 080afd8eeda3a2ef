"""The annotations of tasks in app files: page descriptions, slot values, and the words for them."""
