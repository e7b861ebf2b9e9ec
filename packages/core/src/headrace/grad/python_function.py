"""Gradient rules of the operations that call Python functions: another such operation, if the user gave a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.grad.registry import register_gradient
from headrace.graph.operation import Operation, Tensor
from headrace.ops.python_function import PythonFunction, find_python_function, py_function


@register_gradient("PyFunc")
@register_gradient("PyFuncStateless")
@register_gradient("EagerPyFunc")
def _python_function(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The user's gradient, called with the inputs and what arrived at the outputs; none if he gave none."""
    holder = find_python_function(str(op.attrs["token"]))
    places = [index for index, tensor in enumerate(op.inputs) if tensor.dtype.is_differentiable]
    if holder.gradient is None or not places:
        return [None] * len(op.inputs)
    wanted = [op.inputs[index] for index in places]
    found = py_function(
        _chosen(holder, len(op.inputs), places),
        [*op.inputs, *arrived],
        [tensor.dtype for tensor in wanted],
        shapes=[tensor.shape for tensor in wanted],
    )
    results: list[Tensor | None] = [None] * len(op.inputs)
    for index, tensor in zip(places, found, strict=True):
        results[index] = tensor
    return results


def _chosen(holder: PythonFunction, count: int, places: list[int]) -> Any:
    """The gradients by the inputs that are floating, with zeros where the user's function gives None."""

    def call(*arrays: Any) -> Any:
        given = holder.gradient(*arrays) if holder.gradient is not None else None
        results = list(given) if isinstance(given, (tuple, list)) else [given]
        if len(results) != count:
            raise InvalidArgumentError(
                "the gradient of a Python function gave another number of results",
                expected=f"{count}, one for each input",
                got=str(len(results)),
                hint="return None for an input without a gradient",
            )
        return tuple(np.zeros_like(arrays[index]) if results[index] is None else results[index] for index in places)

    return call
