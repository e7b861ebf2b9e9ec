"""What the core package must hold, one function per row of its table."""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measure import hard_cases, raise_sites
from measure.environments import ROOT, SCRATCH, clone, fresh_environment, kept_environment, run, tail
from measure.report import Row
from measure.suites import CLOSING, run_tests

CORE = ROOT / "packages" / "core"
PEER = "tensorflow-cpu>=2.18"
FOREIGN = ("cupy", "fastapi", "grpc", "llvmlite", "tensorboard")
MEGABYTE = 1_000_000


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: measure this checkout instead of a fresh clone, with fewer rounds and no peer.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    yield from alone(quick)
    yield from overhead(quick)
    yield growth(quick)
    yield gradients()
    yield from errors()
    yield hard()
    yield from commands(quick)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def alone(quick: bool) -> Iterator[Row]:
    """Measure what installing core adds, and what importing it takes, prints and brings along."""
    python = fresh_environment("alone")
    site = next((python.parent.parent / "lib").glob("python3*")) / "site-packages"
    before = folder_bytes(site)
    run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(CORE)], check=True)
    added = (folder_bytes(site) - before) / MEGABYTE
    yield Row("core alone: size", "pip install adds < 120 MB", f"{added:.1f} MB", added < 120)

    code = "import time, numpy; start = time.perf_counter(); import headrace; print(time.perf_counter() - start)"
    run([str(python), "-m", "compileall", "-q", str(site)])  # as pip does by default; it was kept out of the size
    samples = [float(run([str(python), "-c", code], check=True).stdout) for _ in range(5 if quick else 15)]
    seconds = statistics.median(samples)
    yield Row(
        "core alone: import time",
        "< 0.3 s over NumPy's own import",
        f"{seconds:.3f} s (median of {len(samples)}, {min(samples):.3f} to {max(samples):.3f})",
        seconds < 0.3,
    )
    quiet = run([str(python), "-W", "error", "-c", "import headrace"])
    listing = run([str(python), "-c", "import sys, headrace; print(*sorted(sys.modules))"], check=True).stdout.split()
    foreign = [name for name in FOREIGN if name in listing]
    yield Row(
        "core alone: quiet import",
        "prints nothing; imports no " + ", ".join(FOREIGN),
        f"{len(quiet.stdout)} characters printed; imports {', '.join(foreign) or 'none of them'}",
        quiet.returncode == 0 and not quiet.stdout and not foreign,
        quiet.stdout,
    )


def overhead(quick: bool) -> Iterator[Row]:
    """Measure what a step costs besides its arithmetic, beside TensorFlow unless quick."""
    python = Path(sys.executable) if quick else kept_environment("peer", PEER, "-e", str(CORE))
    file = SCRATCH / "overhead.json"
    command = [str(python), str(CORE / "benchmarks" / "overhead.py"), "--json", str(file)]
    done = run([*command, "--quick"] if quick else command)
    if done.returncode != 0:
        yield Row("overhead", "the benchmark runs", "it failed", False, tail(done.stdout))
        return
    result = json.loads(file.read_text())
    costs = {cost["name"]: cost for cost in result["costs"]}

    def beside(name: str) -> str:
        ratio = costs[name]["ratio"]
        return "TensorFlow not measured" if ratio is None else f"TensorFlow takes {ratio:.2f} times as long"

    for name, what, bound in (
        ("make_callable", "overhead: make_callable of one small op", 5.0),
        ("session_run", "overhead: Session.run of one small op", 20.0),
    ):
        cost = costs[name]["microseconds"]["headrace"]
        measured = f"{cost:.2f} us (spread {costs[name]['spread']['headrace']:.2f}; {beside(name)})"
        yield Row(what, f"<= {bound:.0f} us", measured, cost <= bound)
    chain = result["chain_us_per_operation_over_numpy"]
    yield Row(
        "overhead: 1,000 chained small ops",
        "<= 1 us each over NumPy's own cost",
        f"{chain:.3f} us ({beside('chain')})",
        chain <= 1.0,
    )
    beyond, left = result["allocation_bytes"]["beyond_fetched"], result["allocation_bytes"]["left_behind"]
    # Below 4 KiB are Python's own short-lived frames and the tuple of results; the values of that graph have 1 MiB.
    yield Row(
        "overhead: steady state allocates nothing",
        "no value beyond the fetched ones (< 4096 bytes at the peak, and left behind by all steps)",
        f"{beyond} bytes at the peak, {left} bytes left behind by {result['allocation_bytes']['steps']} steps",
        beyond < 4096 and left < 4096,
    )


def growth(quick: bool) -> Row:
    """Measure whether many steps add operations or memory."""
    file = SCRATCH / "growth.json"
    steps = 2_000 if quick else 10_000
    script = CORE / "benchmarks" / "growth.py"
    done = run([sys.executable, str(script), "--steps", str(steps), "--json", str(file)])
    if done.returncode != 0:
        return Row("growth", "the benchmark runs", "it failed", False, tail(done.stdout))
    grown = json.loads(file.read_text())
    added, memory = grown["operations_added"], grown["resident_bytes_added"]
    return Row(
        f"growth over {steps} steps",
        "no operation added; resident memory flat (< 1 MB)",
        f"{added} operations, {memory / MEGABYTE:.2f} MB",
        added == 0 and memory < MEGABYTE,
    )


