"""Damaged inputs: an error of ours or a result that fits its static shape, never anything else."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.apply import as_array
from headrace.graph.op_def import lookup_op_def
from headrace.testing import OpCase

_FAMILIES = (
    "alignment", "array", "attention", "blocks", "candidates", "conversion", "counting", "csv_records", "debugging",
    "diagonal", "examples", "factorization", "fft", "floating", "gather", "hashing", "image", "image_codecs",
    "incomplete", "joining", "padding", "partition", "products", "quantization", "quantized", "ranges", "recurrent",
    "reshaping", "reversal", "search", "selection", "slicing", "sorting", "sparse", "tensor_bytes", "volume",
)  # fmt: skip
_CASES = [
    case
    for name in _FAMILIES
    for case in import_module(f"headrace.testing.cases.{name}").CASES
    if "too large" not in case.id and "O23" not in case.id  # half of such a size is terabytes, not an error
]
_SMALL = (0, 1, -1, 2, 3, -2, 5, 7)
_HUGE = (2**62, -(2**63), 2**63 - 1)  # no size between: the test must not ask for gigabytes


def _damaged(array: Any, rng: random.Random, huge: bool) -> Any:
    """The array with one integer replaced, or with an axis more, less, longer or empty; or as it is."""
    kind = rng.choice(["same", "same", "number", "number", "lower", "higher", "empty", "longer", "flat"])
    if kind == "number" and array.dtype.kind in "iu" and array.size:
        changed = array.reshape(-1).copy()
        numbers = _SMALL + (_HUGE if huge and array.dtype == np.int64 else ())
        bounds = np.iinfo(array.dtype)
        changed[rng.randrange(changed.size)] = min(max(rng.choice(numbers), bounds.min), bounds.max)
        return changed.reshape(array.shape)
    if kind == "higher":
        return array[None]
    if not array.ndim or kind in ("same", "number"):
        return array
    if kind == "lower" and array.shape[-1]:
        return array[..., 0] if array.ndim > 1 else array.reshape(-1)[:1].reshape(())
    if kind == "longer":
        return np.concatenate([array, array[:1]])
    return array[:0] if kind == "empty" else array.reshape(-1)


def _inputs(case: OpCase, rng: random.Random) -> list[Any]:
    inputs: list[Any] = []
    for argument, value in zip(lookup_op_def(case.op).inputs, case.inputs, strict=True):
        items = value if argument.is_list else [value]
        huge = case.op != "Range"
        arrays = [_damaged(_array(item, argument.dtype), rng, huge) for item in items]
        inputs.append(arrays if argument.is_list else arrays[0])
    return inputs


def _array(item: Any, dtype: Any) -> Any:
    return as_array(item, None if isinstance(item, (np.ndarray, np.generic)) else dtype)


def _tensors(result: Any) -> list[hr.Tensor]:
    return [result] if isinstance(result, hr.Tensor) else [tensor for item in result for tensor in _tensors(item)]


@pytest.mark.parametrize("seed", range(6))
def test_A26_damaged_inputs_give_errors_or_results_that_fit(seed: int) -> None:
    """A26, and the rule of the hard cases: a clear error of the invalid-argument kind, and the next step works."""
    rng = random.Random(seed)
    refused = 0
    for case in _CASES:
        arrays = _inputs(case, rng)
        shapes = rng.choice(["exact", "open", "unknown"])
        feeds: dict[hr.Tensor, Any] = {}

        def placeholder(array: Any, shapes: str = shapes, feeds: dict[hr.Tensor, Any] = feeds) -> hr.Tensor:
            known = {"exact": array.shape, "open": [None] * array.ndim, "unknown": None}[shapes]
            tensor = hr.placeholder(hr.as_dtype(array.dtype), known)
            feeds[tensor] = array
            return tensor

        try:
            with hr.Graph().as_default() as graph:
                given = [
                    [placeholder(a) for a in item] if isinstance(item, list) else placeholder(item) for item in arrays
                ]
                outputs = _tensors(hr.apply_op(case.op, *given, **case.attrs))
            values = hr.Session(graph).run(outputs, feeds=feeds)
        except hr.errors.HeadraceError:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"{case.id} with {arrays} ({shapes}): {error!r}") from error
        for output, value in zip(outputs, values, strict=True):
            assert hr.as_dtype(value.dtype) is output.dtype, case.id
            assert output.shape.is_compatible_with(hr.Shape(value.shape)), f"{case.id} with {arrays} ({shapes})"
    assert len(_CASES) // 4 < refused < len(_CASES) * 3 // 4  # both ways are taken often
