"""What the profiler of the viz package must hold: aligned clocks, times that add up, and little cost."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measure.environments import ROOT, SCRATCH, run, tail
from measure.report import Row

PROCESSES = 3
MILLISECOND_NS = 1_000_000
CHILD = """
import sys
import numpy as np
import headrace as hr
import headrace_viz

with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [8, 8])
    y = hr.matmul(x, x)
run = hr.Session(graph).make_callable(y, [x])
value = np.ones((8, 8), np.float32)
run(value)
with headrace_viz.profile(sys.argv[1], session="together"):
    for line in sys.stdin:
        run(value)
        print("done", flush=True)
"""


def rows(quick: bool) -> Iterator[Row]:
    """Yield the profiler's rows."""
    yield alignment(quick)
    yield from overhead(quick)


def alignment(quick: bool) -> Row:
    """Let three processes run steps by turns, merge their profiles, and see whether the order is kept.

    A step begins after the one before it has ended, because a message goes from one process to the next in between. So
    where the merged trace has a step begin earlier than that, its clocks are wrong by at least as much. Beside it
    stands how far the processes' wall clocks are apart, as read from their steady clock, which they share here.
    """
    rounds = 5 if quick else 50
    with tempfile.TemporaryDirectory(dir=SCRATCH if SCRATCH.exists() else None) as folder:
        children = [_started(folder) for _ in range(PROCESSES)]
        for _ in range(rounds):
            for child in children:
                _turn(child)
        for child in children:
            child.communicate(timeout=60)
        output = Path(folder) / "merged.json"
        done = run(
            [str(Path(sys.executable).with_name("headrace")), "profile", "merge", folder, "-o", str(output), "--json"]
        )
        if done.returncode != 0:
            return Row("profiler: merged timeline", "the profiles merge", "they do not", False, tail(done.stdout))
        trace = json.loads(output.read_bytes())["traceEvents"]
        apart = _apart(Path(folder))
    steps = sorted((event for event in trace if event.get("cat") == "step"), key=lambda event: event["ts"])
    owners = [event["pid"] for event in steps]
    in_turn = owners == owners[:PROCESSES] * rounds and len(set(owners)) == PROCESSES
    early = max(a["ts"] + a["dur"] - b["ts"] for a, b in itertools.pairwise(steps)) * 1000
    return Row(
        "profiler: traces of three processes on one timeline",
        "clocks aligned to < 1 ms on one host",
        f"{len(steps)} steps {'in' if in_turn else 'NOT in'} the order in which they ran; the closest two are "
        f"{-early / 1000:.1f} us apart; by wall clocks alone they would be off by {apart / 1000:.3f} us",
        in_turn and early < MILLISECOND_NS and apart < MILLISECOND_NS,
    )


def _started(folder: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _turn(child: subprocess.Popen[str]) -> None:
    """Let a process run a step, and wait until it has."""
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("the process was started without pipes")
    child.stdin.write("go\n")
    child.stdin.flush()
    if child.stdout.readline() != "done\n":
        raise RuntimeError("the process has ended")


def _apart(folder: Path) -> int:
    """Return by how many nanoseconds the processes' wall clocks differ at one moment of the clock that they share."""
    from headrace_viz.profiling.clock import ProcessClock, wall_offsets
    from headrace_viz.profiling.xspace import read_xspace

    clocks = [read_xspace(path).clock for path in folder.rglob("*.xplane.pb")]
    offsets = wall_offsets([ProcessClock("", clock.pairs) for clock in clocks])
    return max(offsets) - min(offsets)


def overhead(quick: bool) -> Iterator[Row]:
    """Measure what profiling costs a step, and whether the times of its operations add up."""
    file = SCRATCH / "profile_overhead.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    script = ROOT / "packages" / "viz" / "benchmarks" / "profile_overhead.py"
    done = run([sys.executable, str(script), "--json", str(file), *(["--quick"] if quick else [])])
    if done.returncode != 0:
        yield Row("profiler: cost", "the benchmark runs", "it failed", False, tail(done.stdout))
        return
    found = json.loads(file.read_text())
    yield Row(
        "profiler: times of operations add up",
        "their sum is within 10 % of the step's wall time, on one thread",
        f"{found['op_share']:.1%} (worst of ten {found['op_share_lowest']:.1%}) of a step of {found['operations']}",
        abs(1 - found["op_share"]) <= 0.1,
    )
    yield Row(
        "profiler: cost",
        "a training step of about 10 ms takes < 3 % longer",
        f"{found['overhead']:+.2%} of {found['step_ms']:.1f} ms (median {found['overhead_of_median']:+.2%})",
        found["overhead"] < 0.03,
    )
