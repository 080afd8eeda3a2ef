from trajmill.flows.cli.app import main

__all__ = ["main"]
