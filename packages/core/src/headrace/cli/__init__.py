"""The command `headrace`; packages add commands by the entry-point group `headrace.commands`."""

from headrace.cli.main import main

__all__ = ["main"]
