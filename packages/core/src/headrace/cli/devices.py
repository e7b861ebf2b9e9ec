"""`headrace devices`: what can compute here."""

from __future__ import annotations

import json

import click

from headrace.config import config
from headrace.plan.devices import device_names
from headrace.plan.plan import backends, find_backend

__all__ = ["advice", "devices"]


def advice() -> list[str]:
    """What would make computing here faster: what the native backend says it lacks, or how to get it."""
    native = backends().get("cpu")
    if native is None:
        return ["CPU:0 would be faster with machine code: pip install headrace-kernels-cpu[onednn]"]
    return list(getattr(native, "advice", list)())


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--virtual",
    type=(str, int),
    multiple=True,
    metavar="TYPE COUNT",
    help="Show what hr.config(virtual_devices={TYPE: COUNT}) makes of them.",
)
def devices(as_json: bool, virtual: tuple[tuple[str, int], ...]) -> None:
    """List the devices that the installed backends offer. Allocates nothing on them."""
    options = config(virtual_devices=dict(virtual)) if virtual else config()
    found = [
        {"device": device, "backend": name, "default": name == find_backend("auto").name}
        for name, backend in sorted(backends().items())
        for device in device_names(backend, options)
    ]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for row in found:
        click.echo(f"{row['device']:<10} backend {row['backend']}{'  (default)' if row['default'] else ''}")
    for line in advice():
        click.echo(line)
