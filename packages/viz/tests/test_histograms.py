"""Histograms: the same counts as the slow ways, and TensorFlow's own form of them."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_viz import histograms
from headrace_viz.histograms import counts_between, histogram_proto, histogram_rows, rows_of_limits

VECTORS = arrays.arrays(np.int16, st.integers(1, 60), elements=st.integers(-300, 300))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_counts_are_those_of_numpy(dtype: type) -> None:
    values = np.random.default_rng(1).normal(size=[300, 500]).astype(dtype)
    rows = histogram_rows(values, 30)
    wide = values.astype(np.float64)
    counts, edges = np.histogram(wide, 30)
    np.testing.assert_allclose(rows[:, 0], edges[:-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows[:, 1], edges[1:], rtol=1e-12, atol=1e-12)
    # Rounding decides on the side of values that lie on edges or next to them.
    near = 1e-12 if dtype is np.float64 else 1e-5
    on_edges = int(np.isclose(wide.reshape(-1, 1), edges, rtol=0, atol=near).sum())
    assert np.abs(rows[:, 2] - counts).max() <= on_edges
    assert np.abs(rows[:, 2] - counts).sum() < 0.01 * values.size
    assert rows[:, 2].sum() == values.size


@settings(max_examples=100, deadline=None)
@given(VECTORS, st.integers(1, 40))
def test_every_value_is_in_its_bucket(values: np.ndarray, buckets: int) -> None:
    rows = histogram_rows(values, buckets)
    assert rows[:, 2].sum() == values.size
    assert len(rows) == buckets
    if values.min() < values.max():
        assert (rows[0, 0], rows[-1, 1]) == (values.min(), values.max())
        for left, right, count in rows:
            inside = ((values > left + 1e-9) & (values < right - 1e-9)).sum()
            touching = ((values >= left - 1e-9) & (values <= right + 1e-9)).sum()
            assert inside <= count <= touching


@pytest.mark.parametrize("buckets", [1, 30, 39, 40, 254, 255, 600])
def test_blocks_add_up_and_many_buckets_count_alike(buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).normal(size=1001)
    whole = histogram_rows(values, buckets)
    np.testing.assert_array_equal(whole[:, 2], np.histogram(values, buckets)[0])
    for block, many in ((1, 1), (7, 1), (64, 1), (64, 2000), (400, 1)):
        monkeypatch.setattr(histograms, "_BLOCK", block)
        monkeypatch.setattr(histograms, "_MANY", many)  # values from which on three are counted at once
        np.testing.assert_array_equal(histogram_rows(values, buckets), whole)
        narrow = histogram_rows(values.astype(np.float32), buckets)
        assert narrow[:, 2].sum() == values.size
        assert np.abs(narrow[:, 2] - whole[:, 2]).max() <= 1


def test_wide_ranges_do_not_overflow() -> None:
    largest = sys.float_info.max
    rows = histogram_rows([-largest, 0, largest], 4)
    assert rows[:, 2].tolist() == [1, 0, 1, 1]
    assert np.isfinite(rows).all()
    for narrow in (5e-324, 1e-300, np.float32(1e-45), np.float32(1e-37)):
        assert histogram_rows(np.array([0, narrow, narrow / 2]), 3)[:, 2].sum() == 3
    wide = histogram_rows(np.float32([-3e38, 0, 3e38]), 4)
    assert wide[:, 2].tolist() == [1, 0, 1, 1]
    assert histogram_rows([0.0, 5e-324], 30)[[0, -1], 2].tolist() == [1, 1]


def test_all_equal() -> None:
    rows = histogram_rows([5.0, 5.0], 4)
    assert rows[:, 2].tolist() == [0, 0, 0, 2]
    assert (rows[0, 0], rows[-1, 1]) == (4.5, 5.5)


def test_booleans_count_as_numbers() -> None:
    assert histogram_rows([True, False, True], 2)[:, 2].tolist() == [1, 2]


@pytest.mark.parametrize("values", [[1, np.nan], [1, np.inf], [-np.inf, 1]])
def test_B03_values_that_are_not_finite(values: list[float]) -> None:
    for count in (histogram_rows, histogram_proto, lambda given: counts_between(given, [0, 1])):
        with pytest.raises(InvalidArgumentError, match=r"needs finite numbers\n(.*\n)*.*got: .*among 2 values"):
            count(values)


def test_B03_no_values() -> None:
    assert histogram_rows(np.zeros(0, np.float32)).shape == (0, 3)
    proto = histogram_proto(np.zeros(0, np.float32))
    largest = sys.float_info.max
    assert (proto.num, proto.min, proto.max, proto.sum) == (0, largest, -largest, 0)
    assert (list(proto.bucket_limit), list(proto.bucket)) == ([largest], [0])


def test_B03_zeros() -> None:
    proto = histogram_proto([0.0, 0.0, 0.0])
    assert (proto.num, proto.min, proto.max, proto.sum_squares) == (3, 0, 0, 0)
    assert [count for count in proto.bucket if count] == [3]
    filled = list(proto.bucket).index(3)
    assert proto.bucket_limit[filled - 1 : filled + 1] == [0.0, 1e-12]


def test_tensorflows_form_holds_every_value_once() -> None:
    values = np.concatenate([np.random.default_rng(3).normal(size=200) * 10.0**power for power in (-13, -3, 0, 9, 19)])
    proto = histogram_proto(values)
    limits = np.array(proto.bucket_limit)
    lefts = np.concatenate([[-np.inf], limits[:-1]])
    expected = [((values >= left) & (values < right)).sum() for left, right in zip(lefts, limits, strict=True)]
    assert list(proto.bucket) == expected
    assert (proto.min, proto.max, proto.num) == (values.min(), values.max(), values.size)
    np.testing.assert_allclose([proto.sum, proto.sum_squares], [values.sum(), (values**2).sum()])
    empty = np.array(proto.bucket) == 0
    assert not (empty[:-1] & empty[1:]).any()


def test_tensorflows_own_result_for_a_few_values() -> None:
    # By hand from the rules of histogram.cc: limits 1e-12 * 1.1 ** k, empty neighbours joined.
    proto = histogram_proto([1.0, 1.0, -2.0])
    filled = [(limit, count) for limit, count in zip(proto.bucket_limit, proto.bucket, strict=True) if count]
    (negative, one), (positive, two) = filled
    assert (one, two) == (1, 2)
    assert -2.0 < negative <= -2.0 / 1.1 + 1e-9
    assert 1.0 < positive <= 1.1 + 1e-9
    assert len(proto.bucket) == 5


def test_given_edges() -> None:
    assert counts_between([0, 1, 1, 2, 9], [0, 1, 2]).tolist() == [[0, 1, 1], [1, 2, 3]]


@pytest.mark.parametrize("edges", [[1], [1, 1], [2, 1], [[1, 2]], [0, np.nan]])
def test_what_is_no_edges(edges: list[float]) -> None:
    with pytest.raises(InvalidArgumentError, match="the edges of a histogram cannot be used"):
        counts_between([1], edges)


def test_counts_from_elsewhere() -> None:
    assert rows_of_limits(-1, [0, 2], [3, 4]).tolist() == [[-1, 0, 3], [0, 2, 4]]
    assert rows_of_limits(0, [], []).shape == (0, 3)
    with pytest.raises(InvalidArgumentError, match="needs a count for each bucket"):
        rows_of_limits(0, [1, 2], [1])


@pytest.mark.parametrize("buckets", [0, -1, 10**9])
def test_no_buckets_or_more_than_memory_holds(buckets: int) -> None:
    with pytest.raises(InvalidArgumentError, match="needs buckets\n.*1 to 1,000,000"):
        histogram_rows([1.0, 2.0], buckets)


@pytest.mark.parametrize("values", [["a"], [1j], [None]])
def test_what_is_no_real_number(values: list[object]) -> None:
    with pytest.raises(DTypeError, match="a histogram needs real numbers"):
        histogram_rows(values)


def test_a_million_values_count_exactly() -> None:
    values = np.random.default_rng(3).integers(-500, 501, 1_000_003)
    rows = histogram_rows(values.astype(np.float32), 37)  # no integer lies next to an inner edge
    np.testing.assert_array_equal(rows[:, 2], np.histogram(values, 37)[0])
