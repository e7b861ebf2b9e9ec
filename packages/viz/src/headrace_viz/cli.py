"""The command `headrace events`: look into event files, export them, join them, and find damage."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.errors import DataLossError, NotFoundError, known_names
from headrace_viz.event_file import EventFile
from headrace_viz.events import file_version_event
from headrace_viz.export import write_csv, write_json_lines
from headrace_viz.reading import LoggedValue, find_runs, read_events, read_run, whole_events
from headrace_viz.storage import LocalFolder, Place, is_url

if TYPE_CHECKING:
    _TypeOfPlaces = click.ParamType[Place]
else:
    _TypeOfPlaces = click.ParamType  # which says what it gives only in later versions than the first that we take


class _PlaceType(_TypeOfPlaces):
    """A path that exists, or a URL."""

    name = "path or URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if is_url(value):
            return str(value)
        found: Path = click.Path(exists=True, path_type=Path).convert(value, param, ctx)
        return found


_PATH = _PlaceType()


@click.group()
def events() -> None:
    """Look into TensorBoard's event files, of any program. PATH is a folder of runs, or one file; also its URL.

    Damaged records are passed over with a note on the error output, except by `verify`, which fails.
    """


@events.command("ls")
@click.argument("path", type=_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def list_tags(path: Place, as_json: bool) -> None:
    """List the tags of every run: kind, number of values, first and last step."""
    rows = []
    for run, files in find_runs(path).items():
        tags: dict[tuple[str, str], list[int]] = {}
        for value in read_run(files, strict=False, on_damage=_tell):
            tags.setdefault((value.tag, value.kind), []).append(value.step)
        for (tag, kind), steps in sorted(tags.items()):
            rows.append(
                dict(run=run, tag=tag, kind=kind, values=len(steps), first_step=min(steps), last_step=max(steps))
            )
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    lines = [list(map(str, row.values())) for row in rows]
    _print_table([["run", "tag", "kind", "values", "first step", "last step"], *lines])


@events.command("cat")
@click.argument("path", type=_PATH)
@click.option("--tag", "tags", multiple=True, help="Only this tag. May be given many times.")
@click.option("--run", "runs", multiple=True, help="Only this run. May be given many times.")
@click.option("--csv", "as_csv", is_flag=True, help="Print scalars as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print values of every kind as lines of JSON.")
def print_values(path: Place, tags: tuple[str, ...], runs: tuple[str, ...], as_csv: bool, as_json: bool) -> None:
    """Print values; without a format scalars as a table and others by their kind.

    A tag or a run that is not there ends with exit code 1, after the values of those that are.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json are two formats; choose one")
    kinds: dict[str, str] = {}
    found = _values(path, tags, runs, kinds)
    if as_csv:
        write_csv(found, sys.stdout)
    elif as_json:
        write_json_lines(found, sys.stdout)
    else:
        rows = [[run, value.tag, str(value.step), _shown(value)] for run, value in found]
        if rows or not tags:
            _print_table([["run", "tag", "step", "value"], *rows])
    for tag in tags:
        if tag not in kinds:
            raise NotFoundError(
                f"no value has the tag '{tag}'",
                where=str(path) + (f", run {', '.join(runs)}" if runs else ""),
                expected=known_names(tag, kinds),
                got=repr(tag),
                hint=f"headrace events ls {path} lists the tags of every run",
            )
        if as_csv and kinds[tag] != "scalars":
            click.echo(f"left out: '{tag}' has {kinds[tag]}, not scalars; --json prints values of every kind", err=True)


@events.command("merge")
@click.argument("sources", type=_PATH, nargs=-1, required=True)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the new file and the number of events as JSON.")
def merge(sources: tuple[Place, ...], folder: Path, as_json: bool) -> None:
    """Join the event files of SOURCES, runs or files of one run, into one new file in FOLDER.

    Events are put in the order of their steps; those of steps that a resumed run did again are left out. The sources
    are not changed.
    """
    merged = []
    for source in sources:
        for files in find_runs(source).values():
            merged += whole_events(files, strict=False, on_damage=_tell)
    merged.sort(key=lambda event: (event.step, event.wall_time))
    now = time.time()
    file = EventFile(LocalFolder(folder), now)
    file.append(file_version_event(now))
    for event in merged:
        file.append(event.SerializeToString())
    file.close()
    if as_json:
        click.echo(json.dumps({"file": str(file.path), "events": len(merged)}))
    else:
        click.echo(f"{file.path}: {len(merged)} events")


@events.command("verify")
@click.argument("path", type=_PATH)
@click.option("--torn-ok", is_flag=True, help="A record that the end of a file cuts off is no damage.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
def verify(path: Place, torn_ok: bool, as_json: bool) -> None:
    """Check every record of every file. Exit code 1 if one is damaged."""
    rows = []
    for run, files in find_runs(path).items():
        for file in files:
            count, damage = _check(file, torn_ok)
            rows.append(dict(run=run, file=str(file), whole_events=count, damage=damage))
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
    else:
        for row in rows:
            click.echo(
                f"{row['file']}: {row['whole_events']} whole events, " + ("damaged" if row["damage"] else "good")
            )
            for text in row["damage"]:  # type: ignore[attr-defined]  # a list of texts
                click.echo("  " + text.replace("\n", "\n  "))
    if any(row["damage"] for row in rows):
        sys.exit(1)


def _check(file: Place, torn_ok: bool) -> tuple[int, list[str]]:
    damage: list[DataLossError] = []
    count = sum(1 for _ in read_events(file, strict=False, on_damage=damage.append))
    if not damage and not torn_ok:
        try:
            for _ in read_events(file):
                pass
        except DataLossError as error:
            damage.append(error)
    return count, [str(error) for error in damage]


def _values(
    path: Place, tags: tuple[str, ...], runs: tuple[str, ...], kinds: dict[str, str]
) -> Iterator[tuple[str, LoggedValue]]:
    """Yield the values that were asked for, and put the kind of every tag of these runs into `kinds`."""
    files_of_run = find_runs(path)
    for run in runs:
        if run not in files_of_run:
            raise NotFoundError(
                f"there is no run '{run}'",
                where=str(path),
                expected=known_names(run, files_of_run),
                got=repr(run),
                hint=f"headrace events ls {path} lists the runs",
            )
    for run, files in files_of_run.items():
        if runs and run not in runs:
            continue
        for value in read_run(files, strict=False, on_damage=_tell):
            kinds[value.tag] = value.kind
            if not tags or value.tag in tags:
                yield run, value


def _shown(value: LoggedValue) -> str:
    if value.kind == "scalars":
        return f"{value.value:.6g}" if isinstance(value.value, float) else repr(value.value)
    if isinstance(value.value, list):
        return f"{value.kind}: {len(value.value)} files, {sum(map(len, value.value))} bytes"
    return f"{value.kind}: {list(value.value.shape)}"


def _tell(error: DataLossError) -> None:
    click.echo(f"warning: {error}", err=True)


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