def gradients() -> Row:
    """Check every differentiable operation's gradient numerically, first and second order."""
    return run_tests(
        "gradients",
        "numerical check for every differentiable op, first and second order",
        str(CORE / "tests" / "grad"),
    )


def errors() -> Iterator[Row]:
    """Find the raise sites that no test reaches, tests that do not look at the message, and fields left empty."""
    from headrace import errors as tree

    found = list(raise_sites.sites(CORE / "src", frozenset(tree.__all__)))
    data = SCRATCH / "coverage"
    trace = [sys.executable, "-m", "coverage", "run", f"--data-file={data}", "--source=headrace", "-m", "pytest", "-q"]
    done = run([*trace, str(CORE / "tests")], env={**os.environ, "COVERAGE_CORE": "ctrace"})
    run([sys.executable, "-m", "coverage", "json", f"--data-file={data}", "-o", f"{data}.json", "-q"], check=True)
    lines = {
        Path(name).resolve(): set(file["executed_lines"])
        for name, file in json.loads(Path(f"{data}.json").read_text())["files"].items()
    }
    untested = [
        site for site in found if not lines.get(site.file.resolve(), set()) & set(range(site.first, site.last + 1))
    ]
    loose = raise_sites.unmatched(CORE / "tests")
    names = [f"{site.file.relative_to(CORE / 'src')}:{site.first}" for site in untested]
    yield Row(
        "errors: every raise site is tested",
        "a test reaches each, and every pytest.raises looks at the message",
        f"{len(found) - len(untested)} of {len(found)} reached; {len(loose)} pytest.raises without match",
        done.returncode == 0 and not untested and not loose,
        "\n".join([*names, *loose][:40]),
    )
    bare = [site for site in found if site.missing]
    yield Row(
        "errors: four fields",
        "what, where, expected and got, what to do",
        f"{len(found) - len(bare)} of {len(found)} raise sites fill in expected, got and try; "
        f"{sum(bool(set(site.missing) - {'hint'}) for site in found)} lack expected or got",
        not bare,
        "\n".join(f"{s.file.relative_to(CORE / 'src')}:{s.first} lacks {', '.join(s.missing)}" for s in bare[:40]),
    )


def hard() -> Row:
    """Run the tests that name a hard case, and find the cases that no test names."""
    import headrace as hr
    from headrace.graph.op_def import op_defs

    operations = frozenset(op_def.name for op_def in op_defs())
    known = hard_cases.cases(operations, frozenset(hr.optim.__all__))
    listing = run([sys.executable, "-m", "pytest", "--collect-only", "-q", str(CORE / "tests")]).stdout
    named = set(re.findall(r"(?<![A-Za-z0-9])([GORT]\d\d)(?![0-9])", listing))
    missing = [case for case in known if case not in named]
    asked = "a test names each case whose operation exists, and passes"
    row = run_tests("hard cases", asked, "-k", " or ".join(known), str(CORE / "tests"), may_skip=True)
    measured = f"{len(known) - len(missing)} of {len(known)} cases named; {row.measured}"
    detail = row.detail + (f"\nno test names {', '.join(missing)}" if missing else "")
    return Row(row.what, asked, measured, row.holds and not missing, detail.strip())


def commands(quick: bool) -> Iterator[Row]:
    """Run the README's two commands, on a fresh clone unless quick."""
    folder = ROOT if quick else clone("clone")
    result = folder / "runs" / "quickstart" / "result.json"
    result.unlink(missing_ok=True)
    base = {name: value for name, value in os.environ.items() if not name.startswith(("NOX", "PYTEST", "VIRTUAL_ENV"))}
    for attempt, bound in (("first run", 240), ("second run", 60)):
        if quick and attempt == "first run":
            continue
        start = time.perf_counter()
        done = run(["python3", "tools/dev.py", "quickstart"], cwd=folder, env=base)
        seconds = time.perf_counter() - start
        found = json.loads(result.read_text()) if result.exists() else {"accuracy": 0.0, "answers_equal": False}
        yield Row(
            f"quickstart, {attempt}",
            f"exit 0 in < {bound} s; accuracy >= 0.95; the HTTP answers equal the in-process ones",
            f"exit {done.returncode} in {seconds:.0f} s; accuracy {found['accuracy']:.4f}; "
            f"answers {'equal' if found['answers_equal'] else 'differ'}",
            done.returncode == 0 and seconds < bound and bool(found["accuracy"] >= 0.95 and found["answers_equal"]),
            "" if done.returncode == 0 else tail(done.stdout),
        )
    start = time.perf_counter()
    done = run(["python3", "tools/dev.py", "tests"], cwd=folder, env=base)
    seconds = time.perf_counter() - start
    closing = CLOSING.findall(done.stdout) or ["no closing line"]
    yield Row(
        "tests",
        "exit 0 in < 1200 s",
        f"exit {done.returncode} in {seconds:.0f} s; {closing[0]}",
        done.returncode == 0 and seconds < 1200,
        "" if done.returncode == 0 else tail(done.stdout, 30),
    )
