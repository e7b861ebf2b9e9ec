"""`headrace inspect`: what is in a file."""

from __future__ import annotations

from collections import Counter
from importlib import metadata
from pathlib import Path

import click

from headrace.errors import InvalidArgumentError
from headrace.graph.graph import Graph
from headrace.graph.graph_def import import_graph_def
from headrace.graph.op_def import find_op_def
from headrace.graph.printer import format_graph

__all__ = ["inspect"]

ENTRY_POINT_GROUP = "headrace.inspectors"
"""Functions `path -> lines of text, or None if the file is of another kind`."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--operations", is_flag=True, help="Print every operation of a graph.")
def inspect(file: Path, operations: bool) -> None:
    """Show what is in FILE: a graph (.pb, .pbtxt), and, with their packages, checkpoints and exported models."""
    for entry in metadata.entry_points(group=ENTRY_POINT_GROUP):
        lines = entry.load()(file)
        if lines is not None:
            click.echo("\n".join(lines))
            return
    if not file.exists():  # only now: the prefix of a TensorFlow checkpoint is no file
        raise click.BadParameter(f"Path '{file}' does not exist.", param_hint="'FILE'")
    if file.is_dir():
        raise InvalidArgumentError(
            f"'{file}' is not a graph file",
            expected="a .pb or .pbtxt file, or a folder with a checkpoint or an exported model",
            got="a folder",
            hint=_folder_hint(file),
        )
    graph = import_graph_def(file)
    click.echo(_summary(file, graph))
    if operations:
        click.echo(format_graph(graph), nl=False)


def _folder_hint(folder: Path) -> str:
    if not metadata.entry_points(group=ENTRY_POINT_GROUP):
        return "pip install headrace-checkpoint, for checkpoints and exported models"
    inside = sorted(str(item) for item in folder.iterdir())
    return "look into one of: " + ", ".join(inside[:8]) if inside else "it is empty"


def _summary(file: Path, graph: Graph) -> str:
    types = Counter(op.type for op in graph.operations)
    unknown = sorted(name for name in types if find_op_def(name) is None)
    inputs = [f"  {op.name}: {op.outputs[0].spec}" for op in graph.operations if op.type == "Placeholder"]
    constants = sum(op.attrs["value"].nbytes for op in graph.operations if op.type == "Const")
    lines = [
        f"{file}: a graph of {len(graph.operations)} operations of {len(types)} types",
        f"constants: {constants:,} bytes",
        "placeholders:" if inputs else "placeholders: none",
        *inputs,
        "types: " + ", ".join(f"{name} x{count}" for name, count in types.most_common()),
    ]
    if unknown:
        lines.append("not known here, so steps that need them fail: " + ", ".join(unknown))
    return "\n".join(lines)
