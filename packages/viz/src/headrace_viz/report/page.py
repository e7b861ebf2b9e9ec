"""The page: everything about some runs in one HTML file that needs nothing else."""

from __future__ import annotations

import html
import os
import platform
import time
from collections.abc import Iterable, Sequence
from importlib import metadata, resources

import numpy as np

from headrace_viz.profiling.op_table import op_rows, totals
from headrace_viz.profiling.timeline import Timeline
from headrace_viz.report.charts import Series, color_class, distribution_chart, line_chart, strip_chart
from headrace_viz.report.graph_summary import GraphSummary, summarize_graph
from headrace_viz.report.number_text import duration, short, size
from headrace_viz.report.runs import Curve, Run

_TOP_OPS = 12
_TOP_TYPES = 10
_TEXT_LIMIT = 4000


def report_page(runs: Sequence[Run], *, title: str = "", made_at: float | None = None) -> str:
    """Return the page of some runs.

    Args:
      runs: at least one.
      title: heading; made from the names of the runs by default.
      made_at: seconds since the epoch, for the foot of the page; now by default.
    """
    heading = title or _heading(runs)
    sections = [_damages(runs), _overview(runs), _curves(runs), _histograms(runs), _texts(runs), _graphs(runs)]
    sections += [_profiles(runs), _environment(runs, time.time() if made_at is None else made_at)]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(heading)}</title>",
            f"<style>\n{_asset('style.css')}</style>\n</head>\n<body>",
            f"<header><h1>{_text(heading)}</h1></header>",
            _legend(runs),
            "<main>",
            *filter(None, sections),
            "</main>",
            f"<script>\n{_asset('script.js')}</script>\n</body>\n</html>\n",
        ]
    )


