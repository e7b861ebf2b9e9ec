"""The command `headrace report`: a page about one run or several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from headrace_viz.report.page import report_page
from headrace_viz.report.plots import write_plots
from headrace_viz.report.runs import load_runs


@click.command()
@click.argument("folders", metavar="RUNDIR...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    default=Path("report.html"),
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write.",
)
@click.option("--title", default="", help="Heading of the page; by default the names of the runs.")
@click.option(
    "--png", "png_folder", type=click.Path(file_okay=False, path_type=Path), help="Draw each curve as PNG in here too."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def report(folders: Sequence[Path], output: Path, title: str, png_folder: Path | None, as_json: bool) -> None:
    """Write a page that shows the runs in RUNDIR side by side: curves, histograms, graph, profile, environment.

    The page is one file, to be read without a server and without a network.
    """
    runs = load_runs(folders)
    output.write_text(report_page(runs, title=title), encoding="utf-8")
    plots = [] if png_folder is None else write_plots(runs, png_folder)
    if as_json:
        facts = {"output": str(output), "runs": [run.name for run in runs], "plots": [str(path) for path in plots]}
        click.echo(json.dumps(facts, indent=2))
        return
    for run in runs:
        for damage in run.damages:
            click.echo(f"damaged, passed over: {run.name}: {damage}", err=True)
    click.echo(
        f"wrote {output} about {len(runs)} run{'s' if len(runs) > 1 else ''}: {', '.join(run.name for run in runs)}"
    )
    if plots:
        click.echo(f"wrote {len(plots)} plots to {png_folder}")
