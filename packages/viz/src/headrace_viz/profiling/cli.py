"""The command `headrace profile`: look at profiles that were written, of one or several processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from headrace.errors import NotFoundError
from headrace_viz.profiling.chrome_trace import write_chrome_trace
from headrace_viz.profiling.op_table import Grouping, format_table, op_rows, totals
from headrace_viz.profiling.timeline import Timeline
from headrace_viz.profiling.xspace import read_xspace

_SUFFIX = ".xplane.pb"

_files = click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)


@click.group()
def profile() -> None:
    """Look at profiles: FILE is a *.xplane.pb file, or a folder with some below it."""


@profile.command()
@_files
@click.option(
    "-o",
    "--output",
    default=Path("merged.trace.json.gz"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; compressed if its name ends in .gz.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was merged as JSON.")
def merge(files: Sequence[Path], output: Path, as_json: bool) -> None:
    """Merge the profiles of several processes into one trace, on one time axis.

    Open it at https://ui.perfetto.dev or chrome://tracing.
    """
    timelines = read_timelines(files)
    write_chrome_trace(output, timelines)
    facts: list[dict[str, Any]] = [
        {"process": timeline.title, "steps": len(timeline.steps), "threads": len(timeline.threads)}
        for timeline in timelines
    ]
    if as_json:
        click.echo(json.dumps({"output": str(output), "processes": facts}, indent=2))
        return
    for fact in facts:
        click.echo(f"{fact['process']}: {fact['steps']} steps on {fact['threads']} threads")
    click.echo(f"wrote {output}; open it at https://ui.perfetto.dev or chrome://tracing")


@profile.command()
@_files
@click.option(
    "--by", type=click.Choice(["type", "name", "device"]), default="type", show_default=True, help="What makes a row."
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of rows.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def top(files: Sequence[Path], by: Grouping, limit: int, as_json: bool) -> None:
    """Show the operations that took the longest."""
    timelines = read_timelines(files)
    if as_json:
        rows = [asdict(row) for row in op_rows(timelines, by)[:limit]]
        click.echo(json.dumps({"rows": rows, "totals": asdict(totals(timelines))}, indent=2))
        return
    click.echo(format_table(timelines, by, limit))


def read_timelines(files: Sequence[Path]) -> list[Timeline]:
    """Read every profile of files and folders, each once, in the order of their names.

    Raises:
      NotFoundError: a folder has no profile in it.
      HeadraceError: a file is damaged or no profile.
    """
    found: dict[Path, None] = {}
    for file in files:
        inside = sorted(file.rglob(f"*{_SUFFIX}")) if file.is_dir() else [file]
        if not inside:
            raise NotFoundError(
                "there is no profile in this folder",
                where=str(file),
                expected=f"a file *{_SUFFIX} at any depth",
                got="none",
                hint="record one: with headrace_viz.profile(logdir): ...",
            )
        found.update(dict.fromkeys(path.resolve() for path in inside))
    return [read_xspace(path) for path in found]
