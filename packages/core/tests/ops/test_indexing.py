"""What `x[...]` means: NumPy is the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

_CUBE = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
_KEYS: list[Any] = [
    0, -1, np.int64(2), slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(-1, None, -2),
    slice(10, 20), slice(2, 1), None, Ellipsis, (), (0, 1), (0, 1, 2), (..., 0), (0, ...), (..., None), (None, 0, None),
    (slice(None), None, slice(1, 3)), (slice(None, None, 2), ..., slice(None, None, -1)), (..., slice(0, 0)),
    (1, ..., -2), (None, ..., None), (slice(None), slice(-3, -1), 4), (slice(-100, 100),),
    [0, 2], [-1, 0], (slice(None), [3, -4, 1]), (..., [0, 0, 4]), (None, [1, 0]), (slice(1, None), ..., [2]),
    (0, [1, 2]), (slice(None), [1, 2], 0), ([2, 1], 0, 1), (..., 1, [0, 3]), (..., [0, 3], 1), (None, 1, [2, 2], None),
    np.array([[0, 1], [2, -1]]), (slice(None), np.array([], np.int32)), [[0, 1], [1, 0]],
]  # fmt: skip


@pytest.mark.parametrize("key", _KEYS, ids=repr)
@pytest.mark.parametrize("shape", [[3, 4, 5], [None, None, None]], ids=["exact", "open"])
def test_values_and_static_shapes_are_those_of_numpy(key: Any, shape: list[int | None]) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, shape)
        y = x[key]
    expected = _CUBE[key]
    np.testing.assert_array_equal(hr.Session(graph).run(y, feeds={x: _CUBE}), expected)
    assert y.shape.rank == expected.ndim
    if shape == [3, 4, 5]:
        assert y.shape == list(expected.shape)
    else:
        assert y.shape.is_compatible_with(hr.Shape(expected.shape))


@pytest.mark.parametrize(
    "key", [(slice(None, None, -2), 1), (..., [3, 0, 3]), ([2, 0, 2],), (None, 0, ..., slice(3, 0, -2))]
)
def test_gradients_follow(key: Any) -> None:
    check_gradient(lambda xs: [xs[0][key] * xs[0][key]], [_CUBE])


def test_bounds_may_be_tensors() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 4, 5])
        n = hr.placeholder(hr.int32, [])
        wide = hr.placeholder(hr.int64, [])
        ys = [x[n], x[:n, 1:], x[n - 1 :, wide:, ::n], x[..., wide], x[hr.shape(x)[0] - 1, [0, 1]]]
    values = hr.Session(graph).run(ys, feeds={x: _CUBE, n: 2, wide: np.int64(3)})
    expected = [_CUBE[2], _CUBE[:2, 1:], _CUBE[1:, 3:, ::2], _CUBE[..., 3], _CUBE[2, [0, 1]]]
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert [str(y.shape) for y in ys] == ["[4, 5]", "[?, 3, 5]", "[?, ?, ?]", "[?, 4]", "[2, 5]"]


def test_integer_tensors_and_variables_pick_rows() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant(_CUBE)
        i = hr.placeholder(hr.int32, [None])
        variable = hr.Variable([2, 1])
        picked = [x[i], x[:, i], x[[i[0], i[1]]], x[variable]]
    values = hr.Session(graph).run(picked, feeds={i: np.array([2, 0], np.int32)})
    for value, wanted in zip(values, [_CUBE[[2, 0]], _CUBE[:, [2, 0]], _CUBE[[2, 0]], _CUBE[[2, 1]]], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_a_mask_picks_where_it_is_true() -> None:
    mask = _CUBE[:, :, 0] > 20
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 4, 5])
        m = hr.placeholder(hr.bool, [None, 4])
        rows, listed, fixed = x[m], x[[True, False, True]], x[mask]
    values = hr.Session(graph).run([rows, listed, fixed], feeds={x: _CUBE, m: mask})
    for value, wanted in zip(values, [_CUBE[mask], _CUBE[[True, False, True]], _CUBE[mask]], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_variables_and_strings_are_indexed() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable([[1.0, 2.0], [3.0, 4.0]])
        text = hr.constant([b"a", b"b\x00"])
        y, s = variable[1:, 0], text[1]
    values = hr.Session(graph).run([y, s])
    assert values[0].tolist() == [3.0]
    assert values[1].item() == b"b\x00"


def test_a_tensor_of_known_size_can_be_walked_over() -> None:
    with hr.Graph().as_default() as graph:
        rows = list(hr.constant([[1, 2], [3, 4]]))
    assert [row.tolist() for row in hr.Session(graph).run(rows)] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, "ShapeError", r"index is out of range along axis 0(.|\n)*-3 <= index < 3"),
        ((0, 0, 0, 0), "ShapeError", r"too many indices"),
        ((..., 0, ...), "ShapeError", r"one ellipsis"),
        (slice(None, None, 0), "ShapeError", r"a stride is zero"),
        (1.5, "InvalidArgumentError", r"cannot be indexed by this(.|\n)*1\.5"),
        (True, "InvalidArgumentError", r"cannot be indexed by this"),
        ("a", "InvalidArgumentError", r"cannot be indexed by this"),
        (slice(0.5, None), "InvalidArgumentError", r"cannot be indexed by this"),
        ([0.5], "InvalidArgumentError", r"cannot be indexed by this"),
        (([0], [1]), "UnimplementedError", r"combination of indices is not supported(.|\n)*gather_nd"),
        ((0, slice(None), [1]), "UnimplementedError", r"combination of indices is not supported"),
        ((slice(None), np.ones(4, bool)), "UnimplementedError", r"mask beside other indices(.|\n)*boolean_mask"),
        (np.ones((2, 2), bool), "ShapeError", r"the mask does not fit"),
    ],
    ids=repr,
)
def test_wrong_indices_are_refused_at_the_line(key: Any, error: str, message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(getattr(hr.errors, error), match=message):
        hr.constant(_CUBE)[key]


def test_a_tensor_index_out_of_range_fails_when_it_runs() -> None:
    with hr.Graph().as_default() as graph:
        i = hr.placeholder(hr.int32, [])
        y = hr.constant([1.0, 2.0])[i]
    session = hr.Session(graph)
    assert session.run(y, feeds={i: -2}) == 1.0
    with pytest.raises(hr.errors.ShapeError, match=r"index is out of range along axis 0(.|\n)*test_indexing"):
        session.run(y, feeds={i: 2})


def test_a_float_tensor_is_no_index() -> None:
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="cannot be indexed"):
        hr.constant([1.0])[hr.constant(0.0)]