def _heading(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return f"Run {runs[0].name}"
    return f"{len(runs)} runs" + (": " + ", ".join(run.name for run in runs) if len(runs) <= 3 else "")


def _asset(name: str) -> str:
    return (resources.files(__package__ or "") / name).read_text(encoding="utf-8")


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _swatch(number: int) -> str:
    line = f'<line class="{color_class(number)}" x1="0" y1="5" x2="22" y2="5"/>'
    return f'<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true">{line}</svg>'


def _legend(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return ""
    items = [
        f'<li><label><input type="checkbox" value="{number}" checked>{_swatch(number)}{_text(run.name)}</label></li>'
        for number, run in enumerate(runs)
    ]
    return f'<nav aria-label="runs"><ul>{"".join(items)}</ul></nav>'


def _section(name: str, *parts: str) -> str:
    return f"<section>\n<h2>{name}</h2>\n" + "\n".join(parts) + "\n</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True, narrow: bool = False) -> str:
    """Return a table; its cells are HTML. All columns but the first are numbers unless said otherwise.

    A table whose head is empty has none.
    """
    kind = ' class="number"' if numbers else ""
    cells = "".join(f"<th{kind if place else ''}>{cell}</th>" for place, cell in enumerate(head))
    top = f"<thead><tr>{cells}</tr></thead>" if any(head) else ""
    lines = [
        "".join(_cell(cell, kind) if place else f"<th>{cell}</th>" for place, cell in enumerate(row)) for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide{" narrow" if narrow else ""}"><table>{top}<tbody>{body}</tbody></table></div>'


def _cell(content: str, kind: str) -> str:
    return content if content.startswith("<td") else f"<td{kind}>{content}</td>"


def _figure(caption: str, chart: str, *notes: str) -> str:
    under = "".join(f'<p class="soft">{_text(note)}</p>' for note in notes if note)
    return f"<figure><figcaption>{_text(caption)}</figcaption>{chart}{under}</figure>"


def _damages(runs: Sequence[Run]) -> str:
    found = [f"{run.name}: {damage}" for run in runs for damage in run.damages]
    if not found:
        return ""
    items = "".join(f'<p class="warning">{_text(item)}</p>' for item in found)
    return _section("Damaged files", "<p>These places were passed over; what follows lacks them.</p>", items)


def _overview(runs: Sequence[Run]) -> str:
    rows = [
        [
            _text(run.name),
            "-" if run.last_step is None else f"{run.last_step:,}",
            duration(run.seconds) if run.curves else "-",
            str(len(run.curves)),
            f"{sum(len(curve.steps) for curve in run.curves.values()):,}",
            _started(run),
        ]
        for run in runs
    ]
    parts = [_table(["run", "last step", "duration", "curves", "points", "first value at"], rows)]
    tags = _tags(runs)
    names = [run.name for run in runs]
    values = [[_last(run.curves.get(tag)) for run in runs] for tag in tags]
    if len(names) > max(len(tags), 3):  # a page has more room below than to the right
        names, tags, values = tags, names, [list(column) for column in zip(*values, strict=True)]
    if values:
        head = ["last value (lowest, highest)", *map(_text, names)]
        parts.append(_table(head, ([_text(tag), *row] for tag, row in zip(tags, values, strict=True))))
    return _section("Overview", *parts)


def _tags(runs: Sequence[Run]) -> list[str]:
    return sorted({tag for run in runs for tag in run.curves})


def _started(run: Run) -> str:
    return "-" if run.started is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.started))


def _last(curve: Curve | None) -> str:
    if curve is None:
        return "-"
    finite = curve.values[np.isfinite(curve.values)]
    last = short(float(curve.values[-1]))
    if len(finite) < 2:
        return last
    return f'{last} <span class="soft">({short(float(finite.min()))}, {short(float(finite.max()))})</span>'


def _curves(runs: Sequence[Run]) -> str:
    figures = []
    for tag in _tags(runs):
        having = [(number, run, run.curves[tag]) for number, run in enumerate(runs) if tag in run.curves]
        series = [Series(run.name, number, curve.steps.astype(float), curve.values) for number, run, curve in having]
        chart = line_chart(series, x_label="step", y_label=_unit(tag), title=f"{tag} over steps")
        figures.append(_figure(tag, chart, *_notes([(run.name, curve) for _, run, curve in having])))
    return _section("Curves", f'<div class="charts">{"".join(figures)}</div>') if figures else ""


def _unit(tag: str) -> str:
    name = tag.rsplit("/", 1)[-1].lower()
    if "per_second" in name:
        return "per second"
    if name.endswith("share") or "accuracy" in name:
        return "fraction"
    return "seconds" if name.endswith(("_seconds", "_time")) else "value"


def _notes(curves: Sequence[tuple[str, Curve]]) -> list[str]:
    """Return what the chart cannot show."""
    notes = []
    several = len(curves) > 1
    for name, curve in curves:
        broken = int((~np.isfinite(curve.values)).sum())
        if broken:
            notes.append(f"{name + ': ' if several else ''}{broken:,} of {len(curve.values):,} values not finite (×)")
    most = max(len(curve.steps) for _, curve in curves)
    if most > 1200:
        notes.append(f"{most:,} points, drawn by the extremes of 300 spans")
    return notes


def _histograms(runs: Sequence[Run]) -> str:
    figures = []
    for tag in sorted({tag for run in runs for tag in run.histograms}):
        for number, run in enumerate(runs):
            found = run.histograms.get(tag)
            if not found:
                continue
            title = f"{tag}, {run.name}" if len(runs) > 1 else tag
            chart = distribution_chart(found, color=number, x_label="step", title=f"distribution of {title}")
            note = f"at step {found[0].step:,}" if len(found) == 1 else f"{len(found):,} histograms"
            figures.append(f'<div class="run-{number}">{_figure(title, chart, note)}</div>')
    if not figures:
        return ""
    about = "<p class='soft'>Bands hold all values, the middle 80 % and the middle half; the line is the median.</p>"
    return _section("Histograms", about, f'<div class="charts">{"".join(figures)}</div>')


def _texts(runs: Sequence[Run]) -> str:
    parts = []
    for run in runs:
        for tag, text in sorted(run.texts.items()):
            cut = text[:_TEXT_LIMIT] + (" …" if len(text) > _TEXT_LIMIT else "")
            title = f"{tag}, {run.name}" if len(runs) > 1 else tag
            parts.append(f'<h3>{_text(title)}</h3><div class="wide"><pre>{_text(cut)}</pre></div>')
    return _section("Texts", *parts) if parts else ""


def _graphs(runs: Sequence[Run]) -> str:
    """Return the summaries of the graphs, equal ones once."""
    found: dict[bytes, list[str]] = {}
    for run in runs:
        if run.graph_def is not None:
            found.setdefault(run.graph_def, []).append(run.name)
    parts = []
    for graph_def, names in found.items():
        summary = summarize_graph(graph_def)
        if len(runs) > 1:
            parts.append(f"<h3>{_text(', '.join(names))}</h3>")
        parts.append("<p>The graph is damaged.</p>" if summary is None else _graph(summary))
    return _section("Graph", *parts) if parts else ""


def _graph(summary: GraphSummary) -> str:
    text = (
        f"<p>{summary.operations:,} operations of {len(summary.types)} types; {summary.variables:,} variables with "
        f"{summary.parameters:,} elements.</p>"
    )
    devices = [name for name in summary.devices if name.startswith("/")]
    if devices:
        text += f"<p>Devices: {_text(', '.join(devices))}</p>"
    tables = [
        _counts("type", summary.types),
        _counts("scope", summary.scopes),
    ]
    return f'{text}<div class="charts">{"".join(tables)}</div>'


def _counts(name: str, counts: dict[str, int]) -> str:
    rows = [[_text(key), f"{number:,}"] for key, number in list(counts.items())[:_TOP_TYPES]]
    rest = list(counts.values())[_TOP_TYPES:]
    if rest:
        rows.append([f"{len(rest)} more", f"{sum(rest):,}"])
    return _table([name, "operations"], rows)


def _profiles(runs: Sequence[Run]) -> str:
    having = [(number, run) for number, run in enumerate(runs) if any(found.steps for found in run.profiles)]
    if not having:
        return ""
    facts = [_profile_facts(run.profiles) for _, run in having]
    head = ["", *(_text(run.name) for _, run in having)] if len(runs) > 1 else []
    parts = [_table(head, ([name, *(fact[name] for fact in facts)] for name in facts[0]), narrow=len(having) == 1)]
    for number, run in having:
        parts.append(f"<h3>{_text(run.name)}</h3>" if len(runs) > 1 else "")
        parts += [_profile_table(run.profiles), _typical_step(run.profiles), _profile_charts(run.profiles, number)]
    return _section("Profile", *filter(None, parts))


def _profile_facts(timelines: Sequence[Timeline]) -> dict[str, str]:
    found = totals(timelines)
    arena = max(step.arena_bytes for timeline in timelines for step in timeline.steps)
    resident = max((sample.resident_bytes for timeline in timelines for sample in timeline.memory), default=None)
    ceilings = next((timeline.ceilings for timeline in timelines if timeline.ceilings is not None), None)
    return {
        "steps recorded": f"{found.steps:,}",
        "processes": str(len({(timeline.host, timeline.process_id) for timeline in timelines})),
        "time of a step": f"{found.step_ns / found.steps / 1e6:.3f} ms",
        "of it in operations": f"{found.op_ns / found.step_ns:.1%}",
        "feeds and plans before a step": f"{found.prepare_ns / found.steps / 1e6:.3f} ms",
        "wait for the next step": f"{found.stall_ns / found.steps / 1e6:.3f} ms",
        "share of the time spent waiting": f"{found.stall_share:.1%}",
        "waits of queues per step": f"{found.blocked_ns / found.steps / 1e6:.3f} ms",
        "transfers between devices per step": f"{found.transfers / found.steps:.1f}",
        "fed per step": size(found.fed_bytes / found.steps),
        "fetched per step": size(found.fetched_bytes / found.steps),
        "largest arena": size(arena),
        "resident memory at most": "-" if resident is None else size(resident),
        "best matrix product here": "-" if ceilings is None else f"{ceilings.gflops:.1f} GFLOP/s",
        "best copy here": "-" if ceilings is None else f"{ceilings.gbytes:.1f} GB/s",
    }


def _profile_table(timelines: Sequence[Timeline]) -> str:
    rows = [
        [
            _swatch(place) + _text(row.name),
            f'<td class="number share" style="--part:{row.share:.1%}">{row.share:.1%}</td>',
            f"{row.self_ns / 1e6:.3f}",
            f"{row.calls:,}",
            f"{row.self_ns / row.calls / 1e3:.1f}",
            "-" if row.gflops is None else short(row.gflops, 3),
            "-" if row.gbytes is None else short(row.gbytes, 3),
        ]
        for place, row in enumerate(op_rows(timelines)[:_TOP_OPS])
    ]
    head = ["operation", "share of step time", "self time, ms", "calls", "per call, µs", "GFLOP/s", "GB/s"]
    return _table(head, rows)


def _typical_step(timelines: Sequence[Timeline]) -> str:
    """Return the step of median length, operation by operation."""
    steps = [(step, timeline) for timeline in timelines for step in timeline.steps if step.events]
    if not steps:
        return ""
    steps.sort(key=lambda item: item[0].end_ns - item[0].start_ns)
    step, timeline = steps[len(steps) // 2]
    colors = {row.name: place for place, row in enumerate(op_rows(timelines))}
    pieces = [
        (
            timeline.ops[event.op].type,
            colors[timeline.ops[event.op].type],
            (event.start_ns - step.start_ns) / 1e3,
            (event.end_ns - step.start_ns) / 1e3,
        )
        for event in step.events
    ]
    title = f"Operations of step {step.step}, which is of median length"
    return f'<div class="strip">{_figure(title, strip_chart(pieces, unit="µs", title=title))}</div>'


def _profile_charts(timelines: Sequence[Timeline], color: int) -> str:
    figures = []
    for timeline in timelines:
        if not timeline.steps:
            continue
        where = f" of {timeline.title}" if len(timelines) > 1 else ""
        started = np.array([step.start_ns - timeline.start_ns for step in timeline.steps]) / 1e9
        lengths = np.array([step.end_ns - step.start_ns for step in timeline.steps]) / 1e6
        order = np.argsort(started, kind="stable")
        series = [Series("step", color, started[order], lengths[order])]
        label = "seconds since the recording began"
        chart = line_chart(series, x_label=label, y_label="ms", title=f"time of each step{where}", dots=True)
        figures.append(_figure(f"Time of each step{where}", chart))
        if timeline.memory:
            at = np.array([sample.time_ns - timeline.start_ns for sample in timeline.memory]) / 1e9
            held = np.array([sample.resident_bytes for sample in timeline.memory]) / 1e6
            order = np.argsort(at, kind="stable")
            series = [Series("resident", color, at[order], held[order])]
            chart = line_chart(series, x_label=label, y_label="MB", title=f"resident memory{where}")
            figures.append(_figure(f"Resident memory{where}", chart))
    return f'<div class="charts">{"".join(figures)}</div>'


def _environment(runs: Sequence[Run], made_at: float) -> str:
    files = [
        [_text(path), size(path.stat().st_size) if path.exists() else "gone"] for run in runs for path in run.files
    ]
    machine = f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} processors"
    facts = [
        ["machine", _text(machine)],
        ["Python", _text(platform.python_version())],
        *([name, _text(_version(name))] for name in ("headrace", "headrace-viz", "numpy")),
        ["made at", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(made_at))],
    ]
    hosts = sorted({timeline.host for run in runs for timeline in run.profiles})
    if hosts:
        facts.append(["profiled on", _text(", ".join(hosts))])
    parts = [
        '<p class="soft">Of the machine on which this page was made.</p>',
        _table([], facts, numbers=False, narrow=True),
    ]
    if files:
        parts.append(_table(["event file", "size"], files))
    return _section("Environment", *parts)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed as a package"
