"""The command line; no logic of its own."""

from whence.cli.app import app, main

__all__ = ["app", "main"]
