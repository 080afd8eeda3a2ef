"""What models with a folder of weights share: the folder and the chat template."""
