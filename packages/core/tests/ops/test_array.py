"""User functions of the array family: what the operation cases do not show of shapes, defaults and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def _run(build: Callable[[hr.Tensor], Any], value: Any = _MATRIX, shape: Any = (None, 3)) -> Any:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.as_dtype(np.asarray(value).dtype), shape)
        result = build(x)
    return hr.Session(graph).run(result, feeds={x: value})


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda x: hr.zeros([hr.shape(x)[0], 10]), [2, 10]),
        (lambda x: hr.ones(hr.shape(x)), [2, 3]),
        (lambda x: hr.zeros(hr.size(x)), [6]),
        (lambda x: hr.zeros([]), []),
        (lambda x: hr.zeros(4), [4]),
        (lambda x: hr.full(hr.shape(x, dtype=hr.int64), 2.5), [2, 3]),
        (lambda x: hr.full([np.int64(2), hr.rank(x)], 1), [2, 2]),
        (lambda x: hr.reshape(x, [1, -1, hr.shape(x)[0]]), [1, 3, 2]),
        (lambda x: hr.reshape(x, hr.Shape([3, 2])), [3, 2]),
        (lambda x: hr.broadcast_to(x, [4, hr.shape(x)[0], 3]), [4, 2, 3]),
        (lambda x: hr.tile(x, [1, hr.shape(x)[0]]), [2, 6]),
        (lambda x: hr.zeros_like(x), [2, 3]),
        (lambda x: hr.ones_like(x, dtype=hr.int8), [2, 3]),
        (lambda x: hr.full_like(x, 7), [2, 3]),
        (lambda x: hr.expand_dims(x), [1, 2, 3]),
        (lambda x: hr.squeeze(hr.expand_dims(x, -1)), [2, 3]),
        (lambda x: hr.squeeze(hr.expand_dims(x, 1), axis=(1,)), [2, 3]),
        (lambda x: hr.permute_dims(x), [3, 2]),
        (lambda x: hr.permute_dims(x, [-1, 0]), [3, 2]),
        (lambda x: hr.flip(x), [2, 3]),
        (lambda x: hr.apply_op("Reshape", x, [hr.shape(x)[0], 3, 1]), [2, 3, 1]),
        (lambda x: hr.concat([x]), [2, 3]),
        (lambda x: hr.concat(hr.stack([x, x]), axis=1), [2, 6]),
    ],
)
def test_shapes_may_be_given_as_tensors_ints_and_mixtures(build: Callable[[hr.Tensor], Any], shape: list[int]) -> None:
    assert list(_run(build).shape) == shape


def test_unknown_rank_is_handled() -> None:
    value = np.arange(24.0).reshape(2, 3, 4)
    results = _run(lambda x: [hr.permute_dims(x), hr.flip(x), hr.squeeze(x[None])], value, None)
    for result, expected in zip(results, [value.T, value[::-1, ::-1, ::-1], value], strict=True):
        np.testing.assert_array_equal(result, expected)


def test_static_shapes_travel_through_shape_arithmetic() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None, 28, 28])
        assert str(hr.reshape(x, [hr.shape(x)[0], 784]).shape) == "[?, 784]"
        assert str(hr.reshape(x, hr.concat([hr.shape(x)[:1], [4, 196]])).shape) == "[?, 4, 196]"
        assert str(hr.zeros(hr.stack([hr.shape(x)[1], 5])).shape) == "[28, 5]"
        assert str(hr.split(x, 4, axis=1)[3].shape) == "[?, 7, 28]"
        assert str(hr.split(x, [1, -1], axis=2)[1].shape) == "[?, 28, 27]"


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(5, None, 1), (2, 11, 3), (5, 0, -2), (5, 0, 1), (0, 5, -1), (0.0, 1.0, 0.25), (3, 3, 1)],
)
def test_arange_is_that_of_numpy(start: Any, stop: Any, step: Any) -> None:
    expected = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
    np.testing.assert_array_equal(_run(lambda x: hr.arange(start, stop, step)), expected)


def test_arange_takes_tensors_and_a_dtype() -> None:
    assert _run(lambda x: hr.arange(hr.shape(x)[1])).tolist() == [0, 1, 2]
    counted = _run(lambda x: hr.arange(3, dtype=hr.bfloat16))
    assert counted.dtype == ml_dtypes.bfloat16
    assert counted.tolist() == [0, 1, 2]


def test_linspace_of_integers_is_floating() -> None:
    assert _run(lambda x: hr.linspace(0, 1, 3)).tolist() == [0.0, 0.5, 1.0]


def test_one_hot_takes_the_dtype_asked_for() -> None:
    assert _run(lambda x: hr.one_hot([1], 2, dtype=hr.bool)).tolist() == [[False, True]]
    assert _run(lambda x: hr.one_hot([1], 2, on_value=5, off_value=-1, axis=0)).tolist() == [[-1.0], [5.0]]
    assert _run(lambda x: hr.one_hot([1], 2, on_value=5, off_value=-1, axis=-2)).tolist() == [[-1.0], [5.0]]


def test_zeros_of_strings_are_empty() -> None:
    assert _run(lambda x: hr.zeros([2], hr.string)).tolist() == [b"", b""]


def test_joining_promotes_and_splitting_undoes_it() -> None:
    joined = _run(lambda x: hr.concat([x, np.zeros((1, 3))]))
    assert joined.dtype == np.float64
    assert _run(lambda x: hr.stack([1, 2.5])).tolist() == [1.0, 2.5]
    parts = _run(lambda x: hr.split(x, [1, 2], axis=-1))
    assert [part.shape for part in parts] == [(2, 1), (2, 2)]
    rows = _run(lambda x: hr.unstack(x, num=2))
    assert [row.tolist() for row in rows] == _MATRIX.tolist()


@pytest.mark.parametrize(
    ("mode", "value"), [("constant", 0), ("constant", 7), ("reflect", 0), ("symmetric", 0), ("REFLECT", 0)]
)
def test_pad_is_that_of_numpy(mode: str, value: int) -> None:
    keywords: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
    expected = np.pad(_MATRIX, [(1, 1), (2, 0)], mode.lower(), **keywords)  # type: ignore[call-overload]
    np.testing.assert_array_equal(_run(lambda x: hr.pad(x, [[1, 1], [2, 0]], mode, value=value)), expected)


def test_eye_may_be_rectangular() -> None:
    for rows, columns in ((3, None), (2, 3), (3, 2), (0, 2)):
        with hr.Graph().as_default() as graph:
            unit = hr.eye(rows, columns)
        np.testing.assert_array_equal(hr.Session(graph).run(unit), np.eye(rows, columns))


def test_boolean_mask_masks_any_axis() -> None:
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(_run(lambda x: hr.boolean_mask(x, mask, axis=1)), _MATRIX[:, mask])
    np.testing.assert_array_equal(_run(lambda x: hr.boolean_mask(x, mask, axis=-1)), _MATRIX[:, mask])
    np.testing.assert_array_equal(_run(lambda x: hr.boolean_mask(x, _MATRIX > 2)), _MATRIX[_MATRIX > 2])


def test_placeholders_with_default_take_what_is_fed() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder_with_default(np.array([1, 2], np.float32), [None])
        y = x * 2.0
    session = hr.Session(graph)
    assert session.run(y).tolist() == [2.0, 4.0]
    assert session.run(y, feeds={x: np.array([5], np.float32)}).tolist() == [10.0]


def test_checked_numbers_have_checked_gradients() -> None:
    check_gradient(lambda xs: [hr.check_numerics(xs[0], "x") * xs[0]], [[1.0, 2.0]])
    with hr.Graph().as_default() as graph:
        x = hr.constant([0.0, 1.0])
        (slope,) = hr.gradients(hr.sqrt(hr.check_numerics(x, "x")), [x])
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"gradient of x(.|\n)*1 infinite"):
        hr.Session(graph).run(slope)


def test_a_checked_number_is_checked_even_if_it_is_constant() -> None:
    with hr.Graph().as_default() as graph:
        y = hr.check_numerics(np.float32(np.nan), "loss")
    with pytest.raises(hr.errors.InvalidArgumentError, match="loss"):
        hr.Session(graph).run(y)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x: hr.zeros([1.5]), "InvalidArgumentError", r"a size must be an integer"),
        (lambda x: hr.zeros([-1]), "ShapeError", r"a size is negative"),
        (lambda x: hr.squeeze(x, axis=[]), "InvalidArgumentError", r"squeeze got no axis"),
        (lambda x: hr.concat([]), "InvalidArgumentError", r"concat got no tensors"),
        (lambda x: hr.stack([]), "InvalidArgumentError", r"stack got no tensors"),
        (lambda x: hr.unstack(x), "ShapeError", r"size of axis 0 is not known(.|\n)*num"),
        (lambda x: hr.unstack(x, axis=2), "ShapeError", r"axis is out of range"),
        (
            lambda x: hr.split(x, hr.shape(x)[:1] + hr.zeros(hr.shape(x)[:1], hr.int32)),
            "ShapeError",
            r"not known(.|\n)*num",
        ),
        (lambda x: hr.pad(x, [[0, 0], [0, 0]], "wrap"), "InvalidArgumentError", r"mode of pad is not known"),
        (lambda x: hr.eye(-1), "ShapeError", r"a size is negative"),
        (lambda x: hr.boolean_mask(x, True), "ShapeError", r"a mask needs a known rank"),
        (lambda x: hr.boolean_mask(x, [True, False], axis=1), "ShapeError", r"the mask does not fit"),
        (lambda x: hr.ensure_shape(x, [None, 4]), "ShapeError", r"another shape than was ensured"),
        (lambda x: hr.permute_dims(x, [0, 0]), "ShapeError", r"perm is given twice"),
        (lambda x: hr.arange(0, 5, 0), "InvalidArgumentError", r"delta != 0"),
    ],
)
def test_mistakes_are_refused_while_the_graph_is_built(
    build: Callable[[hr.Tensor], Any], error: str, message: str
) -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None, 3])
        with pytest.raises(getattr(hr.errors, error), match=message):
            build(x)


def test_a_failing_scatter_leaves_the_next_step_alone() -> None:
    """O13: no partial output, and the next good step works."""
    with hr.Graph().as_default() as graph:
        indices = hr.placeholder(hr.int32, [None, 1])
        y = hr.scatter_nd(indices, [1.0, 2.0], [3])
    session = hr.Session(graph)
    with pytest.raises(hr.errors.OutOfRangeError, match=r"0 <= index < 3(.|\n)*-1"):
        session.run(y, feeds={indices: np.array([[0], [-1]], np.int32)})
    assert session.run(y, feeds={indices: np.array([[0], [2]], np.int32)}).tolist() == [1.0, 0.0, 2.0]
