"""The network of the embedded policy, in torch."""
