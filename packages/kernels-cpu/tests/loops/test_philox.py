"""Random numbers in loops: the bits of the NumPy kernels, in every shape, at every place, on any number of threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from regions import native

import headrace as hr
from headrace.loops import functions
from headrace.loops.interpreter import run_region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value
from headrace.loops.verifier import verify_region
from headrace.types import Array, uint32, uint64

SHAPES = [(), (0,), (1,), (3,), (4,), (5,), (33,), (7, 33), (3, 0, 2), (5, 8, 3), (20_001,)]


def dropped(backend: str, shape: tuple[int, ...], dtype: str, threads: int = 1) -> list[list[Array]]:
    """Numbers, a dropout and its gradient, in three steps one after the other."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(dtype, shape)
        numbers = hr.random.uniform(shape, dtype=dtype, seed=5)
        y = hr.nn.dropout(x * 2.0, 0.4, seed=6)
        (gradient,) = hr.gradients(hr.sum(y * y), [x])
    given = np.random.default_rng(0).normal(size=shape).astype(hr.as_dtype(dtype).array_type)
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        return [session.run([numbers, y, gradient], {x: given}) for _ in range(3)]


def bits(steps: list[list[Array]]) -> list[tuple[Any, tuple[int, ...], bytes]]:
    return [(value.dtype, value.shape, value.tobytes()) for step in steps for value in map(np.asarray, step)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_dropout_has_the_bits_of_the_numpy_kernels(shape: tuple[int, ...], dtype: str) -> None:
    assert bits(dropped("cpu", shape, dtype)) == bits(dropped("numpy", shape, dtype))


def test_numbers_do_not_depend_on_threads() -> None:
    assert bits(dropped("cpu", (700, 333), "float32", 2)) == bits(dropped("cpu", (700, 333), "float32", 1))


def test_all_of_dropout_is_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with hr.Graph().as_default() as graph:
        y = hr.nn.dropout(hr.placeholder("float32", [64], name="x") + 1.0, 0.5, seed=1)
    feeds = {"x:0": np.zeros(64, np.float32)}
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        work = session.explain([y], feeds).work
        assert [item.kernel for item in work] == ["headrace.kernels.random._next_random", "headrace_cpu.loops"]
        fused = session.run(y, feeds)
    monkeypatch.setenv("HEADRACE_NATIVE_DRAWS", "off")
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        assert "headrace.kernels.random.kernel" in [item.kernel for item in session.explain([y], feeds).work]
        np.testing.assert_array_equal(session.run(y, feeds), fused)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("seed_type", ["int32", "int64"])
def test_stateless_numbers_have_the_bits_of_the_numpy_kernels(dtype: str, seed_type: str) -> None:
    with hr.Graph().as_default() as graph:
        seed = hr.placeholder(seed_type, [2])
        numbers = hr.random.stateless_uniform([5, 33], seed, dtype=dtype)
    for given in ([0, 0], [1, 2], [-1, 2**31 - 1], [-(2**31), -5]):
        feeds = {seed: np.array(given, seed_type)}
        results = []
        for backend in ("numpy", "cpu"):
            with hr.Session(graph, config=hr.config(backend=backend)) as session:
                results.append(session.run(numbers, feeds))
        assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("step", "start"), [(1, 0), (1, 4), (1, 3), (2, 1), (0, 7)])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 16, 33])
def test_words_are_those_of_the_interpreter(lanes: int, step: int, start: int, length: int) -> None:
    """Counters whose lower half overflows included."""
    shape = (3, length)
    state = Value("input", uint64, (3,), (), "state")
    parts = [functions.squeeze(functions.strided(state, [place], [1], [1]), [0]) for place in range(3)]
    words = functions.philox(parts[0], parts[1], parts[2], functions.position(shape, step, start))
    turned = functions.transpose(functions.transpose(words, [1, 0]), [1, 0])
    (lowered,) = lower(shape, (), {}, [Output("words", turned)])
    verify_region(lowered.region)
    given = np.array([2**63 + 12345, 2**64 - 2, 2**64 - 1], np.uint64)
    found = []
    for run in (lambda buffers: run_region(lowered.region, buffers), native(lowered.region, lanes)):
        memory = {"state": given, "words": np.zeros(math.prod(shape), uint32.array_type)}
        run([memory[str(key)] for key in lowered.keys])
        found.append(memory["words"])
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("length", [5, 8])
def test_rows_that_are_summed_draw_in_their_loops(length: int) -> None:
    with hr.Graph().as_default() as graph:
        total = hr.sum(hr.random.uniform([40, length], seed=3) * 2.0, axis=1)
        columns = hr.sum(hr.random.uniform([40, length], seed=4) * 2.0, axis=0)
    results = []
    for backend in ("numpy", "cpu"):
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            results.append(session.run([total, columns]))
    for wanted, given in zip(*results, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-6)
