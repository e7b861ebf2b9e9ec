"""Lists in native memory: gradients of loops, scans and recurrent networks, with the bits of the existing path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nested_runs import CPU, by_kernels, computed, native

import headrace as hr
from headrace.testing import check_gradient

X = np.linspace(-1, 1, 5).astype(np.float32)
KERNELS = {"headrace.kernels"}


def powers(x: hr.Tensor, count: Any) -> hr.Tensor:
    """A loop whose number of iterations is fed."""
    end: hr.Tensor = hr.while_loop(lambda i, s: i < count, lambda i, s: (i + 1, hr.tanh(s * x) + x * 0.5), (0, x))[1]
    return end


@pytest.mark.parametrize("count", [0, 1, 2, 50, 3000])
def test_gradients_of_a_loop(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    def build(x: hr.Tensor, n: hr.Tensor) -> Any:
        end = powers(x, n)
        return [end, hr.gradients(end, [x])[0]]

    end, slope = native(monkeypatch, build, X, np.int32(count))
    value, wanted = X.astype(np.float64), np.ones(5)
    x = value.copy()
    for _ in range(count):
        moved = np.tanh(value * x)
        value, wanted = moved + 0.5 * x, (1 - moved**2) * (wanted * x + value) + 0.5
    np.testing.assert_allclose(end, value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5)


def test_a_list_that_grows_between_pauses_keeps_its_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", 5000)
    monkeypatch.setattr("headrace_cpu.step.calling.SMALLEST_STORE", 1)

    def build(x: hr.Tensor) -> Any:
        def outer(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return i + 1, hr.scan(lambda c, r: (c, c * 0.5 + r), hr.zeros([9, 5]) + s, s)[1] * 0.5

        end = hr.while_loop(lambda i, s: i < 40, outer, (0, x))[1]
        return [end, powers(end, 200), hr.gradients(powers(x, 300), [x])[0]]

    native(monkeypatch, build, X)


def test_two_gradients_read_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> Any:
        end = hr.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, hr.tanh(s * y)), (0, x))[1]
        return [hr.gradients(end, [x])[0], hr.gradients(end * 2.0, [y])[0], hr.gradients(hr.sum(end), [x, y])[1]]

    native(monkeypatch, build, X, X * 2)


def test_second_derivatives_run_natively_or_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        (slope,) = hr.gradients(powers(x, 4), [x])
        return [slope, hr.gradients(slope, [x])[0]]

    results, _ = computed(build, X)
    for one, other in zip(results, by_kernels(monkeypatch, build, X), strict=True):
        np.testing.assert_array_equal(one, other)
    with CPU:
        check_gradient(lambda xs: [powers(xs[0], 4)], [[0.3, -0.4, 0.9]])


def test_gradients_through_loops_and_branches_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved of the inside is lists of lists: these go by kernels."""

    def build(x: hr.Tensor) -> Any:
        def body(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            inner = hr.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, hr.tanh(t * x)), (0, s))[1]
            return i + 1, hr.cond(i > 2, lambda: inner * x, lambda: inner + x)

        end = hr.while_loop(lambda i, s: i < 5, body, (0, x))[1]
        return [end, hr.gradients(end, [x])[0]]

    results, _ = computed(build, X)
    for one, other in zip(results, by_kernels(monkeypatch, build, X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_scan_map_and_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(42, dtype=np.float32).reshape(6, 7) / 20

    def build(rows: hr.Tensor) -> Any:
        start = hr.zeros([7])
        sums, last = hr.scan(lambda c, r: (c + r, c * r), rows, start)
        return [sums, last, hr.map_fn(lambda r: r * 2.0, rows), hr.foldl(lambda a, r: a * 0.5 + r, rows, start),
                hr.foldr(lambda a, r: a - r, rows, start)]  # fmt: skip

    results = native(monkeypatch, build, rows)
    np.testing.assert_array_equal(results[2], rows * 2)
    total = np.zeros(7, np.float32)
    for row in rows:
        total = total * np.float32(0.5) + row
    np.testing.assert_array_equal(results[3], total)


def test_gradients_of_scan_and_map(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.linspace(-1, 1, 24).astype(np.float32).reshape(4, 6)

    def build(rows: hr.Tensor, x: hr.Tensor) -> Any:
        made = hr.map_fn(lambda r: hr.tanh(r * x), rows)
        states, _ = hr.scan(lambda c, r: (c * r, hr.tanh(c + r)), made, x)
        return hr.gradients(hr.sum(states * states), [rows, x])

    x = np.linspace(0, 1, 6).astype(np.float32)
    native(monkeypatch, build, rows, x)
    with CPU:
        check_gradient(
            lambda xs: [hr.scan(lambda c, r: (c * r, hr.tanh(c * r)), xs[0], xs[0][0])[0]], [rows[:3, :2].tolist()]
        )


@pytest.mark.parametrize("dtype", [hr.bool, hr.int8, hr.uint64, hr.bfloat16, hr.float64], ids=lambda item: item.name)
def test_lists_of_every_kind_of_element(monkeypatch: pytest.MonkeyPatch, dtype: hr.DType) -> None:
    rows = (np.arange(12).reshape(4, 3) % 3).astype(dtype.array_type)

    def build(rows: hr.Tensor) -> Any:
        return hr.scan(lambda c, r: (hr.where(hr.equal(c, r), r, c), r), rows, rows[0])

    native(monkeypatch, build, rows)


def test_elements_that_are_set_and_read_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        items = hr.apply_op("TensorListReserve", [5], 6, element_dtype=hr.float32)

        def body(i: hr.Tensor, items: hr.Tensor) -> Any:
            before = hr.apply_op("TensorListGetItem", items, i, [5], element_dtype=hr.float32)
            changed = hr.apply_op("TensorListSetItem", items, i, before + x * hr.astype(i, hr.float32))
            again = hr.apply_op("TensorListGetItem", changed, i, [5], element_dtype=hr.float32)
            return i + 1, hr.apply_op("TensorListSetItem", changed, i + 1, again * 2.0)

        _, items = hr.while_loop(lambda i, items: i < 5, body, (0, items))
        stacked = hr.apply_op("TensorListStack", items, [5], element_dtype=hr.float32, num_elements=6)
        return [stacked, hr.apply_op("TensorListLength", items)]

    stacked, length = native(monkeypatch, build, X)
    rows = [np.zeros(5, np.float32)] * 6
    for i in range(5):
        rows[i] = rows[i] + X * np.float32(i)
        rows[i + 1] = rows[i] * np.float32(2)
    np.testing.assert_array_equal(stacked, rows)
    assert length == 6


def test_a_list_of_which_an_older_version_is_read_goes_by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        empty = hr.apply_op("EmptyTensorList", [5], -1, element_dtype=hr.float32)
        one = hr.apply_op("TensorListPushBack", empty, x)
        two = [hr.apply_op("TensorListPushBack", one, x * factor) for factor in (2.0, 3.0)]
        kinds: Any = dict(element_dtype=hr.float32, num_elements=2)
        stacked = [hr.apply_op("TensorListStack", items, [5], **kinds) for items in two]
        popped, last = hr.apply_op("TensorListPopBack", two[1], [5], element_dtype=hr.float32)
        again = hr.apply_op("TensorListPushBack", popped, x * 7.0)
        return [*stacked, last, hr.apply_op("TensorListStack", again, [5], **kinds)]

    results, kernels = computed(build, X, types={"TensorListPushBack"})
    assert kernels == KERNELS
    for rows, factor in ((results[0], 2), (results[1], 3), (results[3], 7)):
        np.testing.assert_array_equal(rows, [X, X * factor])
    np.testing.assert_array_equal(results[2], X * 3)


def test_a_list_in_a_loop_of_which_an_iteration_changes_an_older_version_goes_by_kernels() -> None:
    def build(x: hr.Tensor) -> Any:
        items = hr.apply_op("EmptyTensorList", [5], -1, element_dtype=hr.float32)

        def body(i: hr.Tensor, items: hr.Tensor, s: hr.Tensor) -> Any:
            longer = hr.apply_op("TensorListPushBack", items, s)
            shorter, last = hr.apply_op("TensorListPopBack", longer, [5], element_dtype=hr.float32)
            return i + 1, hr.apply_op("TensorListPushBack", shorter, last + x), s * 2.0

        _, items, _ = hr.while_loop(lambda i, items, s: i < 4, body, (0, items, x))
        return hr.apply_op("TensorListStack", items, [5], element_dtype=hr.float32, num_elements=4)

    (rows,), kernels = computed(build, X)
    assert kernels == KERNELS
    np.testing.assert_array_equal(rows, [X * 2.0**n + X for n in range(4)])


def test_a_list_that_a_kernel_reads_after_all_is_left_to_the_kernels() -> None:
    def build(x: hr.Tensor) -> Any:
        items = hr.apply_op("TensorListFromTensor", x, [], element_dtype=hr.float32)
        zeros = hr.apply_op("ZerosLike", items)
        total = hr.apply_op("AddN", [zeros, items])
        kinds: Any = dict(element_dtype=hr.float32, num_elements=5)
        return [hr.apply_op("TensorListStack", found, [], **kinds) for found in (total, zeros, items)]

    (total, zeros, items), kernels = computed(build, X, types={"TensorListFromTensor", "ZerosLike"})
    assert kernels == KERNELS
    np.testing.assert_array_equal(total, X)
    np.testing.assert_array_equal(zeros, X * 0)
    np.testing.assert_array_equal(items, X)


def test_a_list_that_grows_and_shrinks_in_one_iteration_goes_by_kernels() -> None:
    def build(x: hr.Tensor) -> Any:
        items = hr.apply_op("TensorListFromTensor", hr.zeros([3, 5]) + x, [5], element_dtype=hr.float32)

        def body(i: hr.Tensor, items: hr.Tensor, s: hr.Tensor) -> Any:
            longer = hr.apply_op("TensorListPushBack", items, s * 2.0)
            shorter, last = hr.apply_op("TensorListPopBack", longer, [5], element_dtype=hr.float32)
            shorter, before = hr.apply_op("TensorListPopBack", shorter, [5], element_dtype=hr.float32)
            return i + 1, shorter, last + before

        _, items, s = hr.while_loop(lambda i, items, s: i < 2, body, (0, items, x))
        return [s, hr.apply_op("TensorListStack", items, [5], element_dtype=hr.float32, num_elements=1)]

    (s, rows), kernels = computed(build, X)
    assert kernels == KERNELS
    np.testing.assert_array_equal(s, X * 7)
    np.testing.assert_array_equal(rows, [X])


@pytest.mark.parametrize("limit", [3, 9])
def test_an_index_beyond_a_list_names_its_iteration(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    with hr.Graph().as_default() as graph:
        x, n = hr.placeholder(hr.float32, [4, 5]), hr.placeholder(hr.int32, [])
        items = hr.apply_op("TensorListFromTensor", x, [5], element_dtype=hr.float32)
        pushed = hr.apply_op("EmptyTensorList", [5], -1, element_dtype=hr.float32)

        def body(i: hr.Tensor, s: hr.Tensor, pushed: hr.Tensor) -> Any:
            item = hr.apply_op("TensorListGetItem", items, i, [5], element_dtype=hr.float32)
            return i + 1, s + item, hr.apply_op("TensorListPushBack", pushed, s)

        end = hr.while_loop(lambda i, s, p: i < n, body, (0, x[0], pushed))[1]
    given = np.arange(20, dtype=np.float32).reshape(4, 5)
    for switch in ("on", "off"):
        monkeypatch.setenv("HEADRACE_NATIVE_LOOPS", switch)
        with hr.Session(graph, config=CPU) as session:
            if limit <= 4:
                np.testing.assert_array_equal(session.run(end, feeds={x: given, n: limit}), given[0] + given[:3].sum(0))
                continue
            with pytest.raises(hr.errors.OutOfRangeError, match="an index is beyond the list(.|\n)*got: +4") as raised:
                session.run(end, feeds={x: given, n: limit})
            assert any("in iteration 4 of" in note for note in raised.value.__notes__)
            assert session.run(end, feeds={x: given, n: 1}).tolist() == (given[0] * 2).tolist()


def test_an_empty_list_has_no_last_element() -> None:
    def build(n: hr.Tensor, x: hr.Tensor) -> Any:
        items = hr.apply_op("EmptyTensorList", [5], -1, element_dtype=hr.float32)
        fill = lambda i, items: (i + 1, hr.apply_op("TensorListPushBack", items, x))  # noqa: E731
        items = hr.while_loop(lambda i, items: i < n, fill, (0, items))[1]
        return hr.apply_op("TensorListPopBack", items, [5], element_dtype=hr.float32)[1]

    (last,), kernels = computed(build, np.int32(2), X)
    assert kernels == {"headrace_cpu.loop"}
    np.testing.assert_array_equal(last, X)
    with pytest.raises(hr.errors.InvalidArgumentError, match="an empty list has no last element"):
        computed(build, np.int32(0), X)


def test_there_may_be_too_little_memory_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(x: hr.Tensor) -> Any:
        end = powers(x, 5000)
        return hr.gradients(end, [x])

    def refuse(size: int, dtype: Any) -> None:
        raise MemoryError("no room")

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [5])
        (slope,) = build(x)
    with hr.Session(graph, config=CPU) as session:
        monkeypatch.setattr("headrace_cpu.step.calling._allocated", refuse)
        with pytest.raises(hr.errors.ResourceExhaustedError, match="not enough memory"):
            session.run(slope, feeds={x: X})
        monkeypatch.undo()
        assert np.isfinite(session.run(slope, feeds={x: X})).all()


def test_a_recurrent_network_trains_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(6, 3, 4)).astype(np.float32), rng.normal(size=(4, 4)).astype(np.float32)

    def build(rows: hr.Tensor, w: hr.Tensor) -> Any:
        states, _ = hr.scan(lambda h, r: (h, hr.tanh(hr.sum(hr.expand_dims(h, 2) * w, axis=1) + r)), rows, rows[0])
        return [states, *hr.gradients(hr.sum(states * states), [rows, w])]

    native(monkeypatch, build, rows, w)


@pytest.mark.parametrize("seed", range(10))
def test_gradients_of_random_loops(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", int(rng.integers(50, 3000)))
    choices = rng.integers(0, 1000, 40).tolist()

    def build(x: hr.Tensor, y: hr.Tensor) -> Any:
        plan = iter(choices)

        def value(known: list[hr.Tensor]) -> hr.Tensor:
            for _ in range(next(plan) % 4 + 1):
                kind, a, b = next(plan) % 4, *(known[next(plan) % len(known)] for _ in range(2))
                made = [a * b, hr.tanh(a) + b, hr.maximum(a, b * 0.5), a - hr.sigmoid(b)][kind]
                known = [*known, made]
            return hr.tanh(known[-1])

        def body(i: hr.Tensor, s: hr.Tensor, t: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor, hr.Tensor]:
            return i + 1, value([x, s, t]), value([y, t, s])

        count = choices[0] % 7
        _, s, t = hr.while_loop(lambda i, s, t: i < count, body, (0, x, y))
        return [s, t, *(g for g in hr.gradients(hr.sum(s * t), [x, y]) if g is not None)]

    native(monkeypatch, build, *rng.normal(size=(2, 6)).astype(np.float32))
