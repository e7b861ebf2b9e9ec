"""`headrace devices`: what can compute here."""

from __future__ import annotations

import json

import click

from headrace.plan.plan import backends, find_backend

__all__ = ["devices"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices(as_json: bool) -> None:
    """List the devices that the installed backends offer. Allocates nothing on them."""
    found = [
        {"device": device, "backend": name, "default": name == find_backend("auto").name}
        for name, backend in sorted(backends().items())
        for device in backend.devices()
    ]
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for row in found:
        click.echo(f"{row['device']:<10} backend {row['backend']}{'  (default)' if row['default'] else ''}")
