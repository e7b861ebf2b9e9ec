"""What the model server must hold, one function per row of its table."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from measure.core import MEGABYTE
from measure.environments import ROOT, SCRATCH, kept_environment, run, tail
from measure.report import Row
from measure.suites import run_tests

SERVING = ROOT / "packages" / "serving"
TESTS = SERVING / "tests"
HARD_CASES = ("S01", "S03", "S05", "S07", "S09", "S11")
GOLDEN = (
    "app",
    "codes",
    "datatypes",
    "examples",
    "infer",
    "infer_answer",
    "json_numbers",
    "json_tensor",
    "json_value",
    "openapi",
    "predict",
    "urls",
)


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row that is built, cheapest first.

    Args:
      quick: shorter loads and races, and fewer cycles.
    """
    SCRATCH.mkdir(parents=True, exist_ok=True)
    yield run_tests(
        "golden table",
        "every rule of both protocols is a case",
        *(str(TESTS / f"test_{name}.py") for name in GOLDEN),
    )
    yield hard()
    yield from clients()
    yield run_tests(
        "API fuzz: equal ways",
        "V1 by row == by column == V2 JSON == V2 binary == the model, and batched rows are the caller's own",
        str(TESTS / "test_server.py"),
        str(TESTS / "test_batcher.py"),
        str(TESTS / "test_client.py"),
    )
    yield run_tests(
        "hostile bodies", "the right code, soon; the server answers the next one", str(TESTS / "test_hostile.py")
    )
    yield run_tests(
        "gRPC",
        "every rule and limit is a case",
        *(str(TESTS / f"test_{n}.py") for n in ("grpc_service", "infer_message")),
    )
    yield run_tests(
        "workers", "answers, sums, replacement and end of several processes", str(TESTS / "test_workers.py")
    )
    yield run_tests(
        "bodies in place",
        "each way that a large body can come, by both event loops and TLS",
        str(TESTS / "test_protocol.py"),
    )
    yield run_tests("drain", "each request that was taken gets its answer", str(TESTS / "test_listen.py"))
    yield from reloads(quick)
    yield from load(quick)


def hard() -> Row:
    """Run the tests that name a hard case, and find the cases that no test names."""
    listing = run([sys.executable, "-m", "pytest", "--collect-only", "-q", str(TESTS)]).stdout
    unnamed = sorted(set(HARD_CASES) - set(re.findall(r"(?<![A-Za-z0-9])(S\d\d)(?![0-9])", listing)))
    row = run_tests(
        "hard cases", "a test names each of " + ", ".join(HARD_CASES), "-k", " or ".join(HARD_CASES), str(TESTS)
    )
    missing = f"; no test names {', '.join(unnamed)}" if unnamed else ""
    return Row(row.what, row.asked, row.measured + missing, row.holds and not unnamed, row.detail)


def local() -> list[str]:
    """Return what pip needs to install the packages of this checkout."""
    folders = [ROOT / "packages" / name for name in ("core", "checkpoint", "serving")]
    return [argument for folder in folders for argument in ("-e", str(folder))]


def in_environment(what: str, asked: str, name: str, requirements: Sequence[str], *arguments: str) -> Row:
    """Run tests in an environment of their own; none of them may be left out there."""
    tests = ("pytest>=8.3", "hypothesis>=6.112", "trustme>=1.2")
    python = kept_environment(name, *requirements, *tests, *local())
    done = run([str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments])
    closing = tail(done.stdout, 1)
    holds = done.returncode == 0 and "skipped" not in closing
    return Row(what, asked, closing, holds, "" if holds else tail(done.stdout))


def clients() -> Iterator[Row]:
    """Run the calls of clients that others wrote, each in an environment of its own, and the fuzzer of schemas."""
    calls = str(TESTS / "test_real_clients.py")
    yield in_environment(
        "real clients: tritonclient[http] and [grpc]",
        "all their calls pass",
        "clients",
        ["tritonclient[http,grpc]>=2.50"],
        "-k",
        "triton",
        calls,
    )
    yield in_environment(
        "real clients: kserve",
        "its calls by v1 and v2, JSON and binary, pass",
        "kserve",
        ["kserve>=0.15"],
        "-k",
        "kserve",
        calls,
    )
    yield in_environment(
        "API fuzz: schemathesis on /openapi.json",
        "each route answers as it is described",
        "schemathesis",
        ["schemathesis>=4"],
        str(TESTS / "test_schema.py"),
    )


def reloads(quick: bool) -> Iterator[Row]:
    """Measure answers while versions come and go, and memory over many loads."""
    file = SCRATCH / "reload_race.json"
    sizes = ["--seconds", "10", "--cycles", "100"] if quick else []
    script = SERVING / "benchmarks" / "reload_race.py"
    done = run([sys.executable, str(script), "--json", str(file), *sizes])
    if done.returncode != 0:
        yield Row("reload race", "the script runs", "it failed", False, tail(done.stdout))
        return
    result = json.loads(file.read_text())
    race = result["race"]
    yield Row(
        "reload race: answers",
        "no answer but 200, none of an older version than before",
        f"{race['failed']} of {race['requests']} failed, {race['backward']} older; {race['versions']} versions",
        race["failed"] == 0 and race["backward"] == 0,
    )
    yield Row(
        "reload race: latency",
        "p99 while loading <= 2 x p99 before",
        f"{race['p99_during']:.2f} ms, before {race['p99_before']:.2f} ms",
        race["p99_during"] <= 2 * race["p99_before"],
    )
    yield from _leaks(result)


