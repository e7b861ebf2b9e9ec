"""`headrace ops`: the registered operations."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.grad.registry import gradient_of_type
from headrace.graph.op_def import OpDef, lookup_op_def, op_defs
from headrace.kernels.registry import Kernel, kernels_of

__all__ = ["ops"]


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ops(name: str | None, as_json: bool) -> None:
    """List operation types, or show one: NAME's signature, meaning, gradient and kernels."""
    chosen = list(op_defs()) if name is None else [lookup_op_def(name)]
    if as_json:
        click.echo(json.dumps([_facts(item) for item in chosen], indent=2))
    elif name is not None:
        click.echo(_page(chosen[0]))
    else:
        for op_def in chosen:
            click.echo(f"{op_def.name:<40} {op_def.doc.splitlines()[0]}")


def _facts(op_def: OpDef) -> dict[str, Any]:
    kernels = kernels_of(op_def.name)
    chosen_by_dtype = any(kernel.dtypes for kernel in kernels)
    return {
        "name": op_def.name,
        "signature": op_def.signature,
        "doc": op_def.doc,
        "stateful": op_def.stateful,
        "gradient": _gradient(op_def),
        "kernels": [_kernel(kernel, " for other dtypes" if chosen_by_dtype else "") for kernel in kernels],
    }


def _kernel(kernel: Kernel, otherwise: str) -> str:
    dtypes = "; ".join(f"{name} in {', '.join(map(str, allowed))}" for name, allowed in kernel.dtypes.items())
    return (kernel.device or "every device") + (f" for {dtypes}" if dtypes else otherwise)


def _gradient(op_def: OpDef) -> str:
    rule = gradient_of_type(op_def.name)
    if rule is None:
        return "not stated"
    return "yes" if rule.function is not None else f"none: {rule.reason}"


def _page(op_def: OpDef) -> str:
    facts = _facts(op_def)
    kernels = "; ".join(facts["kernels"]) or "none"
    lines = [op_def.signature, "", op_def.doc, "", f"gradient: {facts['gradient']}", f"kernels:  {kernels}"]
    if op_def.stateful:
        lines.append("stateful: never merged, folded or reordered")
    return "\n".join(lines)
