"""What models in a folder share: the folder and the chat template."""
