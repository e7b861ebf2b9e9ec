"""Cases of the examples family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headrace.graph.proto.example_pb2 import Example
from headrace.testing.op_case import OpCase
from headrace.types import Array, Shape


def _example(**features: list[Any]) -> bytes:
    example = Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString(deterministic=True)


def _strings(*values: bytes) -> Array:
    return np.array(values, object)


_FIRST = _example(ids=[1, 2, 3], age=[7], size=[0.5, 1.5], name=[b"x"])
_SECOND = _example(ids=[], size=[2.5, 3.5], tags=[b"a", b""])
_BOTH = _strings(_FIRST, _SECOND)
_NONE = np.zeros(0, np.int64)
_SHAPES = {"dense_shapes": [Shape([2]), Shape([])]}
_DEFAULTS = [np.zeros(0, np.float32), np.array(-1, np.int64)]

_SPARSE = (
    np.array([[0, 0], [0, 1], [0, 2]]), np.array([[1, 0], [1, 1]]),
    np.array([1, 2, 3]), _strings(b"a", b""),
    np.array([2, 3]), np.array([2, 2]),
)  # fmt: skip
_DENSE = (np.array([[0.5, 1.5], [2.5, 3.5]], np.float32), np.array([7, -1]))


def _v1(label: str, serialized: Array = _BOTH, **changes: Any) -> OpCase:
    options: dict[str, Any] = {
        "names": _strings(),
        "sparse_keys": [b"ids", b"tags"],
        "dense_keys": [b"size", b"age"],
        "dense_defaults": _DEFAULTS,
        "attrs": {"sparse_types": ["int64", "string"], "Tdense": ["float32", "int64"], **_SHAPES},
        "expected": (*_SPARSE, *_DENSE),
        "raises": None,
    }
    options |= changes
    inputs = [serialized, *(options[name] for name in ("names", "sparse_keys", "dense_keys", "dense_defaults"))]
    return OpCase(
        f"ParseExample/{label}", "ParseExample", inputs,
        {"Nsparse": len(inputs[2]), "Ndense": len(inputs[3]), **options["attrs"]},
        expected=options["expected"], raises=options["raises"],
    )  # fmt: skip


def _refused(label: str, text: str, serialized: bytes = _FIRST, **changes: Any) -> OpCase:
    return _v1(label, _strings(serialized), raises=text, **changes)


def _v2(label: str, serialized: Any, expected: tuple[Any, ...], shapes: Any = None, default: Any = None) -> OpCase:
    keys = [_strings(b"ids"), _strings(b"size"), _strings(b"tags", b"age")]
    return OpCase(
        f"ParseExampleV2/{label}",
        "ParseExampleV2",
        [serialized, _strings(), *keys, [np.zeros(0, np.float32) if default is None else default]],
        {
            "num_sparse": 1,
            "sparse_types": ["int64"],
            "Tdense": ["float32"],
            "dense_shapes": [Shape([2]) if shapes is None else shapes],
            "ragged_value_types": ["string", "int64"],
            "ragged_split_types": ["int32", "int64"],
        },
        expected=expected,
    )


_RAGGED_OF_BOTH = (
    _strings(b"a", b""), np.array([7]), np.array([0, 0, 2], np.int32), np.array([0, 1, 1]),
)  # fmt: skip
_IDS = (np.array([[0, 0], [0, 1], [0, 2]]), np.array([1, 2, 3]), np.array([2, 3]))
_SINGLE = {
    "num_sparse": 1, "sparse_keys": ["ids"], "dense_keys": ["size", "age"], "sparse_types": ["int64"],
    "Tdense": ["float32", "int64"], **_SHAPES,
}  # fmt: skip

CASES = [
    _v1("A23 sparse and dense"),
    _v1("names", names=_strings(b"first", b"second")),
    _v1(
        "no examples", _strings(),
        expected=(
            np.zeros((0, 2)), np.zeros((0, 2)), _NONE, _strings(), np.zeros(2), np.zeros(2),
            np.zeros((0, 2), np.float32), _NONE,
        ),
    ),
    _v1("an example without anything", _strings(b""), dense_keys=[b"age"], dense_defaults=[np.array(5, np.int64)],
        attrs={"sparse_types": ["int64", "string"], "Tdense": ["int64"], "dense_shapes": [Shape([])]},
        expected=(
            np.zeros((0, 2)), np.zeros((0, 2)), _NONE, _strings(), np.array([1, 0]), np.array([1, 0]), np.array([5]),
        )),
    _refused("no example", "no example", b"\xff\xff"),
    _refused("missing feature", "must be there", b""),
    _refused("another dtype", "another dtype", dense_keys=[b"age", b"age"]),
    _refused("another dtype of a sparse one", "another dtype", sparse_keys=[b"size", b"tags"]),
    _refused("another number of values", "another number of values",
             attrs={"sparse_types": ["int64", "string"], "Tdense": ["float32", "int64"],
                    "dense_shapes": [Shape([3]), Shape([])]}),
    _refused("names of another number", "differ in number", names=_strings(b"a", b"b")),
    _refused("shapes of another number", "one shape",
             attrs={"sparse_types": ["int64", "string"], "Tdense": ["float32", "int64"], "dense_shapes": [Shape([2])]}),
    _v2("batch", _BOTH, (*_IDS, np.array([[0.5, 1.5], [2.5, 3.5]], np.float32), *_RAGGED_OF_BOTH)),
    _v2(
        "one example", np.array(_FIRST, object),
        (
            np.array([[0], [1], [2]]), np.array([1, 2, 3]), np.array([3]), np.array([0.5, 1.5], np.float32),
            _strings(), np.array([7]), np.zeros(0, np.int32), _NONE,
        ),
    ),
    _v2(
        "rows that vary", _strings(_FIRST, _example(size=[9.0])),
        (
            *_IDS, np.array([[0.5, 1.5], [9, -1]], np.float32),
            _strings(), np.array([7]), np.zeros(3, np.int32), np.array([0, 1, 1]),
        ),
        Shape([None]), np.array(-1, np.float32),
    ),
    replace(_v2("matrix", _BOTH.reshape(1, 2), ()), expected=None, raises="examples are a vector"),
    OpCase(
        "ParseSingleExample/one", "ParseSingleExample", [np.array(_FIRST, object), _DEFAULTS], _SINGLE,
        expected=(
            np.array([[0], [1], [2]]), np.array([1, 2, 3]), np.array([3]), np.array([0.5, 1.5], np.float32),
            np.array(7),
        ),
    ),
    OpCase(
        "ParseSingleExample/several", "ParseSingleExample", [_BOTH, _DEFAULTS], _SINGLE, raises="rank is wrong",
    ),
]  # fmt: skip
