"""What the viz package must hold, one function per row of its table."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import viz_profile
from measure.environments import ROOT, SCRATCH, kept_environment, run, tail
from measure.report import Row
from measure.suites import hard_cases, run_tests

VIZ = ROOT / "packages" / "viz"
CORE = ROOT / "packages" / "core"
TESTS = VIZ / "tests"
PEERS = ("tensorboardX>=2.6.3", "tensorboard>=2.18")
HARD_CASES = ("B01", "B03", "B05", "B07")


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: fewer rounds, in this environment, beside the peer only if it is installed here.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    yield hard_cases(TESTS, "B", HARD_CASES)
    yield from hostile()
    yield killed()
    yield from served()
    yield step_graphs()
    yield rendered(quick)
    yield large_graph(quick)
    yield from writing(quick)
    yield from viz_profile.rows(quick)


def hostile() -> Iterator[Row]:
    """Run the tests of torn and damaged files, and the fuzzing of the readers."""
    yield run_tests(
        "torn files",
        "truncated at every byte of the last three records: exactly the complete records",
        "-k",
        "torn or truncated",
        str(TESTS / "test_writer.py"),
        str(TESTS / "test_records.py"),
        str(TESTS / "test_tensorboard.py"),
    )
    yield run_tests(
        "hostile files",
        "a flipped bit is detected by the strict reader; fuzzed files give values or a DataLossError",
        "-k",
        "flipped or fuzz or length or damaged or lenient",
        str(TESTS / "test_records.py"),
        str(TESTS / "test_reading.py"),
        str(TESTS / "test_tensors.py"),
    )


def killed() -> Row:
    """Kill writers at work and resume."""
    return run_tests(
        "kill -9 while writing",
        "restart with purge_step: one clean curve, in our reader and in TensorBoard",
        "-k",
        "killed or resumed",
        str(TESTS / "test_writer.py"),
        str(TESTS / "test_tensorboard.py"),
        str(TESTS / "test_reading.py"),
    )


def served() -> Iterator[Row]:
    """Ask stock TensorBoard, under each of its loaders, and look at its pages."""
    for loader, value in (("fast", "true"), ("python", "false")):
        yield run_tests(
            f"stock TensorBoard, --load_fast={value}",
            "every data kind served with the right values through its HTTP interface",
            "-k",
            loader,
            str(TESTS / "test_tensorboard.py"),
        )


def step_graphs() -> Row:
    """Write the graphs of a step on two devices, and ask stock TensorBoard for them."""
    return run_tests(
        "graphs of a step",
        "functions with shapes, the device of each operation, a graph for each device with its transfers; served",
        "-k",
        "graph or device or metadata",
        str(TESTS / "test_graph_view.py"),
        str(TESTS / "test_run_metadata.py"),
        str(TESTS / "test_writer.py"),
        str(TESTS / "test_tensorboard.py"),
    )


def rendered(quick: bool) -> Row:
    """Look at TensorBoard's pages in Chromium; at its page of profiles too, where its plugin is installed."""
    what = "stock TensorBoard in Chromium"
    asked = "names of nodes, tags, hyper-parameters and, in profiles, of operations found in its pages"
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        return Row(what, asked, "no Chromium is installed", False)
    environment = {"HEADRACE_BROWSER": browser}
    tests = "-m", "browser", str(TESTS / "test_browser.py"), str(TESTS / "report" / "test_page.py")
    if quick:
        return run_tests(what, asked, *tests, env=environment, may_skip=True)
    python = kept_environment(
        "viz-browser", "tensorboard>=2.18", "tensorboard-plugin-profile", "pytest>=8.3", "hypothesis>=6.112",
        "-e", str(CORE), "-e", str(VIZ),
    )  # fmt: skip
    return run_tests(what, asked, *tests, env=environment, python=str(python))


def large_graph(quick: bool) -> Row:
    """Write a graph of 100,000 nodes and ask TensorBoard for it."""
    python = sys.executable if quick else str(peer())
    file = SCRATCH / "large_graph.json"
    done = run([python, str(VIZ / "benchmarks" / "large_graph.py"), "--operations", "100000", "--json", str(file)])
    if done.returncode != 0:
        return Row("graph of 100,000 nodes", "the benchmark runs", "it failed", False, tail(done.stdout))
    found = json.loads(file.read_text())
    served, seconds = found.get("nodes_served", 0), found.get("serve_seconds", 0.0)
    return Row(
        "graph of 100,000 nodes",
        "written in < 2 s, TensorBoard answers",
        f"{found['write_seconds']:.2f} s; {served} nodes served after {seconds:.1f} s",
        found["write_seconds"] < 2 and served == found["operations"],
    )


def writing(quick: bool) -> Iterator[Row]:
    """Measure what writing costs, beside tensorboardX."""
    python = sys.executable if quick else str(peer())
    file = SCRATCH / "writing.json"
    command = [python, str(VIZ / "benchmarks" / "writing.py"), "--json", str(file)]
    done = run([*command, "--quick"] if quick else command)
    if done.returncode != 0:
        yield Row("speed", "the benchmark runs", "it failed", False, tail(done.stdout))
        return
    result = json.loads(file.read_text())
    costs = {cost["name"]: cost for cost in result["costs"]}

    def row(name: str, what: str, bound_us: float | None, times: float | None) -> Row:
        cost = costs[name]
        ours, ratio = cost["microseconds"]["headrace"], cost["ratio"]
        bounds = [] if bound_us is None else [f"<= {bound_us:.0f} us"]
        bounds += [] if times is None else [f">= {times:.0f} x tensorboardX"]
        beside = "tensorboardX not measured" if ratio is None else f"tensorboardX takes {ratio:.2f} times as long"
        holds = (bound_us is None or ours <= bound_us) and (times is None or (ratio is not None and ratio >= times))
        spread = cost["spread"]["headrace"]
        return Row(f"speed: {what}", " and ".join(bounds), f"{ours:.1f} us (spread {spread:.1f}; {beside})", holds)

    yield row("add_scalar", "add_scalar, written", 8.0, 3.0)
    for kind in ("natural", "noise"):
        what = f"image, {result['image_bytes'] / 1e6:.2f} MB of {kind} pixels, as the caller sees it"
        image = row(f"add_image, {kind}, call", what, 2000.0, None)
        written = costs[f"add_image, {kind}, written"]["microseconds"]
        beside = f"; tensorboardX {written['tensorboardX'] / 1000:.1f} ms" if "tensorboardX" in written else ""
        detail = f"compressed and written: {written['headrace'] / 1000:.1f} ms{beside}"
        yield Row(image.what, image.asked, image.measured, image.holds, detail)
    yield row("add_histogram", f"histogram of {result['elements'] / 1e6:.0f} M floats", None, 5.0)
    step = result["step"]
    yield Row(
        "speed: training step with a scalar at each",
        "< 1 % slower",
        f"{step['added_share']:+.2%} of {step['step_us']:.0f} us",
        step["added_share"] < 0.01,
    )


def peer() -> Path:
    """Return the Python of the environment with the peers."""
    return kept_environment("viz-peer", *PEERS, "-e", str(CORE), "-e", str(VIZ))
