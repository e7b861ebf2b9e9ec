"""What the native CPU backend must hold, one function per row of its table. Needs a quiet machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import headrace as hr
from bench.comparison import Result, compare
from bench.works import WORKS
from measure.environments import ROOT, kept_environment, run
from measure.report import Row
from measure.suites import run_tests

TESTS = ROOT / "packages" / "kernels-cpu" / "tests"
PEERS = {"torch": ("torch", "numpy"), "jax": ("jax", "numpy"), "tensorflow": ("tensorflow-cpu", "numpy")}


def rows(quick: bool) -> Iterator[Row]:
    """Yield every row, cheapest first.

    Args:
      quick: fewer rounds; only the peers whose interpreter BENCH_PYTHON_<PEER> names.
    """
    yield small()
    yield chained()
    yield from bandwidth(quick)
    yield from compiled()
    yield run_tests(
        "conformance", "every operation case of core within the tolerance table", str(TESTS / "test_conformance.py")
    )
    yield run_tests(
        "machine code", "equal to the interpreter of the loop IR on generated regions", str(TESTS / "test_printer.py")
    )
    yield run_tests(
        "hard cases", "group 8 interpreted, compiled and fused, at lengths 1 to 33", str(TESTS / "test_hard_cases.py")
    )
    yield without()
    yield from training(quick)


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
        p = hr.placeholder(hr.float32, x.shape)
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


def bandwidth(quick: bool) -> Iterator[Row]:
    """Element-wise, softmax, layer norm and Adam against the speed of a copy, all through the same memory."""
    length = 1 << 22 if quick else 1 << 24
    x = np.random.default_rng(0).standard_normal((length // 1024, 1024), np.float32)
    out = np.empty_like(x)
    copied = 2 * x.nbytes / _median(lambda: np.copyto(out, x), 0.5)
    asked = "at least 80 % of the copy bandwidth of this run"
    forms: dict[str, Callable[[hr.Tensor], Any]] = {
        "element-wise": lambda t: hr.nn.relu(t * 2.0 + 1.0),
        "softmax": hr.nn.softmax,
        "layer norm": _layer_norm,
    }
    for name, build in forms.items():
        graph = hr.Graph()
        with graph.as_default():
            v = hr.Variable(x)
            target = hr.Variable(np.zeros_like(x))
            update = target.assign(build(v.value))
        step = hr.Session(graph, config=hr.config(backend="cpu")).make_callable(update, [])
        share = 2 * x.nbytes / _median(step, 0.5) / copied
        yield Row(name, asked, f"{share:.0%} of {copied / 1e9:.1f} GB/s", share >= 0.8)
    share = _adam(100, 1 << 14 if quick else 1 << 16) / copied
    yield Row("Adam over 100 tensors", asked, f"{share:.0%} of {copied / 1e9:.1f} GB/s", share >= 0.8)


def _layer_norm(t: hr.Tensor) -> hr.Tensor:
    centred = t - hr.mean(t, axis=-1, keepdims=True)
    result: hr.Tensor = centred * hr.rsqrt(hr.mean(hr.square(centred), axis=-1, keepdims=True) + 1e-5)
    return result


def _adam(count: int, size: int) -> float:
    """Bytes a second of an Adam step: it reads a variable, a gradient and two slots, and writes three of these."""
    graph = hr.Graph()
    with graph.as_default():
        variables = [hr.Variable(np.ones(size, np.float32), name=f"v{n}") for n in range(count)]
        gradients = [hr.Variable(np.ones(size, np.float32), name=f"g{n}") for n in range(count)]
        loss = hr.add_n([hr.sum(v.value * g.value) for v, g in zip(variables, gradients, strict=True)])
        train = hr.optim.Adam(1e-3).minimize(loss, variables)
    step = hr.Session(graph, config=hr.config(backend="cpu")).make_callable(train, [])
    return 7 * 4 * size * count / _median(step, 0.5)


def compiled() -> Iterator[Row]:
    """The first step of the two larger models, without and with what an earlier process compiled."""
    for name in ("cnn", "gpt"):
        folder = ROOT / ".cache" / "measure" / f"compiled-{name}-{os.getpid()}"
        env = {**os.environ, "HEADRACE_CACHE": str(folder)}
        first, again = (_first_step(name, env) for _ in range(2))
        yield Row(f"first step of {name}, cold", "<= 3 s", f"{first:.2f} s", first <= 3)
        yield Row(f"first step of {name}, warm cache", "<= 0.3 s", f"{again:.2f} s", again <= 0.3)


FIRST_STEP = """
import headrace_cpu.backend as backend, time
compile = backend.CpuBackend.compile
spent = [0.0]
def timed(*arguments):
    begin = time.perf_counter(); made = compile(*arguments); spent.append(time.perf_counter() - begin); return made
