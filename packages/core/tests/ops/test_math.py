"""User functions of the math families: promotion, operators, axes and errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import AttrError, DTypeError, HeadraceError, InvalidArgumentError, ShapeError


def value_of(build: Callable[[], Any], **options: Any) -> Any:
    """Build in a fresh graph and run."""
    graph = hr.Graph()
    with graph.as_default():
        result = build()
    return hr.Session(graph, **options).run(result)


def dtype_of(build: Callable[[], hr.Tensor]) -> hr.DType:
    with hr.Graph().as_default():
        return build().dtype


OPERATORS: list[tuple[Callable[[Any, Any], Any], Any, Any, Any]] = [
    (operator.add, 7, 2, 9),
    (operator.sub, 7, 2, 5),
    (operator.mul, 7, 2, 14),
    (operator.floordiv, -7, 2, -4),
    (operator.mod, -7, 4, 1),
    (operator.pow, 7, 2, 49),
    (operator.and_, 6, 3, 2),
    (operator.or_, 6, 3, 7),
    (operator.xor, 6, 3, 5),
    (operator.lt, 7, 2, False),
    (operator.le, 7, 7, True),
    (operator.gt, 7, 2, True),
    (operator.ge, 6, 7, False),
]


@pytest.mark.parametrize(
    ("function", "x", "y", "expected"), OPERATORS, ids=lambda item: getattr(item, "__name__", None)
)
def test_operators_take_a_tensor_on_either_side(function: Any, x: Any, y: Any, expected: Any) -> None:
    assert value_of(lambda: function(hr.constant(x), y)) == expected
    assert value_of(lambda: function(x, hr.constant(y))) == expected
    assert value_of(lambda: function(np.array(x, np.int32), hr.constant(y))) == expected


def test_unary_operators() -> None:
    assert value_of(lambda: [-hr.constant(3), abs(hr.constant(-3)), ~hr.constant(5)]) == [-3, 3, -6]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (operator.and_, [True, False]),
        (operator.or_, [True, True]),
        (operator.xor, [False, True]),
        (hr.logical_xor, [False, True]),
    ],
)
def test_operators_of_bits_are_logic_on_bools(function: Any, expected: Any) -> None:
    result = value_of(lambda: function(hr.constant([True, True]), [True, False]))
    assert result.tolist() == expected


def test_inverting_a_bool_is_not() -> None:
    assert value_of(lambda: ~hr.constant([True, False])).tolist() == [False, True]


def test_matrix_product_operator_takes_vectors() -> None:
    vector, matrix = np.arange(3.0), np.arange(6.0).reshape(3, 2)
    found = value_of(
        lambda: [
            hr.constant(vector) @ hr.constant(matrix),
            hr.constant(vector) @ vector,
            matrix.T @ hr.constant(vector),
        ]
    )
    for actual, expected in zip(found, [vector @ matrix, vector @ vector, matrix.T @ vector], strict=True):
        np.testing.assert_allclose(actual, expected)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transposed_products_of_batches_and_complex_matrices(left: bool, right: bool) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 2, 2)) + 1j * rng.normal(size=(4, 2, 2))
    b = rng.normal(size=(4, 2, 2)) + 1j * rng.normal(size=(4, 2, 2))
    expected = (a.swapaxes(1, 2) if left else a) @ (b.swapaxes(1, 2) if right else b)
    found = value_of(lambda: hr.matmul(a, b, transpose_a=left, transpose_b=right))
    np.testing.assert_allclose(found, expected)


def test_python_numbers_are_weak() -> None:
    assert dtype_of(lambda: hr.constant(1, hr.int8) + 2) is hr.int8
    assert dtype_of(lambda: hr.constant(1.0, hr.bfloat16) * 2.5) is hr.bfloat16
    assert dtype_of(lambda: hr.constant(1, hr.int64) * 0.5) is hr.float32
    assert dtype_of(lambda: hr.maximum(hr.constant(1.0, hr.float64), 0)) is hr.float64


def test_arrays_are_strong() -> None:
    assert dtype_of(lambda: hr.constant(1.0, hr.float32) + np.float64(2)) is hr.float64
    assert dtype_of(lambda: hr.constant(1, hr.int8) + np.array(1, np.uint8)) is hr.int16


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="300 does not fit int8"):
        hr.constant(1, hr.int8) + 300


def test_kinds_without_a_common_dtype_are_an_error() -> None:
    with hr.Graph().as_default(), pytest.raises(DTypeError, match="no common dtype"):
        hr.constant(1, hr.int64) + hr.constant(1, hr.uint64)


@pytest.mark.parametrize("dtype", [hr.int8, hr.int32, hr.int64, hr.uint8, hr.bool])
def test_true_division_of_integers_gives_float32(dtype: hr.DType) -> None:
    x = np.array([1, 0], dtype.array_type)
    found = value_of(lambda: hr.divide(x, np.array([1, 1], dtype.array_type)))
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, 0.0]


def test_true_division_keeps_floats() -> None:
    assert dtype_of(lambda: hr.constant(1.0, hr.float16) / 3) is hr.float16
    assert value_of(lambda: hr.constant([7, 1]) / 2).tolist() == [3.5, 0.5]


def test_rounding_leaves_integers_alone() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant([1, 2])
        assert all(function(x) is x for function in (hr.floor, hr.ceil, hr.round, hr.trunc))
    assert len(graph.operations) == 1


def test_clip_with_one_bound_or_arrays_of_bounds() -> None:
    x = [-2.0, 0.5, 3.0]
    found = value_of(lambda: [hr.clip(x, min=0), hr.clip(x, max=1), hr.clip(x), hr.clip(x, [0, 1, 2], 2.5)])
    assert [item.tolist() for item in found] == [[0, 0.5, 3], [-2, 0.5, 1], x, [0, 1, 2.5]]


@pytest.mark.parametrize("function", [hr.exp, hr.sqrt, hr.sin, hr.erf])
def test_functions_of_floats_refuse_integers(function: Any) -> None:
    with hr.Graph().as_default(), pytest.raises(AttrError, match="attr 'T' has a wrong value"):
        function(hr.constant(1))


@pytest.mark.parametrize("function", [hr.add, hr.less, hr.equal, hr.maximum, hr.bitwise_and])
def test_shapes_that_do_not_broadcast_are_named_at_build(function: Any) -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=r"do not broadcast(.|\n)*\[2\] and \[3\]"):
        function(hr.constant([1, 2]), hr.constant([1, 2, 3]))


def test_add_n_of_nothing_is_an_error() -> None:
    with hr.Graph().as_default(), pytest.raises(HeadraceError, match="attr 'N' has a wrong value|promote|AddN"):
        hr.add_n([])


def test_o07_division_by_zero_is_an_error_of_the_step_not_of_the_graph() -> None:
    graph = hr.Graph()
    with graph.as_default():
        bad = hr.floor_divide(hr.constant([2, 4]), hr.constant([1, 0]))
        good = hr.floor_divide(hr.constant([2, 4]), hr.constant([1, 2]))
    session = hr.Session(graph)
    with pytest.raises(InvalidArgumentError, match="division by zero"):
        session.run(bad)
    assert session.run(good).tolist() == [2, 2]


def test_c05_reciprocal_of_reciprocal_is_not_the_identity() -> None:
    x = np.array([7, 49, 0], np.float32)
    expected = np.float32(1) / (np.float32(1) / np.array([7, 49], np.float32))
    graph = hr.Graph()
    with graph.as_default():
        fed = hr.placeholder(hr.float32, [3])
        results = [hr.reciprocal(hr.reciprocal(fed)), hr.reciprocal(hr.reciprocal(hr.constant(x)))]
    for found in hr.Session(graph).run(results, feeds={fed: x}):
        assert found.tolist() == [*expected.tolist(), 0.0]
        assert found[0] == np.float32(6.9999995)


C03 = np.array([1, np.inf, np.nan, 0, -2], np.float32)
NAN = np.nan


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 0.0, [0, NAN, NAN, 0, -0.0]),
        (lambda x: x - x, [0, NAN, NAN, 0, 0]),
        (lambda x: x / x, [1, NAN, NAN, NAN, 1]),
        (lambda x: 0.0 / x, [0, 0, NAN, NAN, -0.0]),
    ],
)
@pytest.mark.parametrize("constant", [False, True])
def test_c03_passes_do_not_simplify_what_nan_and_zero_would_change(
    function: Any, expected: Any, constant: bool
) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(C03) if constant else hr.placeholder(hr.float32, [5])
        y = function(x)
    found = hr.Session(graph).run(y, feeds={} if constant else {x: C03})
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    finite = np.isfinite(found)
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(np.array(expected)[finite]))


def test_c13_denormals_survive_in_products_and_comparisons() -> None:
    tiny = np.float32(1e-40)
    assert value_of(lambda: [hr.constant(tiny) * 1e5, hr.equal(hr.constant(tiny), 0.0)]) == [
        tiny * np.float32(1e5),
        False,
    ]


def test_c11_tanh_is_monotone_and_bounded() -> None:
    x = np.concatenate([[np.float32(-8.51089)], np.arange(7, 9.1, 0.001)]).astype(np.float32)
    y = value_of(lambda: hr.tanh(x))
    assert np.abs(y).max() <= 1
    assert (np.diff(y[1:]) >= 0).all()


def test_c15_variance_of_nothing_and_of_one_element() -> None:
    found = value_of(
        lambda: [
            hr.var(np.zeros([0], np.float32)),
            hr.mean(np.zeros([0], np.float32)),
            hr.var(np.ones([1], np.float32)),
        ]
    )
    assert np.isnan(found[:2]).all()
    assert found[2] == 0


def test_functions_of_complex_parts_accept_real_numbers() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant([1.0, -2.0])
        assert hr.real(x) is x
        assert hr.conj(x) is x
        zeros = hr.imag(x)
    assert hr.Session(graph).run(zeros).tolist() == [0, 0]
    assert dtype_of(lambda: hr.complex(hr.constant(1.0, hr.float64), 2)) is hr.complex128


def test_positive_and_shifts_as_operators() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant([1, -2])
        results = [+x, x << 2, 1 << hr.constant([3]), x >> 1, 16 >> hr.constant([3])]
        with pytest.raises(hr.errors.DTypeError, match="positive takes numbers"):
            +hr.constant([True])
    values = hr.Session(graph).run(results)
    assert [value.tolist() for value in values] == [[1, -2], [4, -8], [8], [0, -1], [2]]
