"""Try what is installed, away from the sources: imports, entry points, the command, one step, a save and an export."""

from __future__ import annotations

import importlib
import subprocess
import sys
import sysconfig
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np

import headrace as hr

MODULES = ("headrace", "headrace_checkpoint", "headrace_cpu", "headrace_serving", "headrace_viz")
GROUPS = ("headrace.backends", "headrace.ops", "headrace.session_targets", "headrace.commands", "headrace.inspectors")


def train() -> float:
    """Fit a line by 100 steps and return the last loss."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        y = hr.placeholder(hr.float32, [None, 1], name="y")
        w = hr.Variable(hr.zeros([2, 1]), name="w")
        loss = hr.mean(hr.square(x @ w - y))
        update = hr.optim.SGD(0.1).minimize(loss)
    points = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    truth = points @ np.array([[3.0], [-2.0]], np.float32)
    with hr.Session(graph) as session:
        step = session.make_callable([loss, update], feeds=[x, y])
        for _ in range(100):
            value, _ = step(points, truth)
    return float(value)


def main() -> str | None:
    """Return what is wrong, or None."""
    for name in MODULES:
        place = Path(str(importlib.import_module(name).__file__)).resolve()
        if not place.is_relative_to(Path(sysconfig.get_path("purelib")).resolve()):
            return f"{name} was imported from {place}, not from an installed wheel"
    for group in GROUPS:
        for point in entry_points(group=group):
            point.load()
            print(f"{group}: {point.name} loads")
    for arguments in (["--help"], ["devices"], ["ops", "MatMul"], ["serve", "--help"]):
        command = [str(Path(sys.executable).parent / "headrace"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 or not done.stdout:
            return f"{' '.join(command)} failed: {done.stdout}{done.stderr}"
    loss = train()
    print(f"100 steps: loss {loss:.2e}")
    return None if loss < 1e-6 else f"the loss is {loss} after 100 steps"


if __name__ == "__main__":
    sys.exit(main())
