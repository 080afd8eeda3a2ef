"""Environments behind the OpenEnv protocol: the wire format that server and clients share, and both clients."""
