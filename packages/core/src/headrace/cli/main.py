"""The group of commands, and how their errors reach a shell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata

import click

from headrace.cli.devices import devices
from headrace.cli.doctor import doctor
from headrace.cli.inspect import inspect
from headrace.cli.ops import ops
from headrace.errors import HeadraceError, known_names

__all__ = ["main"]

ENTRY_POINT_GROUP = "headrace.commands"

_PROVIDERS = {"serve": "headrace-serving", "cluster": "headrace-distributed"}
"""Commands of packages of ours, so that one that is missing can be named."""


class _Commands(click.Group):
    """The built-in commands and those of installed packages.

    A package's command is loaded when it is used. Exit codes: 0 done, 1 failed, 2 wrong usage.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_plugins()})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        built_in = super().get_command(ctx, name)
        if built_in is not None:
            return built_in
        entry = _plugins().get(name)
        if entry is not None:
            command: click.Command = entry.load()
            return command
        if name in _PROVIDERS:
            raise click.UsageError(f"'{name}' is a command of {_PROVIDERS[name]}: pip install {_PROVIDERS[name]}")
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = known_names(args[0], self.list_commands(ctx))
            ctx.fail(f"No such command '{args[0]}'; {known}")
        return super().resolve_command(ctx, args)


def _plugins() -> dict[str, metadata.EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=ENTRY_POINT_GROUP)}


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", prog_name="headrace")
def headrace() -> None:
    """Look at operations, devices, graphs, models and the installation itself, and serve models."""


headrace.add_command(devices)
headrace.add_command(doctor)
headrace.add_command(inspect)
headrace.add_command(ops)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a Headrace error is printed without a traceback and ends with code 1."""
    try:
        headrace.main(args=None if arguments is None else list(arguments), prog_name="headrace")
    except HeadraceError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
