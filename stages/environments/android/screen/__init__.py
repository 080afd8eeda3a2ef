"""What a device shows: screenshot and accessibility tree."""
