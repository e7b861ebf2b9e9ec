"""Kernels of the operations that call Python functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.graph.apply import as_array
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.python_function import find_python_function
from headrace.types import Array, DType, Shape

__all__: list[str] = []


@register_kernel("PyFunc")
@register_kernel("PyFuncStateless")
@register_kernel("EagerPyFunc")
def _call(op: OpContext, inputs: list[Array]) -> tuple[Array, ...]:
    given = find_python_function(op.attr("token")).function(*(_protected(item) for item in inputs))
    kinds = op.attr("Tout")
    several = isinstance(given, tuple) or (isinstance(given, list) and len(kinds) != 1)
    results = list(given) if several else [] if given is None and not kinds else [given]
    if len(results) != len(kinds):
        raise InvalidArgumentError(
            "the Python function gave another number of results",
            expected=f"{len(kinds)}, of {', '.join(map(str, kinds))}",
            got=str(len(results)),
            hint="return a tuple with one array for each of the dtypes",
        )
    return tuple(
        _converted(result, dtype, spec.shape) for result, dtype, spec in zip(results, kinds, op.outputs, strict=True)
    )


def _protected(value: Any) -> Any:
    """A view that cannot be written to: other operations may read the same memory."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _converted(result: Any, dtype: DType, shape: Shape) -> Array:
    try:
        array = as_array(result, None if isinstance(result, (np.ndarray, np.generic)) else dtype)
        converted = np.array(array) if array.dtype == dtype.array_type else None
    except HeadraceError as error:
        raise _wrong(result, dtype, "dtype", str(dtype)) from error
    if converted is None:
        raise _wrong(result, dtype, "dtype", str(dtype))
    if not shape.is_compatible_with(Shape(converted.shape)):
        raise _wrong(result, dtype, "shape", str(shape))
    return converted


def _wrong(result: Any, dtype: DType, what: str, expected: str) -> InvalidArgumentError:
    found = f"{result.dtype}{list(result.shape)}" if isinstance(result, (np.ndarray, np.generic)) else repr(result)
    return InvalidArgumentError(
        f"the Python function gave a result of another {what}",
        expected=expected,
        got=found,
        hint=f"return np.asarray(result, '{dtype}')" if what == "dtype" else "correct shapes= of hr.py_function",
    )
