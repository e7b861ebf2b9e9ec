"""What the execution model must hold, one function per row of its table."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.core import CORE, PEER
from measure.environments import ROOT, SCRATCH, kept_environment, run, tail
from measure.report import Row
from measure.suites import CLOSING, run_tests

TESTS = CORE / "tests"
CHECKPOINT = ROOT / "packages" / "checkpoint"
KERNELS = ROOT / "packages" / "kernels-cpu"
ROWS = (
    *(f"A{number}" for number in range(20, 39)),
    *(f"A{number}" for number in range(40, 46)),
    *(f"A{number}" for number in range(50, 57)),
    *(f"A{number}" for number in range(60, 69)),
    *(f"A{number}" for number in range(70, 78)),
    *(f"A{number}" for number in range(80, 86)),
    *(f"D{number:02}" for number in (*range(4, 11), *range(13, 21))),
)
"""Ids of the checklist that can hold in one process."""

HARD_CASES = (
    *(f"O{number:02}" for number in range(1, 56, 2)),
    *(f"G{number:02}" for number in range(1, 20, 2)),
    *(f"T{number:02}" for number in range(1, 10, 2)),
)
"""Groups 1, 2 and 3: operations, gradients and control flow, optimisers."""

OVERHEAD = (
    ("control_flow", "smallest_iteration", "an iteration of a while loop of a thousand"),
    ("control_flow", "loop_of_ten", "a while loop of ten iterations"),
    ("control_flow", "branch", "a cond"),
    ("queues", "element", "an enqueue and a dequeue"),
    ("sparse", "gather + sparse update", "a gather and a sparse update"),
)
CHEAPER = 3.0
OVER_NUMPY = 15.0


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: leave out the numerical check of every operation and what is marked slow, take fewer random graphs and
        shorter runs, and measure beside TensorFlow only where it is installed here.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    names = collected(TESTS, CHECKPOINT / "tests")
    yield hard(names)
    yield loops()
    yield imported()
    yield queues(quick)
    yield watch(quick)
    yield placement(quick)
    yield checklist(names, quick)
    has_peer = importlib.util.find_spec("tensorflow") is not None
    if has_peer or not quick:
        yield from overhead(sys.executable if has_peer else str(peer("execution-native-peer", KERNELS)), quick)
        yield from oracle(sys.executable if has_peer else str(peer("execution-peer")), quick)
    else:
        yield loop_body(costs(sys.executable, "control_flow", quick))


def peer(name: str, *packages: Path) -> Path:
    """Return the Python of an environment with TensorFlow beside core and other packages of this checkout.

    What calls cost is what they cost a user, who installs the native backend; operations are compared on the NumPy
    backend, which defines them.
    """
    ours = (CORE, CHECKPOINT, *packages)
    return kept_environment(name, PEER, *(item for package in ours for item in ("-e", str(package))))


def collected(*folders: Path) -> list[str]:
    """Return the names of all tests under the folders."""
    listing = run([sys.executable, "-m", "pytest", "--collect-only", "-q", *map(str, folders)]).stdout
    return [line for line in listing.splitlines() if "::" in line]


def unnamed(ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the ids that no test name carries, in either case."""
    found = {match.upper() for name in names for match in re.findall(r"(?<![A-Za-z0-9])([A-Za-z]\d\d)(?!\d)", name)}
    return [item for item in ids if item not in found]


def named_row(what: str, ids: Sequence[str], names: Sequence[str], *arguments: str) -> Row:
    """Run tests and report their closing line together with the ids that no test names."""
    missing = unnamed(ids, names)
    row = run_tests(what, "a test names each id, and passes", *arguments, may_skip=True)
    measured = f"{len(ids) - len(missing)} of {len(ids)} ids named; {row.measured}"
    detail = f"{row.detail}\nno test names {', '.join(missing)}" if missing else row.detail
    return Row(what, row.asked, measured, row.holds and not missing, detail.strip())


