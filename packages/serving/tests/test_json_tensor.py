"""Tensors as JSON: exact values, exact types, and a clear refusal of everything else."""

from __future__ import annotations

import json
import math

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.types import Array, as_dtype
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.json_tensor import dump_json, tensor_from_json, tensor_to_json
from headrace_serving.json_value import JsonValue, parse_json

NUMERIC = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "bool"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def _written(alias: str, tensor: Array) -> bytes:
    return dump_json(tensor_to_json(alias, tensor))


@given(st.data(), st.sampled_from(NUMERIC))
def test_S11_numbers_survive_both_ways(data: st.DataObject, name: str) -> None:
    tensor = data.draw(hnp.arrays(name, SHAPES))
    back = tensor_from_json(parse_json(_written("y", tensor)), as_dtype(name))
    assert back.dtype == tensor.dtype
    shape = tensor.shape[: tensor.shape.index(0) + 1] if 0 in tensor.shape else tensor.shape
    assert back.shape == shape  # JSON cannot say what is inside no list
    np.testing.assert_array_equal(back, tensor.reshape(shape))


@given(hnp.arrays(object, SHAPES, elements=st.binary(max_size=8)))
def test_bytes_survive_both_ways(tensor: Array) -> None:
    back = tensor_from_json(parse_json(_written("y_bytes", tensor)), as_dtype("string"))
    assert back.ravel().tolist() == tensor.ravel().tolist()


def test_S01_ordinary_decimals_become_the_nearest_float32() -> None:
    tensor = tensor_from_json(parse_json(b"[1.24, 5.0, 0.96, 3]"), as_dtype("float32"))
    np.testing.assert_array_equal(tensor, np.array([1.24, 5.0, 0.96, 3], np.float32))


def test_numbers_beyond_float32_become_infinities_and_zeros() -> None:
    tensor = tensor_from_json([1e39, -1e39, 1e-60, math.nan, math.inf], as_dtype("float32"))
    np.testing.assert_array_equal(tensor, np.array([np.inf, -np.inf, 0, np.nan, np.inf], np.float32))


def test_S05_base64_becomes_bytes() -> None:
    value: JsonValue = [{"b64": "/9j/4AA="}, "é", {"b64": ""}]
    assert tensor_from_json(value, as_dtype("string")).tolist() == [b"\xff\xd8\xff\xe0\x00", "é".encode(), b""]


