"""The command `headrace checkpoint`: verify, compare, convert and average files of tensors, and freeze models."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import click
from tqdm import tqdm

from headrace.errors import HeadraceError, InvalidArgumentError, NotFoundError
from headrace_checkpoint.comparison import average as average_of
from headrace_checkpoint.comparison import differences
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.frozen_graph import freeze as freeze_model
from headrace_checkpoint.inference_passes import LEVELS
from headrace_checkpoint.inspection import printable
from headrace_checkpoint.saved_model import DEFAULT_SIGNATURE, load_model
from headrace_checkpoint.sources import OpenSource, open_source, source_of_step
from headrace_checkpoint.store import list_steps, read_newest_step, write_step
from headrace_checkpoint.targets import FORMATS, format_of, write_tensors

__all__ = ["checkpoint"]

Item = TypeVar("Item")


@click.group()
def checkpoint() -> None:
    """Work with files of tensors, of this program and of others, and with saved models.

    PATH is a directory of steps (the newest is meant), one step, a safetensors file or the index of several, an .npz
    file, or a TensorFlow checkpoint (its prefix or any of its files).
    """


@checkpoint.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def verify(paths: tuple[str, ...], as_json: bool) -> None:
    """Check every byte against its checksum, in each step of a directory. Exit code 1 if any is not whole."""
    rows = [_verified(path) for given in paths for path in _each_step(given)]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        for row in rows:
            click.echo(f"{row['state']:<8}{row['path']}: {row['detail']}")
    if not all(row["whole"] for row in rows):
        sys.exit(1)


def _each_step(path: str) -> list[str]:
    names = list_steps(path)
    return [os.path.join(path, str(name)) for name in names] or [path]


def _verified(path: str) -> dict[str, object]:
    try:
        source = _open(path)
        size = 0
        for name in _shown(source.tensors, f"verifying {path}"):
            size += source.read(name).nbytes
    except HeadraceError as error:
        state = "MISSING" if isinstance(error, NotFoundError) else "DAMAGED"
        return {"path": path, "whole": False, "state": state, "detail": str(error)}
    return {"path": path, "whole": True, "state": "whole", "detail": f"{len(source.tensors)} tensors, {size:,} bytes"}


@checkpoint.command()
@click.argument("first")
@click.argument("second")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def diff(first: str, second: str, as_json: bool) -> None:
    """Compare two files of tensors bit for bit. Exit code 1 if they differ."""
    found = list(differences(_open(first), _open(second)))
    if as_json:
        rows = [{"name": item.name, "kind": item.kind, "detail": item.detail} for item in found]
        click.echo(json.dumps(rows, indent=2))
    else:
        for item in found:
            click.echo(printable(f"{item.kind:<18}  {item.name}: {item.detail}"))
        click.echo(f"{len(found)} tensors differ" if found else "no difference")
    if found:
        sys.exit(1)


_FORM = click.option(
    "--format", "form", type=click.Choice(["step", *FORMATS]), help="Of the result; by default what its name asks for."
)
_STEP = click.option("--step", type=click.IntRange(min=0), help="The step's number, for --format step.")


@checkpoint.command()
@click.argument("source")
@click.argument("target", type=click.Path(path_type=Path))
@_FORM
@_STEP
@click.option("--rename", "renames", metavar="PATTERN=NAME", multiple=True, help="Regular expression; \\1 is a group.")
@click.option("--shard-bytes", type=click.IntRange(min=1), default=5 * 10**9, help="Size of the files of an index.")
def convert(
    source: str, target: Path, form: str | None, step: int | None, renames: tuple[str, ...], shard_bytes: int
) -> None:
    """Write the tensors of SOURCE in another format: .safetensors, .safetensors.index.json, .npz, or TensorFlow's."""
    form = form or format_of(target)
    opened = _open(source)
    patterns = [_pattern(item) for item in renames]
    arrays: dict[str, Array] = {}
    for name in _shown(opened.tensors, "reading"):
        renamed = next((found.expand(new) for old, new in patterns if (found := old.fullmatch(name))), name)
        if renamed in arrays:
            raise InvalidArgumentError(
                "two tensors would have one name",
                where=opened.path,
                expected="a name of its own for each",
                got=renamed,
                hint="change --rename",
            )
        arrays[renamed] = opened.read(name)
    _write(target, arrays, form, opened.step if step is None else step, shard_bytes)
    click.echo(f"{len(arrays)} tensors written to {target}")


@checkpoint.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Where to write the average.")
@_FORM
@_STEP
def average(paths: tuple[str, ...], output: Path, form: str | None, step: int | None) -> None:
    """Write the mean of the floating tensors of several checkpoints; the others are those of the last PATH."""
    form = form or format_of(output)
    sources = [_open(path) for path in paths]
    arrays = dict(_shown(average_of(sources), "averaging", len(sources[-1].tensors)))
    _write(output, arrays, form, sources[-1].step if step is None else step, 5 * 10**9)
    click.echo(f"average of {len(sources)} written to {output}")


@checkpoint.command()
@click.argument("model")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--signature", default=DEFAULT_SIGNATURE, show_default=True, help="Which of the model's functions.")
@click.option("--level", type=click.Choice(list(LEVELS)), default="basic", show_default=True, help="Of optimisation.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def freeze(model: str, target: Path, signature: str, level: str, as_json: bool) -> None:
    """Write a function of the saved model MODEL as one graph file, its variables as constants."""
    with load_model(model) as loaded:
        frozen = freeze_model(loaded, target, signature=signature, level=level)
    if as_json:
        click.echo(json.dumps({"inputs": frozen.inputs, "outputs": frozen.outputs, "operations": frozen.operations}))
    else:
        click.echo(f"{frozen.operations} operations written to {target}")
        click.echo(f"  feed   {', '.join(frozen.inputs) or 'nothing'}\n  fetch  {', '.join(frozen.outputs)}")


def _open(path: str) -> OpenSource:
    source = open_source(path)
    if source is not None:
        return source
    if not list_steps(path):
        raise NotFoundError(
            "there are no tensors here",
            expected="a directory of steps, a step, .safetensors, .safetensors.index.json, .npz, or TensorFlow's",
            got=path,
            hint="headrace inspect shows what a file is",
        )
    return read_newest_step(path, source_of_step)[1]


def _write(target: Path, arrays: dict[str, Array], form: str, step: int | None, shard_bytes: int) -> None:
    if form == "step":
        write_step(target, 0 if step is None else step, arrays, time=time.time())
    else:
        write_tensors(target, arrays, form=form, shard_bytes=shard_bytes)


def _pattern(text: str) -> tuple[re.Pattern[str], str]:
    old, found, new = text.partition("=")
    try:
        if found:
            return re.compile(old), new
    except re.error:
        pass
    raise InvalidArgumentError(
        "a renaming is wrong", expected="PATTERN=NAME", got=text, hint=r"--rename 'encoder/(.*)=bert/\1'"
    )


def _shown(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """The items, with a bar on a terminal."""
    return iter(tqdm(items, what, total, leave=False, disable=None, unit=" tensors"))