def checklist(names: Sequence[str], quick: bool) -> Row:
    """Run the tests that carry an id of the checklist."""
    chosen = f"({' or '.join(ROWS)}) and not all_cases"  # which the row of placements runs
    if quick:
        chosen += " and not A70"
    folders = (str(TESTS), str(CHECKPOINT / "tests"))
    marked = ("-m", "not slow") if quick else ()
    return named_row("checklist", ROWS, names, "-k", chosen, *marked, *folders)


def hard(names: Sequence[str]) -> Row:
    """Run the tests that name a hard case of groups 1, 2 and 3, and their neighbours."""
    return named_row("hard cases", HARD_CASES, names, "-k", " or ".join(HARD_CASES), str(TESTS))


def placement(quick: bool) -> Row:
    """Scatter the operations, control flow and gradients over three devices."""
    return run_tests(
        "placement",
        "op, control-flow and gradient suites over 3 devices: equal bits; the parts are the graph; one Send per edge",
        *("-k", f"(A55 or A62 or A66){' and not all_cases' if quick else ''}"),
        str(TESTS),
        env={} if quick else {"HEADRACE_LONG_TESTS": "1"},
    )


def loops() -> Row:
    """Run loops of few and many iterations, nested ones, dead tensors, and second derivatives."""
    return run_tests(
        "loops",
        "0, 1 and 10^5 iterations; 3 deep; dead tensors through nested conds; second derivatives of while and scan",
        *("-k", "A60 or A61 or A63 or A64 or A65 or A67 or A68 or A74 or A75 or A76 or D16"),
        *(str(TESTS / folder) for folder in ("graph", "grad", "ops", "runtime")),
        str(TESTS / "test_random_control_flow.py"),
    )


def imported() -> Row:
    """Run graphs that TensorFlow 1 wrote."""
    return run_tests(
        "graphs of TensorFlow 1",
        "loops, conds, stacks, arrays, queues, accumulators from tf.compat.v1 import and run",
        *("-k", "tensorflow_1 or stack"),
        *(str(TESTS / folder) for folder in ("graph", "passes", "coordination")),
        *(str(TESTS / "ops" / f"test_{name}.py") for name in ("stack", "tensor_array")),
    )


def queues(quick: bool) -> Row:
    """Let a fast producer meet a slow consumer, and race steps against close and cancel."""
    elements = "10,000" if quick else "100,000"
    return run_tests(
        "queues",
        f"memory flat over {elements} elements; a thousand races of open, close and cancel leave no thread blocked",
        str(TESTS / "coordination"),
        env={} if quick else {"HEADRACE_LONG_TESTS": "1"},
    )


def watch(quick: bool) -> Row:
    """See that every package's tests run under the watch, that it finds what hangs, and that nothing does."""
    found = run_tests(
        "no hang",
        "every suite runs under a watch that lists blocked operations and fails after 60 s without progress",
        str(ROOT / "tests" / "test_stall_watch.py"),
    )
    suites = [*sorted(ROOT.glob("packages/*/tests")), ROOT / "tests"]
    command = [sys.executable, "-m", "pytest", "--collect-only"]
    bare = [
        str(suite.relative_to(ROOT))
        for suite in suites
        if "stall watch: a test fails after 60 s" not in run([*command, str(min(suite.glob("test_*.py")))]).stdout
    ]
    measured = f"{len(suites) - len(bare)} of {len(suites)} suites watched; the watch itself: {found.measured}"
    holds, detail = found.holds and not bare, "\n".join([found.detail, *bare]).strip()
    if not quick:
        done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, suites)])
        hung = re.findall(r"^(?:FAILED|ERROR) (\S+) - .*(?:no progress for|s in one phase)", done.stdout, re.MULTILINE)
        closing = (CLOSING.findall(done.stdout) or [tail(done.stdout, 1)])[-1]
        measured += f"; all tests: {closing}, {len(hung)} without progress"
        holds = holds and not hung and done.returncode in (0, 1)
        failed = re.findall(r"^(?:FAILED|ERROR) \S+", done.stdout, re.MULTILINE)
        detail = "\n".join([detail, *failed]).strip()
    return Row(found.what, found.asked, measured, holds, detail)