def test_shapes() -> None:
    assert tensor_from_json(3.25, as_dtype("float32")).shape == ()
    assert tensor_from_json([[[1], [2]]], as_dtype("int32")).shape == (1, 2, 1)
    assert tensor_from_json([[], []], as_dtype("int32")).shape == (2, 0)
    assert tensor_from_json("a", as_dtype("string")).shape == ()


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        # ragged, in each direction
        ([[1, 2], [3]], "float32", r"Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
        ([[1, 2], [3, 4, 5]], "float32", r"Encountered list at unexpected size: 3 at level: 1 expected size: 2"),
        ([[1], 2], "float32", r"JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ([1, [2]], "float32", r"Encountered list at unexpected level: 1 expected < 1"),
        ([[], [1]], "float32", r"Encountered list at unexpected size: 1 at level: 1 expected size: 0"),
        # wrong types
        (["x"], "float32", r'JSON Value: "x" Type: String is not of expected type: float'),
        (["1.5"], "float64", r'JSON Value: "1.5" Type: String is not of expected type: double'),
        ([1, None], "float32", r"JSON Value: null Type: Null is not of expected type: float"),
        ([True], "float32", r"JSON Value: true Type: True is not of expected type: float"),
        ([{"b64": "/9j/4AA="}], "float32", r'JSON Value: {"b64": "/9j/4AA="} Type: Object is not of expected type: f'),
        ([3.5], "int32", r"JSON Value: 3.5 Type: Number is not of expected type: int32"),
        ([1.0], "int32", r"JSON Value: 1.0 Type: Number is not of expected type: int32"),
        ([1e3], "int32", r"JSON Value: 1000.0 Type: Number is not of expected type: int32"),
        ([math.nan], "int64", r"JSON Value: NaN Type: Number is not of expected type: int64"),
        ([False], "int64", r"JSON Value: false Type: False is not of expected type: int64"),
        ([1, 2**31], "int32", r"JSON Value: 2147483648 Type: Number is not of expected type: int32"),
        ([300], "uint8", r"JSON Value: 300 Type: Number is not of expected type: uint8"),
        ([-129], "int8", r"JSON Value: -129 Type: Number is not of expected type: int8"),
        ([-1], "uint64", r"JSON Value: -1 Type: Number is not of expected type: uint64"),
        ([2**63], "int64", r"JSON Value: 9223372036854775808 Type: Number is not of expected type: int64"),
        ([0], "bool", r"JSON Value: 0 Type: Number is not of expected type: bool"),
        ([1], "string", r"JSON Value: 1 Type: Number is not of expected type: string"),
        # base64
        ([{"b64": 1}], "string", r'JSON Value: {"b64": 1} not formatted correctly for base64 data'),
        ([{"b64": "", "x": 1}], "string", r"not formatted correctly for base64 data"),
        ([{"b64": "/9j/4AA"}], "string", r"Unable to base64 decode"),
        ([{"b64": "_9j_4AA="}], "string", r"Unable to base64 decode"),
        ([{"b64": "/9j/ 4AA="}], "string", r"Unable to base64 decode"),
        ([{"b64": "é"}], "string", r"Unable to base64 decode"),
        (["\ud800"], "string", r"has a surrogate without its other half"),
    ],
)
def test_S03_S05_S11_what_is_no_such_tensor(value: JsonValue, dtype: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        tensor_from_json(value, as_dtype(dtype))


def test_more_dimensions_than_an_array_has() -> None:
    with pytest.raises(BadRequestError, match="Encountered list at unexpected level: 32 expected < 32"):
        tensor_from_json(parse_json(b"[" * 33 + b"]" * 33), as_dtype("float32"))


@pytest.mark.parametrize(("dtype", "name"), [("float16", "half"), ("bfloat16", "bfloat16"), ("uint16", "uint16")])
def test_dtypes_without_a_json_form(dtype: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"Conversion of JSON Value: 1 to type: {name}"):
        tensor_from_json([1], as_dtype(dtype))
    with pytest.raises(BadRequestError, match=f"Failed to write JSON value for tensor type: {name}"):
        tensor_to_json("y", np.zeros([1], as_dtype(dtype).array_type))


def test_floats_have_their_own_types_fewest_digits() -> None:
    assert _written("y", np.array([0.2, 1.0, 1 / 3], np.float32)) == b"[0.2,1.0,0.33333334]"
    assert _written("y", np.array([0.2, 1.0, 1 / 3])) == b"[0.2,1.0,0.3333333333333333]"


def test_S11_values_that_are_not_finite_are_tokens() -> None:
    tensor = np.array([[np.nan, 1.5], [-np.inf, np.inf]], np.float32)
    assert _written("y", tensor) == b"[[NaN,1.5],[-Infinity,Infinity]]"
    assert _written("y", np.array(np.nan, np.float32)) == b"NaN"
    assert json.loads(_written("y", tensor))[1] == [-math.inf, math.inf]


def test_arrays_of_any_layout() -> None:
    tensor = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert orjson.loads(_written("y", tensor.T)) == tensor.T.tolist()
    assert orjson.loads(_written("y", tensor[:, ::2])) == [[0, 2], [3, 5]]


def test_strings_are_text_unless_the_name_says_bytes() -> None:
    tensor = np.array([b"a", "é".encode()], object)
    assert orjson.loads(_written("label", tensor)) == ["a", "é"]
    assert orjson.loads(_written("label_bytes", tensor)) == [{"b64": "YQ=="}, {"b64": "w6k="}]
    with pytest.raises(BadRequestError, match=r"tensor type: string\n(.*\n)*.*ends in _bytes"):
        tensor_to_json("label", np.array([b"\xff"], object))
