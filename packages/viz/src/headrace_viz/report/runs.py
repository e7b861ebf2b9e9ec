"""What the folders of runs hold: curves, histograms, the graph, texts and profiles."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import HeadraceError, NotFoundError
from headrace_viz.profiling.timeline import Timeline
from headrace_viz.profiling.xspace import read_xspace
from headrace_viz.reading import LoggedValue, find_runs, read_run, whole_events
from headrace_viz.storage import Place

Floats = NDArray[np.float64]

_YEAR_9999 = 253_370_764_800.0  # seconds since the epoch; there is no calendar beyond


@dataclass(frozen=True, slots=True)
class Curve:
    """The values of one tag of one run, ordered by step.

    Attributes:
      steps: int64 `[points]`.
      seconds: float64 `[points]`, time since the epoch.
      values: float64 `[points]`, possibly not finite.
    """

    steps: NDArray[np.int64]
    seconds: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Histogram:
    """The histogram of one tag at one step: `rows` is float64 `[buckets, 3]` of left edge, right edge and count."""

    step: int
    rows: Floats


@dataclass(frozen=True, slots=True)
class Run:
    """What one run has left.

    Attributes:
      name: what it is called in the report.
      folder: where it is.
      files: its event files.
      curves: by tag.
      histograms: by tag, ordered by step.
      texts: the last text of each tag.
      graph_def: the last graph, serialised, or None.
      profiles: what processes recorded, of all sessions.
      damages: what was damaged and passed over, in words.
    """

    name: str
    folder: Path
    files: tuple[Path, ...]
    curves: dict[str, Curve]
    histograms: dict[str, list[Histogram]]
    texts: dict[str, str]
    graph_def: bytes | None
    profiles: tuple[Timeline, ...]
    damages: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Time from the first value to the last one, in seconds."""
        times = self._times()
        return float(times.max() - times.min()) if times.size else 0.0

    @property
    def started(self) -> float | None:
        """When the first value was written, in seconds since the epoch, or None where no time is known."""
        times = self._times()
        return float(times.min()) if times.size else None

    @property
    def last_step(self) -> int | None:
        """The largest step of a curve or a histogram, or None where there is none."""
        steps = [int(curve.steps[-1]) for curve in self.curves.values()]
        steps += [found[-1].step for found in self.histograms.values()]
        return max(steps, default=None)

    def _times(self) -> Floats:
        """Times of all values, but for those that are none."""
        times = np.concatenate([np.zeros(0), *(curve.seconds for curve in self.curves.values())])
        return times[(times > 0) & (times < _YEAR_9999)]


def load_runs(folders: Sequence[str | os.PathLike[str]]) -> list[Run]:
    """Read the runs of folders; a folder may hold several, such as `train` and `validation`.

    What is damaged is passed over and noted in `Run.damages`.

    Args:
      folders: at least one.
    Raises:
      NotFoundError: a folder has neither event files nor profiles in it.
    """
    roots = _names([Path(folder) for folder in folders])
    return [run for root, label in roots.items() for run in _runs_in(root, label)]


def _names(roots: Sequence[Path]) -> dict[Path, str]:
    """Return a short name for each folder, that no other one has; none where there is but one folder."""
    distinct = list(dict.fromkeys(roots))
    if len(distinct) == 1:
        return {distinct[0]: ""}
    parts = [path.resolve().parts for path in distinct]
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts) and depth < max(map(len, parts)):
        depth += 1
    return {path: "/".join(part[-depth:]) for path, part in zip(distinct, parts, strict=True)}


def _runs_in(root: Path, label: str) -> list[Run]:
    profile_files = sorted(root.rglob("*.xplane.pb")) if root.is_dir() else []
    try:
        files_of_run = find_runs(root)
    except NotFoundError:
        if not profile_files:
            raise
        files_of_run = {}
    folders = {name: Path(files[0]).parent for name, files in files_of_run.items()}
    profiles: dict[str, list[Path]] = {}
    for path in profile_files:
        owner = path.parent.parent.parent.parent  # <run>/plugins/profile/<session>/<file>
        name = next((name for name, folder in folders.items() if folder == owner), None)
        if name is None:
            name = owner.relative_to(root).as_posix() if owner.is_relative_to(root) else "."
            folders.setdefault(name, owner)
        profiles.setdefault(name, []).append(path)
    return [
        _run(_run_name(label, name, root), folder, files_of_run.get(name, []), profiles.get(name, []))
        for name, folder in sorted(folders.items(), key=lambda item: _natural(item[0]))
    ]


def _natural(name: str) -> list[tuple[float, str]]:
    """Return what puts names in the order in which people count: `run2` before `run10`."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if place % 2 else (math.inf, part) for place, part in enumerate(parts)]


def _run_name(label: str, name: str, root: Path) -> str:
    if name == ".":
        return label or root.resolve().name
    return f"{label}/{name}" if label else name


def _run(name: str, folder: Path, files: Sequence[Place], profile_files: Sequence[Path]) -> Run:
    damages: list[str] = []

    def note(error: HeadraceError) -> None:
        damages.append(f"{error.what} ({error.where})" if error.where else error.what)

    kinds = frozenset({"scalars", "histograms", "text"})
    values = read_run(files, strict=False, on_damage=note, kinds=kinds)
    graphs = [event.graph_def for event in whole_events(files, strict=False) if event.HasField("graph_def")]
    profiles = []
    for path in profile_files:
        try:
            profiles.append(read_xspace(path))
        except HeadraceError as error:
            note(error)
    return Run(
        name=name,
        folder=folder,
        files=tuple(map(Path, files)),
        curves=_curves([value for value in values if value.kind == "scalars" and isinstance(value.value, float)]),
        histograms=_histograms([value for value in values if value.kind == "histograms"]),
        texts={value.tag: "\n".join(np.ravel(value.value)) for value in values if _is_text(value)},
        graph_def=graphs[-1] if graphs else None,
        profiles=tuple(profiles),
        damages=tuple(dict.fromkeys(damages)),
    )


def _is_text(value: LoggedValue) -> bool:
    return value.kind == "text" and isinstance(value.value, np.ndarray) and value.value.dtype.kind == "U"


def _by_tag(values: Sequence[LoggedValue]) -> dict[str, list[LoggedValue]]:
    found: dict[str, list[LoggedValue]] = {}
    for value in values:
        found.setdefault(value.tag, []).append(value)
    return found


def _curves(values: Sequence[LoggedValue]) -> dict[str, Curve]:
    curves = {}
    for tag, points in _by_tag(values).items():
        steps = np.array([point.step for point in points], np.int64)
        order = np.argsort(steps, kind="stable")
        seconds = np.array([point.wall_time for point in points])
        curves[tag] = Curve(steps[order], seconds[order], np.array([point.value for point in points])[order])
    return curves


def _histograms(values: Sequence[LoggedValue]) -> dict[str, list[Histogram]]:
    found: dict[str, list[Histogram]] = {}
    for value in values:
        rows: Any = value.value
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] == 3 and rows.dtype.kind == "f":
            found.setdefault(value.tag, []).append(Histogram(value.step, rows.astype(np.float64)))
    return {tag: sorted(items, key=lambda item: item.step) for tag, items in found.items()}