Costs = tuple[dict[str, dict[str, Any]], dict[str, Any], str]
"""The costs by name as the benchmark wrote them; its other results; and what it printed."""


def costs(python: str, script: str, quick: bool) -> Costs:
    """Run a benchmark of core."""
    file = SCRATCH / f"{script}.json"
    file.unlink(missing_ok=True)
    command = [python, str(CORE / "benchmarks" / f"{script}.py"), "--json", str(file)]
    done = run([*command, "--quick"] if quick else command)
    if done.returncode != 0:
        return {}, {}, tail(done.stdout)
    result = json.loads(file.read_text())
    found = {cost["name"]: cost for cost in result["costs"]}
    return found, {name: value for name, value in result.items() if name != "costs"}, tail(done.stdout)


def loop_body(measured: Costs) -> Row:
    """Judge what an iteration of ten small operations costs over NumPy's own time, on the NumPy backend."""
    found, numbers, printed = measured
    over = numbers.get("iteration_us_over_numpy", float("inf"))
    asked = f"<= {OVER_NUMPY:g} us over NumPy's own time"
    shown = f"{over:.2f} us on the NumPy backend"
    if "iteration" in found and numbers.get("backend") != "numpy":
        shown += f"; {found['iteration']['microseconds']['headrace']:.2f} us in all on the native one"
    return Row("overhead: a loop body of ten small ops", asked, shown, over <= OVER_NUMPY, printed)


def overhead(python: str, quick: bool) -> Iterator[Row]:
    """Measure what loops, branches, queues and sparse updates cost beside TensorFlow."""
    found = {script: costs(python, script, quick) for script in dict.fromkeys(script for script, _, _ in OVERHEAD)}
    for script, name, what in OVERHEAD:
        yield overhead_row(what, found[script][0].get(name))
    yield loop_body(found["control_flow"])


def overhead_row(what: str, cost: Mapping[str, Any] | None) -> Row:
    """Judge one cost beside TensorFlow's; the NumPy backend's is shown where it is not the one that is measured."""
    ratio = None if cost is None else cost["ratio"]
    measured = "not measured"
    if cost is not None and ratio is not None:
        measured = f"TensorFlow takes {ratio:.2f} times as long"
        plain = cost["microseconds"].get("numpy backend")
        if plain is not None:
            beside = cost["microseconds"]["tensorflow"] / plain
            measured += f" ({beside:.2f} times as long as the NumPy backend)"
    holds = ratio is not None and ratio >= CHEAPER
    return Row(f"overhead: {what}", f">= {CHEAPER:g} times cheaper than in TensorFlow", measured, holds)


def oracle(python: str, quick: bool) -> Iterator[Row]:
    """Compare random graphs, both ways, and operation cases unless quick, with TensorFlow."""
    count = 30 if quick else 500
    file = SCRATCH / "oracle.json"
    file.unlink(missing_ok=True)
    command = [python, "-m", "oracle", "--no-record", "--graphs", str(count), "--json", str(file)]
    done = run([*command, "--no-cases"] if quick else command, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")})
    detail = "" if done.returncode == 0 else tail(done.stdout, 30)
    if not file.exists():
        yield Row("oracle", "the comparison runs", "it failed", False, detail)
        return
    found = json.loads(file.read_text())
    yield Row(
        "oracle: random graphs",
        f"{count} graphs with control flow, queues and state, and their gradient graphs, equal both ways",
        "; ".join(f"{direction}: {equal} of {count}" for direction, equal in found["graphs"].items()),
        all(equal == count for equal in found["graphs"].values()),
        detail,
    )
    if not quick:
        wrong = sum(found["cases"].get(outcome, 0) for outcome in ("differs", "refused here only"))
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(found["cases"].items()))
        yield Row("oracle: operation cases", "every case equal to TensorFlow's", outcomes, wrong == 0, detail)
