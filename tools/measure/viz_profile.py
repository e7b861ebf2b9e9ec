"""What the profiler of the viz package must hold: aligned clocks, times that add up, and little cost."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure.environments import ROOT, SCRATCH, kept_environment, run, tail
from measure.report import Row

PROCESSES = 3
STEPS = 20
TRANSFERS = 3
SIDE = 64
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

DIVIDED = f"""
import sys
import numpy as np
import headrace as hr
import headrace_viz

with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [None, {SIDE}])
    y = x
    for number in range({TRANSFERS} + 1):
        with hr.device(f"CPU:{{number % 2}}"):
            y = hr.tanh(hr.matmul(y, y))
with hr.Session(graph, config=hr.config(virtual_devices={{"CPU": 2}})) as session:
    run = session.make_callable(y, [x])
    value = np.ones(({SIDE}, {SIDE}), np.float32)
    run(value)
    with headrace_viz.profile(sys.argv[1], session="together") as profile:
        for _ in range({STEPS}):
            run(value)
print(profile.table())
"""


def rows(quick: bool) -> Iterator[Row]:
    """Yield the profiler's rows."""
    yield alignment(quick)
    yield devices()
    yield from overhead(quick)
    if not quick:
        yield plugin()


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


def devices() -> Row:
    """Profile steps on two devices, and look for both of them and for every transfer in all that is written."""
    from headrace_viz.profiling.xspace import read_xspace

    what = "profiler: several devices"
    asked = "each device has lines; every transfer with its bytes; in XSpace, Chrome trace and table"
    with tempfile.TemporaryDirectory() as folder:
        done = run([sys.executable, "-c", DIVIDED, folder])
        if done.returncode != 0:
            return Row(what, asked, "the profile failed", False, tail(done.stdout))
        (path,) = Path(folder).rglob("*.xplane.pb")
        (chrome,) = Path(folder).rglob("*.trace.json.gz")
        timeline = read_xspace(path)
        events = json.loads(gzip.decompress(chrome.read_bytes()))["traceEvents"]
    moved = [transfer for step in timeline.steps for transfer in step.transfers]
    ran_on = {segment.device for step in timeline.steps for segment in step.segments}
    groups = [event for event in events if event["name"] == "process_name"]
    arrows = sum(event["ph"] == "s" for event in events)
    inside = all(
        step.start_ns <= run.start_ns <= run.end_ns <= step.end_ns for step in timeline.steps for run in step.events
    )
    in_table = f"per step {TRANSFERS:.1f} transfers" in done.stdout
    holds = (
        ran_on == {"CPU:0", "CPU:1"}
        and len(groups) == len(ran_on)
        and [transfer.bytes for transfer in moved] == [SIDE * SIDE * 4] * (TRANSFERS * STEPS)
        and arrows == len(moved)
        and inside
        and in_table
    )
    return Row(
        what,
        asked,
        f"{len(ran_on)} devices in {len(groups)} groups of rows; {len(moved)} transfers of "
        f"{sum(transfer.bytes or 0 for transfer in moved)} bytes, {arrows} arrows; operations "
        f"{'inside' if inside else 'OUTSIDE'} their steps; {'in' if in_table else 'NOT in'} the table",
        holds,
    )


def overhead(quick: bool) -> Iterator[Row]:
    """Measure what profiling costs a step, and whether the times of its operations add up, on each backend."""
    for backend, what in (("numpy", "NumPy backend"), ("cpu", "native backend")):
        file = SCRATCH / f"profile_overhead_{backend}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        script = ROOT / "packages" / "viz" / "benchmarks" / "profile_overhead.py"
        command = [sys.executable, str(script), "--backend", backend, "--json", str(file)]
        done = run([*command, *(["--quick"] if quick else [])])
        if done.returncode != 0:
            yield Row(f"profiler: cost, {what}", "the benchmark runs", "it failed", False, tail(done.stdout))
            continue
        found = json.loads(file.read_text())
        runs = "operations" if backend == "numpy" else "groups of operations"
        yield Row(
            f"profiler: times of operations add up, {what}",
            "their sum is within 10 % of the step's wall time, on one thread",
            f"{found['op_share']:.1%} (worst of ten {found['op_share_lowest']:.1%}) of a step of "
            f"{found['operations']} {runs}",
            abs(1 - found["op_share"]) <= 0.1,
        )
        yield Row(
            f"profiler: cost, {what}",
            "a training step of some milliseconds takes < 3 % longer",
            f"{found['overhead']:+.2%} of {found['step_ms']:.1f} ms of processor time; "
            f"of wall time, beside whatever else ran, {found['wall_overhead']:+.2%}",
            found["overhead"] < 0.03,
        )


def plugin() -> Row:
    """Let stock TensorBoard with its profile plugin, and without TensorFlow, serve a profile."""
    what, asked = "profiler: TensorBoard", "its profile plugin serves steps and operations of a profile"
    python = kept_environment("profile-plugin", "tensorboard>=2.18", "tensorboard-plugin-profile")
    with tempfile.TemporaryDirectory() as logdir:
        run([sys.executable, "-c", DIVIDED, logdir])
        (profile,) = Path(logdir).rglob("*.xplane.pb")
        port = _free_port()
        command = [str(python.with_name("tensorboard")), "--logdir", logdir, "--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            runs = _answer(f"http://127.0.0.1:{port}/data/plugin/profile/runs", wait_seconds=90)
            data = (
                f"http://127.0.0.1:{port}/data/plugin/profile/data?run=together&host={profile.name.split('.')[0]}&tag="
            )
            events = _answer(data + "trace_viewer")["traceEvents"]
            table = [[cell["v"] for cell in row["c"]] for row in _answer(data + "framework_op_stats")[0]["rows"]]
        except OSError as error:
            return Row(what, asked, f"no answer: {error}", False)
        finally:
            server.terminate()
            server.wait(timeout=30)
    names = [event.get("name", "") for event in events]
    steps = sum(name.startswith("Step ") for name in names)
    lines = {event["args"]["name"] for event in events if event.get("name") in ("process_name", "thread_name")}
    products = [row for row in table if "MatMul" in row]
    devices_shown = {"/device:CUSTOM:CPU:1", "transfers"} <= lines
    return Row(
        what,
        asked,
        f"sessions {runs}; {steps} steps in the trace; the second device and its transfers "
        f"{'have' if devices_shown else 'have NO'} lines; {len(products)} row(s) of MatMul in its table of operations",
        runs == ["together"] and steps == STEPS and devices_shown and bool(products),
        "" if devices_shown else ", ".join(sorted(lines)),
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _answer(url: str, *, wait_seconds: float = 0.0) -> Any:
    """Return the JSON that a server answers, waiting for the server to come up."""
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=60) as reply:
                body = reply.read()
                return json.loads(gzip.decompress(body) if reply.headers.get("Content-Encoding") == "gzip" else body)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.5)
