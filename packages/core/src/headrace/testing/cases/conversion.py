"""Cases of operations that convert elements or check them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase

_BAD = [np.nan, np.inf, -np.inf, 3e9, -1.7]
_LENGTHS = (5, 8, 13, 33)
_EDGES = np.array([np.nan, np.inf, -np.inf, 3e9, -1.7, 300.5, -200.0, 1e20, 70000.0, -0.0, 127.9], np.float32)
_LOW32, _LOW64 = -(2**31), -(2**63)


_BY_LENGTH = "what TensorFlow makes of a number that does not fit depends on the length of the array"


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _cast(what: str, values: Any, dtype: str, expected: Any, *, deviation: str | None = None, **more: Any) -> OpCase:
    """No gradient is checked: integers have none, and the gradient check itself works in float64."""
    attrs = {"DstT": dtype, **more}
    return OpCase(f"Cast/{what}", "Cast", [values], attrs, expected, exact=True, differentiate=(), deviation=deviation)


def _repeated(values: list[Any], length: int) -> list[Any]:
    return [values[index % len(values)] for index in range(length)]


CASES = [
    *(
        _cast(
            f"O25 float32 to int32, {length} elements",
            np.array(_repeated(_BAD, length), np.float32),
            "int32",
            np.array(_repeated([_LOW32, _LOW32, _LOW32, _LOW32, -1], length), np.int32),
        )
        for length in _LENGTHS
    ),
    *(
        _cast(
            f"O25 float32 to int64, {length} elements",
            np.array(_repeated(_BAD, length), np.float32),
            "int64",
            np.array(_repeated([_LOW64, _LOW64, _LOW64, 3000000000, -1], length), np.int64),
        )
        for length in _LENGTHS
    ),
    *(
        _cast(
            f"O25 float32 to uint8, {length} elements",
            np.array(_repeated(_BAD, length), np.float32),
            "uint8",
            np.array(_repeated([0, 0, 0, 0, 255], length), np.uint8),
            deviation=_BY_LENGTH if length > 13 else None,
        )
        for length in _LENGTHS
    ),
    _cast("int8 keeps the low bits", _EDGES, "int8", np.array([0, 0, 0, 0, -1, 44, 56, 0, 112, 0, 127], np.int8)),
    _cast(
        "int16 keeps the low bits", _EDGES, "int16", np.array([0, 0, 0, 0, -1, 300, -200, 0, 4464, 0, 127], np.int16)
    ),
    _cast(
        "uint16 keeps the low bits",
        _EDGES,
        "uint16",
        np.array([0, 0, 0, 0, 65535, 300, 65336, 0, 4464, 0, 127], np.uint16),
    ),
    _cast(
        "uint32",
        _EDGES,
        "uint32",
        np.array([0, 0, 0, 3000000000, 2**32 - 1, 300, 2**32 - 200, 0, 70000, 0, 127], np.uint32),
        deviation=_BY_LENGTH,
    ),
    _cast(
        "uint64",
        np.array([np.nan, np.inf, 1e19, 1.5e19, 2e19, -1.7, 9.9]),
        "uint64",
        np.array([2**63, 2**63, 10**19, 15 * 10**18, 2**63, 2**64 - 1, 9], np.uint64),
    ),
    _cast(
        "float64 just inside int32",
        np.array([2147483647.5, -2147483648.9]),
        "int32",
        np.array([2**31 - 1, _LOW32], np.int32),
    ),
    _cast("float16 infinity to int32", np.array([np.inf, 2.5], np.float16), "int32", np.array([_LOW32, 2], np.int32)),
    _cast("bfloat16 to int64", np.array([np.nan, -3.5], ml_dtypes.bfloat16), "int64", np.array([_LOW64, -3], np.int64)),
    _cast(
        "float32 to bfloat16",
        np.array([1.00390625, -np.inf], np.float32),
        "bfloat16",
        np.array([1, -np.inf], ml_dtypes.bfloat16),
    ),
    _cast("bfloat16 to float16", np.array([1.5, -2.0], ml_dtypes.bfloat16), "float16", np.array([1.5, -2], np.float16)),
    _cast(
        "truncated to bfloat16",
        np.array([1.0078125, 1.90625 + 0.0077, -1.90625 - 0.0077], np.float32),
        "bfloat16",
        np.array([1.0078125, 1.90625, -1.90625], ml_dtypes.bfloat16),
        Truncate=True,
    ),
    _cast("int64 to int32 keeps the low bits", np.array([2**32 + 5, -1]), "int32", np.array([5, -1], np.int32)),
    _cast("int32 to uint64", np.array([-1, 7], np.int32), "uint64", np.array([2**64 - 1, 7], np.uint64)),
    _cast(
        "to bool",
        np.array([np.nan, 0.0, -0.0, 1e-45], np.float32),
        "bool",
        np.array([True, False, False, True]),
        deviation="TensorFlow takes denormal numbers for zero",
    ),
    _cast("complex to bool", np.array([0, 1j, 2]), "bool", np.array([False, False, True])),
    _cast("bool to float64", np.array([True, False]), "float64", np.array([1.0, 0.0])),
    _cast("complex to float", np.array([1.5 + 2j, 3j]), "float32", np.array([1.5, 0], np.float32)),
    _cast("complex to integer", np.array([1.9 + 2j, np.nan]), "int32", np.array([1, _LOW32], np.int32)),
    _cast("float to complex", np.array([1.5], np.float32), "complex128", np.array([1.5 + 0j])),
    _cast("same dtype", np.float64(-0.0), "float64", np.float64(-0.0)),
    _cast("scalar", np.float32(2.9), "int32", np.int32(2)),
    _cast("empty", np.zeros((0, 3), np.float32), "int8", np.zeros((0, 3), np.int8)),
    _cast("float64 to float32", np.array([[0.1, 1e300]]), "float32", np.array([[0.1, np.inf]], np.float32)),
    OpCase(
        "Cast/float32 to float64",
        "Cast",
        [np.array([0.5, -1.25], np.float32)],
        attrs={"DstT": "float64"},
        expected=np.array([0.5, -1.25]),
    ),
    OpCase("Cast/strings", "Cast", [np.array([b"1"], object)], attrs={"DstT": "int32"}, raises=r"attr 'SrcT'"),
    OpCase(
        "Bitcast/float32 to uint32",
        "Bitcast",
        [np.array([[1.0, -0.0]], np.float32)],
        attrs={"type": "uint32"},
        expected=np.array([[0x3F800000, 0x80000000]], np.uint32),
    ),
    OpCase(
        "Bitcast/to smaller",
        "Bitcast",
        [np.array([0x01020304], np.int32)],
        attrs={"type": "uint8"},
        expected=np.array([[4, 3, 2, 1]], np.uint8),
    ),
    OpCase(
        "Bitcast/to larger",
        "Bitcast",
        [np.array([[1, 0], [0, 1]], np.int32)],
        attrs={"type": "int64"},
        expected=np.array([1, 2**32]),
    ),
    OpCase(
        "Bitcast/scalar", "Bitcast", [np.float64(1)], attrs={"type": "int64"}, expected=np.int64(0x3FF0000000000000)
    ),
    OpCase(
        "Bitcast/bfloat16",
        "Bitcast",
        [np.array([1.5], ml_dtypes.bfloat16)],
        attrs={"type": "uint16"},
        expected=np.array([0x3FC0], np.uint16),
    ),
    OpCase(
        "Bitcast/empty",
        "Bitcast",
        [np.zeros((0,), np.int64)],
        attrs={"type": "int32"},
        expected=np.zeros((0, 2), np.int32),
    ),
    OpCase(
        "Bitcast/wrong last axis",
        "Bitcast",
        [np.zeros((2, 3), np.int32)],
        attrs={"type": "int64"},
        raises=r"last axis of size 2",
    ),
    OpCase(
        "Bitcast/scalar to larger", "Bitcast", [np.int32(1)], attrs={"type": "int64"}, raises=r"last axis of size 2"
    ),
    OpCase(
        "CheckNumerics/finite",
        "CheckNumerics",
        [np.array([[1.0, -2.0]], np.float32)],
        attrs={"message": "x"},
        expected=lambda x: x,
    ),
    OpCase(
        "CheckNumerics/NaN and infinity",
        "CheckNumerics",
        [np.array([np.nan, -np.inf, 1], ml_dtypes.bfloat16)],
        attrs={"message": "activations"},
        raises=r"activations: the tensor has elements that are not finite(.|\n)*1 NaN, 1 infinite of 3 elements",
    ),
    OpCase(
        "CheckNumerics/empty", "CheckNumerics", [np.zeros((0, 2))], attrs={"message": "x"}, expected=np.zeros((0, 2))
    ),
    OpCase(
        "EnsureShape/fits",
        "EnsureShape",
        [np.ones((2, 3), np.float32)],
        attrs={"shape": [None, 3]},
        expected=lambda x: x,
    ),
    OpCase("EnsureShape/any rank", "EnsureShape", [np.float32(1)], attrs={"shape": None}, expected=lambda x: x),
    OpCase(
        "EnsureShape/contradicts",
        "EnsureShape",
        [np.ones((2, 3), np.float32)],
        attrs={"shape": [None, 4]},
        raises=r"another shape than was ensured",
    ),
    OpCase(
        "OneHot/last axis",
        "OneHot",
        [np.array([0, 2, -1, 3]), 3, np.float32(5), np.float32(-1)],
        expected=np.array([[5, -1, -1], [-1, -1, 5], [-1, -1, -1], [-1, -1, -1]], np.float32),
    ),
    OpCase(
        "OneHot/first axis",
        "OneHot",
        [np.array([[0, 1]], np.uint8), 2, np.int32(1), np.int32(0)],
        attrs={"axis": 0},
        expected=np.array([[[1, 0]], [[0, 1]]], np.int32),
    ),
    OpCase("OneHot/scalar index", "OneHot", [np.int32(1), 2, True, False], expected=np.array([False, True])),
    OpCase(
        "OneHot/no classes",
        "OneHot",
        [_i32(0, 1), 0, np.float32(1), np.float32(0)],
        expected=np.zeros((2, 0), np.float32),
    ),
    OpCase(
        "OneHot/no indices",
        "OneHot",
        [np.zeros((0, 2), np.int64), 3, np.float32(1), np.float32(0)],
        expected=np.zeros((0, 2, 3), np.float32),
    ),
    OpCase("OneHot/negative depth", "OneHot", [_i32(0), -1, np.float32(1), np.float32(0)], raises=r"depth is negative"),
    OpCase(
        "OneHot/axis below -1",
        "OneHot",
        [_i32(0), 2, np.float32(1), np.float32(0)],
        attrs={"axis": -2},
        raises=r"axis is out of range",
    ),
    OpCase(
        "OneHot/axis out of range",
        "OneHot",
        [_i32(0), 2, np.float32(1), np.float32(0)],
        attrs={"axis": 3},
        raises=r"axis is out of range",
    ),
]
