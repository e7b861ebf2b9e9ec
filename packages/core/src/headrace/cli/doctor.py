"""`headrace doctor`: whether everything here works, and what would make it faster."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np

from headrace.cli.devices import advice
from headrace.config import config
from headrace.errors import HeadraceError
from headrace.graph.graph import Graph
from headrace.ops.array import zeros
from headrace.ops.linalg import matmul
from headrace.plan.plan import backends, find_backend
from headrace.plan.threads import available_threads, blas_libraries, own_quota
from headrace.session import Session

__all__ = ["Finding", "doctor", "findings"]

GROUPS = ("headrace.ops", "headrace.backends", "headrace.session_targets", "headrace.commands", "headrace.inspectors")
"""Where packages say what they bring."""

NEEDED = ("numpy", "protobuf", "ml_dtypes", "click", "tqdm")

_VARIABLES = ("HEADRACE_", "OMP_", "OPENBLAS_", "MKL_", "BLIS_")
"""What begins like this in the environment changes how Headrace computes."""

_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
      about: what it is about, in a word.
      state: `"ok"`, `"advice"` where something would be faster, or `"problem"` where something does not work.
      text: what was found.
      try_this: what to do about it, or an empty string.
    """

    about: str
    state: str
    text: str
    try_this: str = ""


def findings() -> Iterator[Finding]:
    """Look at everything, and run a step on each backend. What does not work is a finding too, never an error."""
    yield Finding("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from _packages()
    yield from _plugins()
    yield from _backends()
    yield from _threads()
    yield from _environment()
    yield from _gpu()
    for line in _safely(advice) or ():
        text, _, command = line.rpartition(": ")
        yield Finding("speed", "advice", text, command)


def _packages() -> Iterator[Finding]:
    """The distributions that matter, with their versions."""
    names = {item.metadata["Name"] for item in metadata.distributions()}
    ours = sorted(name for name in names if name and name.lower().startswith("headrace-"))
    for name in ("headrace", *ours, *NEEDED):
        try:
            yield Finding("package", "ok", f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            yield Finding("package", "problem", f"{name} is not installed as a package", f"pip install {name}")


def _plugins() -> Iterator[Finding]:
    """What packages bring must load: something that was installed and does not work is no silent loss."""
    for group in GROUPS:
        for entry in metadata.entry_points(group=group):
            try:
                entry.load()
            except Exception as error:  # whatever a package raises is what the user has to know
                owner = entry.dist.name if entry.dist is not None else entry.value
                text = f"{entry.name} of {owner} does not load: {_first_line(error)}"
                yield Finding("plug-in", "problem", text, f"pip install --upgrade {owner}")


def _backends() -> Iterator[Finding]:
    """Each backend, with its devices and a step that it runs."""
    try:
        installed = backends()
        default = find_backend("auto").name
    except (HeadraceError, ImportError) as error:
        yield Finding("backend", "problem", _first_line(error), getattr(error, "hint", None) or "")
        return
    for name in sorted(installed):
        devices = ", ".join(installed[name].devices())
        if not devices:
            yield Finding("backend", "advice", f"{name} offers no device here")
            continue
        chosen = ", the one that is taken by default" if name == default else ""
        begin = time.perf_counter()
        failure = _failure_of_step(name)
        if failure is not None:
            text, hint = failure
            usual = "please report this" if name == "numpy" else f"pip install --upgrade headrace-kernels-{name}"
            yield Finding("backend", "problem", f"{name} ({devices}) does not compute: {text}", hint or usual)
        else:
            spent = time.perf_counter() - begin
            yield Finding("backend", "ok", f"{name} ({devices}){chosen}; a first step took {1e3 * spent:.0f} ms")


def _failure_of_step(backend: str) -> tuple[str, str | None] | None:
    """What is wrong with a small step, and what to do about it where that is known; None if nothing is."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    try:
        graph = Graph()
        with graph.as_default():
            y = matmul(x, x.T) + zeros([3, 3])
        with Session(graph, config=config(backend=backend)) as session:
            found = session.run(y)
    except Exception as error:  # see `findings`
        return _first_line(error), getattr(error, "hint", None)
    if np.allclose(found, x @ x.T):
        return None
    return f"expected {(x @ x.T).tolist()}, got {found.tolist()}", None


def _threads() -> Iterator[Finding]:
    """How many threads steps use, and why."""
    quota = own_quota()
    limit = "" if quota is None else f", quota of the control group {quota:g}"
    text = f"steps use up to {available_threads()} threads: {os.cpu_count()} processors{limit}"
    yield Finding("threads", "ok", f"{text}; hr.config(threads=...) bounds all pools")
    for library in blas_libraries():
        yield Finding("threads", "ok", f"{library.name} of NumPy uses {library.read()} threads: {library.path}")
    if not blas_libraries():
        yield Finding(
            "threads", "advice", "hr.config(threads=...) cannot bound the BLAS of this NumPy", "pip install numpy"
        )


def _environment() -> Iterator[Finding]:
    """Variables that change how Headrace computes. The text may end up in a bug report, so it has no secrets in it."""
    for name, value in sorted(os.environ.items()):
        if name.startswith(_VARIABLES):
            shown = "..." if any(word in name for word in _SECRET) else value
            yield Finding("environment", "ok", f"{name}={shown}")


def _gpu() -> Iterator[Finding]:
    """A graphics processor that nothing uses is worth a line."""
    driver = Path("/proc/driver/nvidia/version")
    found = driver.exists() or _safely(lambda: ctypes.CDLL("libcuda.so.1")) is not None
    if found and "gpu" not in (_safely(backends) or {}):
        yield Finding(
            "gpu", "advice", "there is an NVIDIA driver and no backend for it", "pip install headrace-kernels-gpu"
        )


def _safely(function: Callable[[], Any]) -> Any:
    """What a function gives, or None where it fails: the failure is another finding already."""
    try:
        return function()
    except (HeadraceError, ImportError, OSError):
        return None


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check the installation: versions, plug-ins, backends, threads. Ends with code 1 if something does not work."""
    found = list(findings())
    if as_json:
        click.echo(json.dumps([asdict(item) for item in found], indent=2))
    else:
        for item in found:
            click.echo(f"{item.state:<8} {item.about:<12} {item.text}")
            if item.try_this:
                click.echo(f"{'':<8} {'':<12} try: {item.try_this}")
        counts = {state: sum(item.state == state for item in found) for state in ("problem", "advice")}
        problems, things = _count(counts["problem"], "problem"), _count(counts["advice"], "thing")
        click.echo(f"{problems}, {things} that would make it faster")
    if any(item.state == "problem" for item in found):
        sys.exit(1)
