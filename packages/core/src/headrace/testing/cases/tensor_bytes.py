"""Cases of the tensor_bytes family; the wire form is spelled out byte by byte."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers
from headrace.types import as_dtype


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _wire(array: Any) -> bytes:
    """TensorProto: dtype (1), shape (2) and content (4) of a small array of more than one element."""
    dims = b"".join(_field(2, bytes([8, size])) for size in array.shape)
    return bytes([8, as_dtype(array.dtype).number]) + _field(2, dims) + _field(4, array.tobytes())


def _text(value: bytes) -> Any:
    result = np.empty((), object)
    result[()] = value
    return result


_DTYPES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "complex64", "complex128",
)  # fmt: skip
_ONE = _text(bytes([8, 1]) + _field(2, b"") + _field(5, struct.pack("<f", 2.5)))
"""The float 2.5 in the field that lists floats."""
_STRINGS = _text(bytes([8, 7]) + _field(2, _field(2, bytes([8, 2]))) + _field(8, b"a") + _field(8, b"\0b"))
_HUGE = _text(bytes([8, 1]) + _field(2, _field(2, bytes([8, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]))))
"""2**32 - 1 floats of which none is listed."""


def _strings(*values: bytes) -> Any:
    result = np.empty(len(values), object)
    result[:] = values
    return result


def _wire_of_none(shape: tuple[int, ...]) -> bytes:
    """int64 without elements: there is no content."""
    dims = b"".join(_field(2, bytes([8, size]) if size else b"") for size in shape)
    return bytes([8, 9]) + _field(2, dims)


_SPARSE = [np.array([[0, 2], [1, 0]]), np.array([1.5, 2.5], np.float32), np.array([2, 3])]
_OTHER = [np.array([[0, 1], [3, 0]]), np.array([3.5, 4.5], np.float32), np.array([4, 2])]
_RANK_3 = [np.array([[0, 2, 1], [1, 0, 0]]), np.array([1.5, 2.5], np.float32), np.array([2, 3, 4])]

CASES = [
    *(
        OpCase(
            f"SerializeTensor/{dtype}", "SerializeTensor", [numbers(dtype, 2, 3)], expected=lambda x: _text(_wire(x))
        )
        for dtype in _DTYPES
    ),
    *(
        OpCase(
            f"ParseTensor/{dtype}",
            "ParseTensor",
            [_text(_wire(numbers(dtype, 2, 3)))],
            {"out_type": dtype},
            expected=numbers(dtype, 2, 3),
            exact=True,
        )
        for dtype in _DTYPES
    ),
    OpCase("SerializeTensor/NaN", "SerializeTensor", [np.array([np.nan, 1])], expected=lambda x: _text(_wire(x))),
    OpCase("ParseTensor/scalar", "ParseTensor", [_ONE], {"out_type": "float32"}, expected=np.float32(2.5)),
    OpCase(
        "ParseTensor/strings",
        "ParseTensor",
        [_STRINGS],
        {"out_type": "string"},
        expected=np.array([b"a", b"\0b"], object),
    ),
    OpCase(
        "ParseTensor/empty",
        "ParseTensor",
        [_text(_wire(np.zeros((0, 2), np.int32)))],
        {"out_type": "int32"},
        expected=np.zeros((0, 2), np.int32),
    ),
    OpCase("ParseTensor/another dtype", "ParseTensor", [_ONE], {"out_type": "int32"}, raises="another dtype"),
    OpCase("ParseTensor/damaged", "ParseTensor", [_text(b"\xff\xff")], {"out_type": "int32"}, raises="no tensor"),
    OpCase(
        "ParseTensor/too short",
        "ParseTensor",
        [_text(_wire(numbers("int32", 2, 3))[:-5])],
        {"out_type": "int32"},
        raises="no tensor",
    ),
    OpCase(
        "ParseTensor/two strings",
        "ParseTensor",
        [np.array([b"a", b"b"], object)],
        {"out_type": "int32"},
        raises="scalar",
    ),
    OpCase(
        "ParseTensor/more elements than bytes",
        "ParseTensor",
        [_HUGE],
        {"out_type": "float32"},
        raises="too many elements",
        deviation="TensorFlow makes the 16 gigabytes",
    ),
    OpCase("SerializeSparse/float32", "SerializeSparse", _SPARSE, expected=_strings(*map(_wire, _SPARSE))),
    OpCase(
        "SerializeManySparse/rows",
        "SerializeManySparse",
        [np.array([[0, 0, 2], [0, 1, 0], [2, 3, 1], [2, 4, 0]]), np.array([5, 6, 7, 8]), np.array([3, 5, 6])],
        expected=np.stack(
            [
                _strings(*map(_wire, (np.array([[0, 2], [1, 0]]), np.array([5, 6]), np.array([5, 6])))),
                _strings(*map(_wire_of_none, ((0, 2), (0,))), _wire(np.array([5, 6]))),
                _strings(*map(_wire, (np.array([[3, 1], [4, 0]]), np.array([7, 8]), np.array([5, 6])))),
            ]
        ),
    ),
    OpCase(
        "SerializeManySparse/one axis",
        "SerializeManySparse",
        [np.array([[0]]), np.array([5]), np.array([3])],
        raises="no rows to cut",
    ),
    OpCase(
        "SerializeManySparse/out of order",
        "SerializeManySparse",
        [np.array([[1, 0], [0, 0]]), np.array([5, 6]), np.array([2, 2])],
        raises="not in order",
    ),
    OpCase(
        "SerializeSparse/parts do not fit",
        "SerializeSparse",
        [np.array([[1, 0]]), np.array([5, 6]), np.array([2, 2])],
        raises="contradict",
        deviation="TensorFlow writes down what is no sparse tensor",
    ),
    OpCase(
        "DeserializeSparse/one",
        "DeserializeSparse",
        [_strings(*map(_wire, _SPARSE))],
        {"dtype": "float32"},
        expected=tuple(_SPARSE),
    ),
    *(
        OpCase(
            f"{op}/batch",
            op,
            [np.stack([_strings(*map(_wire, parts)) for parts in (_SPARSE, _OTHER)])],
            {"dtype": "float32"},
            expected=(
                np.array([[0, 0, 2], [0, 1, 0], [1, 0, 1], [1, 3, 0]]),
                np.array([1.5, 2.5, 3.5, 4.5], np.float32),
                np.array([2, 4, 3]),
            ),
        )
        for op in ("DeserializeSparse", "DeserializeManySparse")
    ),
    OpCase(
        "DeserializeSparse/another dtype",
        "DeserializeSparse",
        [_strings(*map(_wire, _SPARSE))],
        {"dtype": "int32"},
        raises="another dtype",
    ),
    OpCase(
        "DeserializeSparse/ranks differ",
        "DeserializeSparse",
        [np.stack([_strings(*map(_wire, _SPARSE)), _strings(*map(_wire, _RANK_3))])],
        {"dtype": "float32"},
        raises="different rank",
    ),
    OpCase(
        "DeserializeSparse/parts do not fit",
        "DeserializeSparse",
        [_strings(_wire(_SPARSE[0]), _wire(_SPARSE[1]), _wire(np.array([2, 3, 4])))],
        {"dtype": "float32"},
        raises="do not fit each other",
    ),
    OpCase(
        "DeserializeSparse/two strings",
        "DeserializeSparse",
        [_strings(b"a", b"b")],
        {"dtype": "float32"},
        raises="no serialised sparse",
    ),
    OpCase(
        "DeserializeManySparse/none",
        "DeserializeManySparse",
        [np.zeros((0, 3), object)],
        {"dtype": "float32"},
        raises="no sparse tensor",
    ),
]
