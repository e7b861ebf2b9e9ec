"""Constant folding: what can be computed once, while the plan is made, is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.graph.attr import without_repeats
from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import variable_spec
from headrace.graph.inference import infer_specs
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.kernels.context import NO_FUNCTIONS, NO_RESOURCES, context_of, group_inputs
from headrace.kernels.registry import find_kernel, kernels_of
from headrace.passes.rewrite import is_pure, rewrite_live
from headrace.types import Array, Shape

__all__ = ["fold", "user_name"]

_FOLDED = "/folded_"
"""What the name of a constant has after that of the operation in whose place it is."""

MAX_GROWTH_BYTES = 1 << 16
"""A folded constant may exceed the constants it comes from by this much: folding `fill([10**9], 0)` saves nothing."""


def fold(graph: Graph) -> Graph:
    """Replace operations whose inputs are all constant by constants, computed by the very kernels that would run.

    Shapes of tensors whose static shape is known are constants too. Stateful operations, operations with control inputs
    and operations whose kernel raises, or breaks what they promise of shapes and dtypes, stay as they are, so an error
    still comes from the step that needs the value. Where values may be dead, shapes are not folded, since a constant is
    always alive.
    """
    return rewrite_live(graph, _fold_outside_shapes if has_tokens(graph) else _fold_op)


def user_name(op: Operation) -> str:
    """The name that the user knows an operation by: for a folded constant or a fed value that of what it replaces."""
    if "_feed" in op.attrs:
        return str(op.attrs["_feed"]).partition(":")[0]
    return op.name.partition(_FOLDED)[0] if op.type == "Const" else op.name


def _fold_outside_shapes(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
    is_shape = op.type in _SHAPE_ONLY
    waits = any(tensor.op.control_inputs for tensor in inputs)
    return None if is_shape or waits else _fold_op(op, inputs, graph)


def _fold_op(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
    reads_shape = op.type == "VariableShape" and not op.control_inputs and "_target" not in op.attrs
    if op.type == "Const" or not (is_pure(op) or reads_shape) or op.op_def.function_attrs:  # a loop may take any time
        return None
    values = _values(op, inputs)
    if values is None:
        return None
    return [
        graph.create_op(
            "Const",
            (),
            {"value": value, "dtype": output.dtype},
            name=f"{op.name}{_FOLDED}{output.index}/",
            device=op.device,
            source=op.source,
        ).outputs[0]
        for output, value in zip(op.outputs, values, strict=True)
    ]


def _values(op: Operation, inputs: Sequence[Tensor]) -> list[Array] | None:
    """The values of the outputs if they are constant and not too large to keep."""
    if op.type == "VariableShape":
        known = variable_spec(inputs[0])
        return None if known is None else _of_shape(op, known.shape)
    if op.type in _SHAPE_ONLY and op.outputs[0].dtype.size:
        return _of_shape(op, inputs[0].shape)
    if not all(tensor.op.type == "Const" for tensor in inputs) or not kernels_of(op.type):
        return None
    constants = [value for value in map(constant_value, inputs) if value is not None]
    sizes = [output.shape.num_elements for output in op.outputs]
    budget = MAX_GROWTH_BYTES + sum(without_repeats(value).nbytes for value in constants)
    needed = [value.nbytes for value in constants]
    needed += [size * output.dtype.size for size, output in zip(sizes, op.outputs, strict=True) if size is not None]
    if any(size > budget for size in needed):
        return None
    try:
        if not all(tensor.shape.is_fully_defined for tensor in op.inputs):
            infer_specs(
                op.op_def, op.name, op.attrs, inputs, op.graph.functions
            )  # kernels rely on what it refuses now that shapes show
        results = _compute(op, constants)
    except Exception:  # whatever it is, the step that needs the value raises it again, and says where
        return None
    return results if results is not None and sum(value.nbytes for value in results) <= budget else None


def _of_shape(op: Operation, shape: Shape) -> list[Array] | None:
    try:
        known = _SHAPE_ONLY[op.type](shape)
        return None if known is None else [np.asarray(known, op.outputs[0].dtype.array_type)]
    except OverflowError:  # sizes beyond out_type: an error of the step that needs them
        return None


def _sizes(shape: Shape) -> tuple[int, ...] | None:
    return shape.as_tuple() if shape.is_fully_defined else None


def _filled(shape: Shape, number: int) -> Array | None:
    small = shape.num_elements is not None and shape.num_elements * 16 <= MAX_GROWTH_BYTES
    return np.full(shape.as_tuple(), number) if small else None


_SHAPE_ONLY: dict[str, Callable[[Shape], Any]] = {
    "Shape": _sizes,
    "Size": lambda shape: shape.num_elements,
    "Rank": lambda shape: shape.rank,
    "VariableShape": _sizes,
    "OnesLike": lambda shape: _filled(shape, 1),
    "ZerosLike": lambda shape: _filled(shape, 0),
}
"""Types whose value follows from the static shape of their input alone, or of the variable behind it."""


def _compute(op: Operation, constants: Sequence[Array]) -> list[Array] | None:
    """What the kernel gives, or None where a faulty kernel breaks what the operation promises of shapes and dtypes."""
    kernel = find_kernel(op.type, op.attrs)
    arguments = group_inputs(op, constants)
    with np.errstate(all="ignore"):
        result = (
            kernel.function(*arguments)
            if kernel.direct
            else kernel.function(context_of(op, NO_RESOURCES, NO_FUNCTIONS), *arguments)
        )
    results = [result] if len(op.outputs) == 1 and not op.op_def.outputs[0].is_list else list(result)
    keeps_promise = all(
        value.dtype == output.dtype.array_type and output.shape.is_compatible_with(Shape(value.shape))
        for value, output in zip(results, op.outputs, strict=True)
    )
    return [np.array(value) for value in results] if keeps_promise else None
