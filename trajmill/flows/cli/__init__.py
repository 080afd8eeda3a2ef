"""The command line."""

from trajmill.flows.cli.app import main

__all__ = ["main"]