backend.CpuBackend.compile = timed
import sys; sys.path[:0] = ["tools/bench", "tools/bench/peers"]
import works, headrace_peer
weights, data = works.WORKS[{name!r}].make()
headrace_peer.build(works.WORKS[{name!r}].kind, weights, data, 2)()
print(max(spent))
"""


def _first_step(name: str, env: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP.format(name=name)],
        cwd=ROOT,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def without() -> Row:
    """The same step where oneDNN is left out."""
    code = (
        "import numpy as np, headrace as hr\n"
        "with hr.Graph().as_default() as g:\n  y = hr.nn.relu(hr.ones([2, 3]) @ hr.ones([3, 2]))\n"
        "print(hr.Session(g, config=hr.config(backend='cpu')).run(y).sum())\n"
    )
    done = run([sys.executable, "-c", code], env={**os.environ, "HEADRACE_ONEDNN": "off"})
    found = done.stdout.strip()
    return Row("without oneDNN", "everything still runs on NumPy", found[-80:], found == "12.0")


def training(quick: bool) -> Iterator[Row]:
    """The training steps beside the best peer, and beside the arithmetic floor."""
    pythons = {"headrace": sys.executable}
    for peer, requirements in PEERS.items():
        given = os.environ.get(f"BENCH_PYTHON_{peer.upper()}")
        if given or not quick:
            pythons[peer] = given or str(kept_environment(f"bench-{peer}", *requirements))
    threads = len(os.sched_getaffinity(0))
    peak = _peak()
    for name in ("mlp", "cnn", "lstm", "gpt"):
        result = compare(name, pythons, os.environ, threads, 2 if quick else 5, 5 if quick else 20)
        yield _beside(result)
        floor = WORKS[name].flops / peak
        times = result.median("headrace") / floor
        asked = f"<= 1.25 x the floor of {1e3 * floor:.1f} ms at {peak / 1e9:.0f} GFLOP/s"
        yield Row(f"{name} and the floor", asked, f"{1e3 * floor * times:.2f} ms, {times:.2f} x", times <= 1.25)


def _beside(result: Result) -> Row:
    asked = "<= 0.85 of the best peer, losses equal"
    ratio = result.ratio()
    if ratio is None:
        return Row(f"{result.work} training step", asked, "no peer was run", False, str(result.failures))
    text = f"{ratio:.2f} of {result.best_peer()}; " + ", ".join(
        f"{peer} {1e3 * result.median(peer):.2f} ms" for peer in result.seconds
    )
    return Row(
        f"{result.work} training step", asked, text, ratio <= 0.85 and result.agree(), str(result.failures or "")
    )


def _peak() -> float:
    """Operations a second of a large product, the best of this run: what the machine can do."""
    x = np.ones((2048, 2048), np.float32)
    step = _step(lambda t: t @ t, x)
    for _ in range(3):
        step()
    best = min(_median(step, 0.3) for _ in range(3))
    return 2 * 2048.0**3 / best
