"""What the native CPU backend must hold, one function per row of its table. Needs a quiet machine.

Peers are run by `bench`, each in its own process and environment; every comparison measures what the machine can do in
the same minute.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from bench.comparison import OURS, Result, Setting, Worker, compare
from bench.environments import PEERS, interpreters
from bench.machine import copy_bandwidth
from bench.works import WORKS
from measure.environments import ROOT, SCRATCH, fresh_environment, run, tail
from measure.hard_cases import cases
from measure.report import Row
from measure.suites import hard_cases, run_tests

PACKAGE = ROOT / "packages" / "kernels-cpu"
CORE = ROOT / "packages" / "core"
TESTS = PACKAGE / "tests"
THREADS = len(os.sched_getaffinity(0))
STEPS = ("mlp", "cnn", "lstm", "gpt")
TABLE_1 = ("alexnet", "overfeat", "vgg_a", "googlenet")
CURVE = 200
ROUNDS = 5
"""Of a loop and a copy, each time with other memory; of first steps, each in a process of its own."""


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: fewer rounds, rows no wider than 1,024, one of the paper's networks; only the peers that have an
        environment already or whose interpreter BENCH_PYTHON_<PEER> names.
    """
    yield small()
    yield chained()
    yield from null_steps()
    yield from bandwidth(quick)
    yield from compiled(quick)
    yield run_tests(
        "conformance", "every operation case of core within the tolerance table", str(TESTS / "test_conformance.py")
    )
    machine_code = str(TESTS / "loops" / "test_printer.py")
    yield run_tests("machine code", "equal to the interpreter of the loop IR on generated regions", machine_code)
    yield from bits(quick)
    yield from hard()
    yield from without(quick)
    setting = Setting(
        pythons=interpreters(PEERS, make=not quick),
        env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
        threads=THREADS,
        rounds=2 if quick else 5,
        steps=5 if quick else 20,
        seconds=1.0 if quick else 4.0,
    )
    yield from inference(quick, setting)
    yield from training(quick, setting)
    yield from mixed(quick, setting)


def _median(function: Callable[[], Any], seconds: float) -> float:
    """Median seconds of one call, after some that do not count."""
    for _ in range(5):
        function()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _step(build: Callable[[hr.Tensor], Any], x: Any) -> Callable[[], Any]:
    graph = hr.Graph()
    with graph.as_default():
        p = hr.placeholder(hr.as_dtype(x.dtype), x.shape)
        result = build(p)
    step = hr.Session(graph, config=hr.config(backend="cpu")).make_callable(result, [p])
    return lambda: step(x)


def small() -> Row:
    """One small operation through the front door."""
    taken = 1e6 * _median(_step(lambda x: x + 1.0, np.ones(4, np.float32)), 0.5)
    return Row("one small op", "<= 3 us from Python, value in hand", f"{taken:.2f} us", taken <= 3)


def chained() -> Row:
    """A thousand small operations one after the other."""

    def build(x: hr.Tensor) -> hr.Tensor:
        for number in range(1000):
            x = x + 1.0 if number % 2 else x * 1.0001
        return x

    taken = 1e6 * _median(_step(build, np.ones(4, np.float32)), 0.5)
    return Row("1,000 chained small ops", "<= 20 us", f"{taken:.2f} us", taken <= 20)


def null_steps() -> Iterator[Row]:
    """A thousand operations with next to no work that need each other's whole results, so that none fuses."""
    forms: dict[str, Callable[[hr.Tensor], Any]] = {
        "products of 4x4 matrices": lambda x: hr.matmul(x, x),
        "running sums of 4 numbers": lambda x: hr.cumulative_sum(x, axis=1),
    }
    x = np.eye(4, dtype=np.float32)
    for name, build in forms.items():

        def chain(t: hr.Tensor, build: Callable[[hr.Tensor], Any] = build) -> hr.Tensor:
            for _ in range(1000):
                t = build(t)
            return t

        speed = 1000 / _median(_step(chain, x), 0.5)
        yield Row(f"null steps: {name}", ">= 2,000,000 operations a second", f"{speed:,.0f}", speed >= 2e6)


