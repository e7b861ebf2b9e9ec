"""Products in parts: what each thread computes, together, is the product; and when there are parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InternalError
from headrace.types import float32
from headrace_cpu.onednn import Request, capi, onednn, parted_call

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")

Array = Any


def product(m: int, n: int, k: int, turned: tuple[bool, bool] = (False, False)) -> tuple[hr.Graph, hr.Operation]:
    graph = hr.Graph()
    with graph.as_default():
        a = hr.placeholder(hr.float32, (k, m) if turned[0] else (m, k))
        b = hr.placeholder(hr.float32, (n, k) if turned[1] else (k, n))
        made = hr.matmul(a, b, transpose_a=turned[0], transpose_b=turned[1])
    return graph, made.op


def points(m: int, n: int, k: int, turned: tuple[bool, bool] = (False, False), threads: int = 2) -> int:
    call = parted_call(Request.of(product(m, n, k, turned)[1]), threads)
    return 0 if call is None else call.points


@pytest.mark.parametrize(
    ("sizes", "turned", "wanted"),
    [
        ((128, 512, 784), (False, False), 2),
        ((1024, 512, 512), (False, False), 2),
        ((784, 512, 128), (True, False), 2),
        ((128, 512, 512), (False, True), 2),
        ((512, 512, 512), (False, True), 2),
        ((2048, 512, 128), (True, False), 0),  # as many rows as that oneDNN shares as well
        ((784, 256, 128), (True, False), 0),
        ((128, 512, 2048), (False, True), 0),
        ((512, 512, 512), (True, True), 0),
        ((16, 16, 16), (False, False), 1),  # not worth waking a thread
        ((16, 16, 16), (True, False), 0),
        ((128, 128, 128), (False, False), 0),
    ],
    ids=str,
)
def test_parts_are_as_many_as_threads_where_that_is_faster(
    sizes: tuple[int, int, int], turned: tuple[bool, bool], wanted: int
) -> None:
    assert points(*sizes, turned) == wanted


def test_one_thread_and_too_many_threads_have_no_parts() -> None:
    assert points(128, 512, 784, threads=1) == 0
    assert points(128, 512, 784, threads=8) == 8
    assert points(128, 512, 784, threads=9) == 0


def test_they_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PARTS", "off")
    assert points(128, 512, 784) == 0


def test_a_known_factor_keeps_the_layout_that_it_was_brought_in() -> None:
    _, op = product(128, 512, 784)
    known = np.zeros((784, 512), np.float32)
    assert parted_call(Request(op, (float32,) * 3, (None, known)), 2) is None
    assert parted_call(Request(op, (float32,) * 3, (None, None), packed=True), 2) is None


def trained(m: int, n: int, k: int, threads: int, *, deterministic: bool = False) -> list[Array]:
    """Two steps of training a layer, whose three products have a bias, a sum and a momentum."""
    random = np.random.default_rng(0)
    first, weight, bias, target = (
        random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (n,), (m, n))
    )
    with hr.Graph().as_default() as graph:
        x, w, b = hr.Variable(first), hr.Variable(weight), hr.Variable(bias)
        y = x.value @ w.value + b.value
        loss = hr.mean(hr.square(y - target))
        step = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss, [x, w, b])
        with hr.config(threads=threads, deterministic=deterministic):
            session = hr.Session(graph)
        losses = [session.run([loss, step])[0] for _ in range(2)]
        return [np.array(losses), *session.run([x.value, w.value, b.value])]


@pytest.mark.parametrize("sizes", [(128, 512, 784), (130, 513, 523), (517, 520, 300), (1030, 640, 515)], ids=str)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_training_in_parts_is_training(
    sizes: tuple[int, int, int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trained(*sizes, threads)
    again = trained(*sizes, threads)
    monkeypatch.setenv("HEADRACE_PARTS", "off")
    whole = trained(*sizes, threads)
    for ours, second, theirs in zip(found, again, whole, strict=True):
        assert ours.tobytes() == second.tobytes()  # the same bits each time
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_deterministic_steps_have_no_parts() -> None:
    one = trained(128, 512, 784, 1, deterministic=True)
    two = trained(128, 512, 784, 2, deterministic=True)
    assert [array.tobytes() for array in one] == [array.tobytes() for array in two]


def test_special_numbers_stay_in_their_rows_and_columns() -> None:
    graph, op = product(128, 512, 784)
    a, b = np.ones((128, 784), np.float32), np.ones((784, 512), np.float32)
    a[3, 5], a[100, 0], b[7, 400] = np.nan, np.inf, -np.inf
    with hr.config(threads=2):
        found = hr.Session(graph).run(op.outputs[0], dict(zip(op.inputs, (a, b), strict=True)))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, a @ b)


def test_the_plan_says_how_many_parts_there_are() -> None:
    graph, op = product(128, 512, 784)
    feeds = dict(zip(op.inputs, (np.ones((128, 784), np.float32), np.ones((784, 512), np.float32)), strict=True))
    with hr.config(threads=2):
        assert "in 2 parts, one for each thread" in str(hr.Session(graph).explain(op.outputs[0], feeds))


def test_a_part_that_fails_fails_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, op = product(128, 512, 784)
    feeds = dict(zip(op.inputs, (np.ones((128, 784), np.float32), np.ones((784, 512), np.float32)), strict=True))
    made = capi.OneDnn.entries
    parts: list[list[int]] = []

    def entries(self: capi.OneDnn, primitives: Any, keep: list[Any]) -> list[int]:
        parts.append(made(self, primitives, keep))
        stream, _, *rest = parts[-1]
        return [stream, 0, *rest] if len(parts) == 2 else parts[-1]  # the second part has no primitive

    monkeypatch.setattr(capi.OneDnn, "entries", entries)
    with hr.config(threads=2):
        session = hr.Session(graph)
    for _ in range(2):
        with pytest.raises(InternalError, match=r"native code failed\n *where: *MatMul"):
            session.run(op.outputs[0], feeds)
    assert len(parts) == 2
