"""apply_op and the conversion of values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.graph.apply import as_array


@pytest.fixture(autouse=True)
def graph():
    graph = hr.Graph()
    with graph.as_default():
        yield graph


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, hr.bool), (3, hr.int32), (2**40, hr.int64), (2**63, hr.uint64), (1.5, hr.float32), (1j, hr.complex64),
        ("text", hr.string), (b"\x00", hr.string), ([1, 2], hr.int32), ([[1.0], [2]], hr.float32), ([], hr.float32),
        (np.float64(1), hr.float64), (np.arange(3), hr.int64), ([np.int8(1)], hr.int8),
        (np.zeros(2, ml_dtypes.bfloat16), hr.bfloat16), (np.array(["a", "bc"]), hr.string), ([-(2**31)], hr.int32),
        ([2**31], hr.int64), (np.zeros(1, ">f4"), hr.float32),
    ],
)  # fmt: skip
def test_a_python_value_takes_its_natural_dtype(value: object, dtype: hr.DType) -> None:
    assert hr.constant(value).dtype is dtype


def test_constant_takes_dtype_and_shape() -> None:
    assert hr.constant(1, hr.float16).dtype is hr.float16
    assert hr.constant(0, hr.int64, [2, 3]).shape == [2, 3]
    assert hr.constant([1, 2, 3, 4], shape=[2, 2]).shape == [2, 2]
    assert hr.constant(7, hr.uint8).spec == hr.TensorSpec(hr.uint8, hr.Shape([]))


def test_strings_keep_every_byte() -> None:
    value = as_array([b"a\x00", "ü", b""], None)
    assert value.tolist() == [b"a\x00", "ü".encode(), b""]


@pytest.mark.parametrize(
    ("value", "dtype", "error", "message"),
    [
        (300, hr.uint8, "DTypeError", "does not fit the dtype"),
        (1.5, hr.int32, "DTypeError", "does not fit the dtype"),
        (1j, hr.float32, "DTypeError", "does not fit the dtype"),
        (2, hr.bool, "DTypeError", "does not fit the dtype"),
        (np.zeros(2), hr.float32, "DTypeError", "wrong dtype(.|\n)*astype"),
        ("text", hr.float32, "DTypeError", "text has the wrong dtype"),
        (None, hr.float32, "InvalidArgumentError", "not a tensor(.|\n)*got: *None(.|\n)*None is no value"),
        ([1.0, None], hr.float32, "InvalidArgumentError", "not a tensor(.|\n)*None is no value"),
        (2**70, hr.int64, "InvalidArgumentError", "not a tensor(.|\n)*no integer dtype holds"),
        ([1, "one"], None, "InvalidArgumentError", "not a tensor(.|\n)*numbers alone or text alone"),
        ([[1], [2, 3]], None, "InvalidArgumentError", "the value is not a tensor"),
        (object(), None, "InvalidArgumentError", "the value is not a tensor"),
        ([object()], None, "InvalidArgumentError", "the value is not a tensor"),
    ],
)
def test_values_that_do_not_fit_are_refused(value, dtype, error: str, message: str) -> None:
    with pytest.raises(getattr(hr.errors, error), match=message):
        hr.constant(value, dtype)


def test_python_numbers_take_the_dtype_of_the_tensor_beside_them() -> None:
    x = hr.constant(1.0, hr.float64)
    assert hr.apply_op("AddV2", x, 1).dtype is hr.float64
    assert hr.apply_op("AddV2", 1, x).dtype is hr.float64
    assert hr.apply_op("AddN", [1, x, 2.5]).dtype is hr.float64


def test_list_inputs_set_their_length_and_their_dtypes() -> None:
    op = hr.apply_op("AddN", [hr.constant(1.0), hr.constant(2.0)]).op
    assert op.attr("N") == 2


def test_A29_a_variadic_operation_is_held_to_its_attributes_while_building() -> None:
    three = [hr.constant(1.0), hr.constant(2.0), hr.constant(3.0)]
    assert hr.apply_op("AddN", three, T=hr.float32, N=3).dtype is hr.float32
    with pytest.raises(hr.errors.DTypeError, match=r"number of inputs is wrong(.|\n)*3: AddN\(inputs: N \* T\)"):
        hr.apply_op("AddN", three[:2], T=hr.float32, N=3)
    with pytest.raises(hr.errors.DTypeError, match=r"wrong dtype(.|\n)*expected: float32\n +got: +int32"):
        hr.apply_op("AddN", [*three[:2], hr.constant(3)])
    with pytest.raises(hr.errors.AttrError, match=r"attr 'T' has a wrong value(.|\n)*type in \{(.|\n)*hr.string"):
        hr.apply_op("AddN", [hr.constant("a"), hr.constant("b")])


def test_A28_types_and_attributes_are_checked_while_building() -> None:
    x = hr.constant([[1.0]])
    with pytest.raises(hr.errors.UnknownOpError, match=r"'MatMull' is not known(.|\n)*close ones: MatMul"):
        hr.apply_op("MatMull", x, x)
    with pytest.raises(hr.errors.AttrError, match=r"'dtype' is missing(.|\n)*Placeholder\(\) -> \(output: dtype\)"):
        hr.apply_op("Placeholder")
    with pytest.raises(hr.errors.AttrError, match=r"'transpose_a' has a wrong value(.|\n)*MatMul(.|\n)*bool"):
        hr.apply_op("MatMul", x, x, transpose_a=3)
    with pytest.raises(hr.errors.AttrError, match=r"'transpose_c' is not known(.|\n)*transpose_a: bool, default False"):
        hr.apply_op("MatMul", x, x, transpose_c=True)


def test_nested_sequences_of_tensors_are_packed() -> None:
    x = hr.constant(1.0)
    packed = hr.convert_to_tensor([[x, 2.0], [3.0, x]])
    assert packed.shape == [2, 2]
    assert packed.dtype is hr.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hr.apply_op("AddV2", 1.0), r"was given 1 inputs(.|\n)*AddV2 asked for at test_apply.py"),
        (lambda: hr.apply_op("AddN", 1.0), "stands for a list"),
        (lambda: hr.apply_op("AddN", "ab"), "stands for a list"),
    ],
)
def test_A28_wrong_calls_are_refused(call, message: str) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match=message):
        call()


def test_a_tensor_of_the_wrong_dtype_is_refused_with_the_cure() -> None:
    with pytest.raises(hr.errors.DTypeError, match=r"wrong dtype(.|\n)*hr.astype\(x, hr.float64\)"):
        hr.convert_to_tensor(hr.constant(1.0), hr.float64)


def test_an_operation_in_the_place_of_a_value_is_explained() -> None:
    with hr.Graph().as_default():
        w = hr.Variable([1.0])
        with pytest.raises(hr.errors.InvalidArgumentError, match="try: +an operation has no value.*read the variable"):
            hr.sign(w.assign_add([1.0]))


def test_integers_beyond_int64_stay_integers_beside_small_ones() -> None:
    with hr.Graph().as_default() as graph:
        values = [hr.constant([1, 2**63]), hr.constant([1, 2**64 - 1], hr.uint64), hr.constant([1.0, 2**63])]
    assert [value.dtype for value in values] == [hr.uint64, hr.uint64, hr.float32]
    assert [value.tolist() for value in hr.Session(graph).run(values[:2])] == [[1, 2**63], [1, 2**64 - 1]]
