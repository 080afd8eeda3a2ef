"""Environments with the OpenEnv protocol: the messages between server and clients, and both clients."""