def bandwidth(quick: bool) -> Iterator[Row]:
    """Element-wise, softmax, layer norm and Adam against the speed of a copy, all through the same memory.

    Every row is measured beside a copy of as many bytes by as many threads, in several rounds with memory of their own:
    how fast the same loop goes through it depends on where the system puts it, by up to a half. The median counts.
    """
    length = 1 << 22 if quick else 1 << 24
    x = np.random.default_rng(0).standard_normal((length // 1024, 1024), np.float32)
    yield _through("element-wise", lambda: _assigned(lambda t: hr.nn.relu(t * 2.0 + 1.0), x), 2.0 * x.nbytes)
    gelu = functools.partial(hr.nn.gelu, approximate=True)
    yield _through("element-wise, GELU", lambda: _assigned(gelu, x), 2.0 * x.nbytes)
    forms: dict[str, Callable[[hr.Tensor], Any]] = {"softmax": hr.nn.softmax, "layer norm": hr.nn.layer_norm}
    for width in (256, 1024) if quick else (256, 1024, 4096, 16384, 65536):
        x = np.random.default_rng(0).standard_normal((4096, width), np.float32)
        for name, build in forms.items():
            yield _through(f"{name} of 4096 x {width}", functools.partial(_assigned, build, x), 2.0 * x.nbytes)
    count, size = 100, 1 << 14 if quick else 1 << 16
    yield _through(f"Adam over {count} tensors of {size:,}", lambda: _adam(count, size), 7.0 * 4 * size * count)


def _through(name: str, make: Callable[[], Callable[[], Any]], moved: float) -> Row:
    shares, speeds, copies = [], [], []
    for _ in range(ROUNDS):
        copied = copy_bandwidth(THREADS, int(moved / 2))
        speed = moved / _median(make(), 0.5)
        gc.collect()  # a session holds its variables, and is held by its graph
        shares.append(speed / copied)
        speeds.append(speed / 1e9)
        copies.append(copied / 1e9)
    share = statistics.median(shares)
    measured = f"{share:.0%} ({min(shares):.0%} .. {max(shares):.0%}): {statistics.median(speeds):.1f}"
    measured += f" of {statistics.median(copies):.1f} GB/s"
    return Row(name, "at least 80 % of the copy bandwidth of this run", measured, share >= 0.8)


def _assigned(build: Callable[[hr.Tensor], Any], x: Any) -> Callable[[], Any]:
    """A step from a variable to another one, so that no fresh memory is asked for."""
    graph = hr.Graph()
    with graph.as_default():
        source, target = hr.Variable(x), hr.Variable(np.zeros_like(x))
        update = target.assign(build(source.value))
    return hr.Session(graph, config=hr.config(backend="cpu")).make_callable(update, [])


def _adam(count: int, size: int) -> Callable[[], Any]:
    """An update reads a variable, a gradient and two slots, and writes three of these."""
    graph = hr.Graph()
    with graph.as_default():
        variables = [hr.Variable(np.ones(size, np.float32), name=f"v{n}") for n in range(count)]
        gradients = [hr.Variable(np.ones(size, np.float32), trainable=False, name=f"g{n}") for n in range(count)]
        pairs = [(g.value, v) for g, v in zip(gradients, variables, strict=True)]
        train = hr.optim.Adam(1e-3).apply_gradients(pairs)
    return hr.Session(graph, config=hr.config(backend="cpu")).make_callable(train, [])


FIRST_STEP = """
import sys, time
import numpy as np
from bench.peers.headrace_peer import build
from bench.works import WORKS, Options
work = WORKS[sys.argv[1]]
step = build(work, *work.make(), Options(int(sys.argv[2])))
np.ones(1 << 28, np.uint8)
taken = []
for _ in range(4):
    begin = time.perf_counter()
    step()
    taken.append(time.perf_counter() - begin)
print(taken[0] - min(taken[1:]))
"""


def compiled(quick: bool) -> Iterator[Row]:
    """What the first step of the two larger models takes longer than others: without and with a cache on disk.

    Python's own code is compiled before, as that of a package is when it is installed, and memory is asked for and
    given back: what a virtual machine has not handed out yet takes some 2 ms a megabyte, which is not compiling.
    """
    bytecode = {"PYTHONPYCACHEPREFIX": str(SCRATCH / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    _first_step("gpt", {**os.environ, **bytecode, "HEADRACE_CACHE": "off", "PYTHONPATH": _path()})
    for name in ("cnn", "gpt"):
        cold: list[float] = []
        warm: list[float] = []
        for _ in range(1 if quick else ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                env = {**os.environ, **bytecode, "HEADRACE_CACHE": folder, "PYTHONPATH": _path()}
                cold.append(_first_step(name, env))
                warm.append(_first_step(name, env))
        first, again = statistics.median(cold), statistics.median(warm)
        yield Row(f"first step of {name}, cold", "<= 3 s more than the others", f"{first:.2f} s", first <= 3)
        yield Row(f"first step of {name}, warm cache", "<= 0.3 s more than the others", f"{again:.2f} s", again <= 0.3)


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT / "tools"), os.environ.get("PYTHONPATH")]))


def _first_step(name: str, env: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP, name, str(THREADS)], env=env, check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def _values(name: str, threads: int, count: int, **options: Any) -> tuple[list[float], float]:
    """The values of our first steps in a process of its own, and the median seconds of a step."""
    worker = Worker(OURS, sys.executable, {**os.environ, "OMP_NUM_THREADS": str(threads)})
    try:
        chosen = {"precision": "float32", "deterministic": False, **options}
        values: list[float] = worker.ask(prepare=name, threads=threads, **chosen)["values"]
        values += worker.ask(values=count - len(values))["values"] if count > len(values) else []
        return values, statistics.median(worker.ask(run=5)["seconds"])
    finally:
        worker.close()


def bits(quick: bool) -> Iterator[Row]:
    """The same bits on 1 and 2 threads: our loops always, everything with deterministic=True."""
    loops = ("softmax-1024", "layer_norm-1024", "elementwise", "adam")
    differ = [name for name in loops if _values(name, 1, 3)[0] != _values(name, 2, 3)[0]]
    asked = "the same bits on 1 and 2 threads"
    yield Row(f"bits of our loops: {', '.join(loops)}", asked, _differing(differ), not differ)
    differ, costs = [], []
    for name in ("mlp", "cnn") if quick else STEPS:
        one, two = (_values(name, threads, 5, deterministic=True) for threads in (1, 2))
        free = _values(name, 2, 5)[1]
        differ += [name] if one[0] != two[0] else []
        costs.append(f"{name} takes {two[1] / free:.2f} times as long")
    yield Row("bits with deterministic=True", asked, f"{_differing(differ)}; {', '.join(costs)}", not differ)


def _differing(names: list[str]) -> str:
    return f"{', '.join(names)} differ" if names else "all equal"


def hard() -> Iterator[Row]:
    """Groups 1, 2, 3 and 8 of the hard cases, compiled and fused; the tests of group 8 do both at each length."""
    row = hard_cases(TESTS, "C", [f"C{number:02d}" for number in range(1, 18, 2)])
    yield replace(row, what="hard cases of compilers, interpreted, compiled and fused, at lengths 1 to 33")
    from headrace.graph.op_def import op_defs

    known = cases(frozenset(op_def.name for op_def in op_defs()), frozenset(hr.optim.__all__))
    asked = "the tests of core that name one pass where this backend is the default"
    tests = [str(CORE / "tests"), "-k", " or ".join(known)]
    default = _devices(Path(sys.executable), os.environ)
    row = run_tests(f"hard cases of operations, gradients and optimisers ({len(known)})", asked, *tests, may_skip=True)
    is_default = "backend cpu  (default)" in default
    yield replace(row, holds=row.holds and is_default, detail=row.detail if is_default else default)


def _devices(python: Path, env: Mapping[str, str]) -> str:
    return run([str(python.parent / "headrace"), "devices"], env=env).stdout.strip()


WITHOUT = """
import numpy as np, headrace as hr
with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [8, 8, 8, 3])
    k = hr.Variable(np.ones((3, 3, 3, 4), np.float32))
    w = hr.Variable(np.ones((256, 2), np.float32))
    h = hr.reshape(hr.nn.relu(hr.nn.conv2d(x, k)), [8, 256])
    loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=[0, 1] * 4, logits=h @ w))
    train = hr.optim.Adam(1e-3).minimize(loss)
with hr.Session(graph) as session:
    images = np.random.default_rng(0).standard_normal((8, 8, 8, 3), np.float32)
    first, *_, last = (session.run([loss, train], feeds={x: images})[0] for _ in range(20))
print(f"loss {first:.4f}, after 20 steps {last:.4f}:", "trained" if last < 0.9 * first else "not trained")
"""


def without(quick: bool) -> Iterator[Row]:
    """Training where LLVM is not installed, and where oneDNN is not: an environment of its own for each."""
    asked = "everything still runs, and one line of `headrace devices` says what would make it faster"
    for missing, wish in (("llvmlite", "pip install llvmlite"), ("oneDNN", "pip install headrace-kernels-cpu[onednn]")):
        python = fresh_environment(f"without-{missing}")
        packages = [["-e", str(CORE)], ["--no-deps", "-e", str(PACKAGE)]]
        if missing == "oneDNN":
            packages = [["-e", str(CORE), "-e", str(PACKAGE)]]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for wanted in packages:
            run([str(python), "-m", "pip", "install", "--quiet", *wanted], env=env, check=True)
        trained = run([str(python), "-c", WITHOUT], env=env)
        advice = _devices(python, env)
        lines = [line for line in advice.splitlines() if "faster" in line]
        holds = trained.returncode == 0 and ": trained" in trained.stdout and len(lines) == 1 and wish in lines[0]
        text = f"{tail(trained.stdout, 1)}; {' / '.join(lines) or 'no line'}"
        detail = "" if holds else f"{tail(trained.stdout)}\n{advice}"
        yield Row(f"a machine without {missing}", asked, text, holds, detail)
        if not quick:
            yield _core_suite(missing, python, env)


def _core_suite(missing: str, python: Path, env: dict[str, str]) -> Row:
    run([str(python), "-m", "pip", "install", "--quiet", "pytest", "hypothesis"], env=env, check=True)
    folders = [str(CORE / "tests" / name) for name in ("runtime", "training")]
    asked = "the tests of core's runtime and training pass there"
    return run_tests(f"core's tests without {missing}", asked, *folders, python=str(python), may_skip=True)


def inference(quick: bool, setting: Setting) -> Iterator[Row]:
    """ResNet-50 beside ONNX Runtime."""
    only = {peer: python for peer, python in setting.pythons.items() if peer in (OURS, "onnxruntime")}
    for batch in (1,) if quick else (1, 8):
        result = compare(WORKS[f"resnet50-{batch}"], replace(setting, pythons=only))
        yield _beside(result, f"ResNet-50 inference, batch {batch}", 1.0, "of onnxruntime")


def training(quick: bool, setting: Setting) -> Iterator[Row]:
    """Training steps beside the best peer and beside the arithmetic floor, and their peak memory."""
    for name in (*STEPS, *(("alexnet",) if quick else TABLE_1)):
        result = compare(WORKS[name], setting)
        yield _beside(result, f"{name} training step", 0.85 if name in STEPS else 0.90, "of the best peer")
        if name in STEPS:
            yield _near_floor(result)
        yield _memory(result)


def _near_floor(result: Result) -> Row:
    gap, floor = result.gap(), result.floor()
    asked = f"<= 1.25 x the floor of {1e3 * floor:.1f} ms at {result.machine.flops / 1e9:.0f} GFLOP/s"
    if gap is None:
        return Row(f"{result.work} and the floor", asked, "ours failed", False, str(result.failures))
    return Row(f"{result.work} and the floor", asked, f"{1e3 * result.median(OURS):.2f} ms, {gap:.2f} x", gap <= 1.25)


def _memory(result: Result) -> Row:
    ratio = result.memory_ratio()
    held = ", ".join(f"{peer} {count / 1e6:.0f} MB" for peer, count in result.memory.items())
    found = "no peer was run" if ratio is None else f"{ratio:.2f}"
    text = f"{found}; {held}; arena {result.arena / 1e6:.0f} MB"
    return Row(f"{result.work}, peak memory", "<= 0.80 of the best peer", text, ratio is not None and ratio <= 0.8)


def _beside(result: Result, what: str, bound: float, of: str) -> Row:
    asked = f"<= {bound:.2f} {of}, values equal"
    ratio, spread = result.ratio(), result.ratio_spread()
    failures = str(result.failures or "")
    if ratio is None or spread is None:
        return Row(what, asked, "no peer was run", False, failures)
    times = ", ".join(f"{peer} {1e3 * result.median(peer):.2f} ms" for peer in result.seconds)
    equal = "" if result.agree() else f"; VALUES DIFFER: {result.values}"
    text = f"{ratio:.2f} ({spread[0]:.2f} .. {spread[1]:.2f}) of {result.best_peer()}; {times}{equal}"
    return Row(what, asked, text, ratio <= bound and result.agree() and not result.failures, failures)


def mixed(quick: bool, setting: Setting) -> Iterator[Row]:
    """The training steps in bfloat16 beside the best peer in float32, and their losses beside ours in float32.

    Losses are those of examples that never come twice (see `measure.curves`).
    """
    for name in ("mlp", "cnn") if quick else STEPS:
        result = compare(WORKS[name], replace(setting, precision="bfloat16"))
        yield _beside(result, f"{name} training step in bfloat16", 0.60, "of the best peer in float32")
        count = 50 if quick else CURVE
        exact, rounded = (_curve(name, kind, count) for kind in ("float32", "bfloat16"))
        tens = [slice(first, first + 10) for first in range(0, count, 10)]
        apart = max(abs(sum(rounded[ten]) / sum(exact[ten]) - 1) for ten in tens)
        yield Row(
            f"{name}, losses in bfloat16",
            f"within 2 % of those in float32 over {count} steps, by means of ten",
            f"{apart:.2%} apart at most; {exact[0]:.4f} to {exact[-1]:.4f}, in bfloat16 to {rounded[-1]:.4f}",
            apart <= 0.02,
        )


def _curve(name: str, precision: str, steps: int) -> list[float]:
    command = [sys.executable, "-m", "measure.curves", name, precision, str(THREADS), str(steps)]
    done = run(command, env={**os.environ, "PYTHONPATH": _path()}, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found