def _leaks(result: dict[str, Any]) -> Iterator[Row]:
    shared = result["shared"]
    yield Row(
        f"weights shared by {shared['workers']} workers",
        f"memory (PSS) grows by less than 1.5 x the weights, not {shared['workers']} x",
        f"{shared['grown_bytes'] / MEGABYTE:.0f} MB with weights of {shared['bytes'] / MEGABYTE:.0f} MB",
        shared["grown_bytes"] < 1.5 * shared["bytes"],
    )
    for key, what in (("leak", "leak"), ("leak_workers", "leak: two workers")):
        found = result[key]
        grown = found["grown_bytes"] / MEGABYTE
        yield Row(
            what,
            f"memory (PSS) flat over {found['cycles']} loads and unloads (< 5 MB once settled)",
            f"{grown:.2f} MB more than the settled {found['settled_bytes'] / MEGABYTE:.0f} MB",
            grown < 5,
        )


def load(quick: bool) -> Iterator[Row]:
    """Measure rates and latencies under load, beside other servers in environments of their own."""
    file = SCRATCH / "load.json"
    peers = {
        "litserve": kept_environment("litserve", "litserve>=0.2.10", "numpy"),
        "mlserver": kept_environment("mlserver", "mlserver>=1.6", "uvloop<0.22"),  # its workers need one that old
    }
    command = [sys.executable, str(SERVING / "benchmarks" / "load.py"), "--json", str(file)]
    command += [f"--peer={name}={python}" for name, python in peers.items()]
    done = run([*command, "--quick"] if quick else command)
    if done.returncode != 0:
        yield Row("load", "the script runs", "it failed", False, tail(done.stdout))
        return
    result = json.loads(file.read_text())
    small, large, batching, later = (result[name] for name in ("small", "large", "batching", "batching_later"))
    ours, bare = small["ours"]["per_second"], small["bare"]["per_second"]
    by = "wrk" if small["ours"]["wrk"] else "clients in Python, for wrk is not installed"
    yield Row(
        "load: small perceptron by JSON",
        ">= 10,000 requests/s, or >= 0.6 of a bare ASGI callable",
        f"{ours:.0f} requests/s by {by}, {ours / bare:.2f} of the callable's {bare:.0f}; "
        f"open loop at {small['open_loop']['per_second']:.0f}/s: p99 {small['open_loop']['p99']:.2f} ms",
        (ours >= 10_000 or ours >= 0.6 * bare) and not small["ours"]["failed"],
    )
    by_json = large["json"]["per_second"]
    for name, label in (("fastapi", "FastAPI and pydantic"), ("litserve", "LitServe")):
        peer = large[name]["per_second"]
        yield Row(
            f"load: 1000 x 224 floats by JSON, beside {label}",
            f">= 3 x {label}",
            f"{by_json:.1f} requests/s, its {peer:.1f}",
            by_json >= 3 * peer and not large["json"]["failed"],
        )
    by_workers = large["json_by_workers"]["per_second"]
    alone, with_worker = large["mlserver"]["per_second"], large["mlserver_by_workers"]["per_second"]
    yield Row(
        "load: 1000 x 224 floats by JSON, two processes beside MLServer's one or two, whichever is faster",
        ">= 3 x MLServer",
        f"{by_workers:.1f} requests/s by two processes, its {alone:.1f} by one and {with_worker:.1f} by two; "
        f"one process of ours {by_json:.1f}, which parses with one core",
        by_workers >= 3 * max(alone, with_worker) and not large["json_by_workers"]["failed"],
    )
    by_bytes, copied = large["bytes"]["per_second"], large["copied"]["per_second"]
    yield Row(
        "load: 1000 x 224 floats as raw bytes",
        ">= 0.7 of an ASGI callable that joins the pieces and computes nothing",
        f"{by_bytes:.0f} requests/s, {by_bytes / copied:.2f} of its {copied:.0f}",
        by_bytes >= 0.7 * copied and not large["bytes"]["failed"],
    )
    single, batched = batching["single"]["per_second"], batching["batched"]["per_second"]
    yield Row(
        "load: batching, 64 clients, the network of TensorFlow's first digits tutorial",
        ">= 3 x unbatched",
        f"{batched:.0f} requests/s, {batched / single:.2f} times {single:.0f} ({_rows(batching)}); "
        f"of later tutorials, whose convolution gains less: {_gain(later):.2f} times ({_rows(later)})",
        batched >= 3 * single and not batching["batched"]["failed"],
    )
    served, direct = result["overhead"]["served"]["p99"], result["overhead"]["direct_p99"]
    yield Row(
        "load: overhead of the server, one client",
        "p99 <= 1 ms over the model called directly",
        f"{served - direct:.2f} ms ({served:.2f} ms, direct {direct:.3f} ms)",
        served - direct <= 1,
    )


def _gain(batching: dict[str, Any]) -> float:
    return float(batching["batched"]["per_second"] / batching["single"]["per_second"])


def _rows(batching: dict[str, Any]) -> str:
    alone, together = batching["row_alone"], batching["row_of_batch"]
    return (
        f"the model alone computes {alone:.2f} ms for a row, {together:.2f} ms in a batch: {alone / together:.1f} times"
    )
