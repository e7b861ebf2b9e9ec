"""The pass that looks at every value for NaN and infinity, and the user's way to ask for it (`hr.debug`).

A check stands between an operation and all that use its outputs, so the first bad value of a step is the one that is
reported, whichever order the step runs in, in loops and branches too: bodies of functions go through the same passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

from headrace.config import Config, current_config
from headrace.graph.frames import back_edge, forward_inputs
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.lower import lower
from headrace.passes.rewrite import close_loops, copy_op
from headrace.types import resource

__all__ = ["check_numerics"]

_PASS_ON = frozenset(
    {
        *("_Arg", "_Retval", "Const", "Placeholder", "Identity", "IdentityN", "_CheckValue", "CheckNumerics"),
        *("Switch", "Merge", "Enter", "Exit", "NextIteration", "RefSwitch", "RefMerge"),
        *("ReadVariableOp", "StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze", "ZerosLike"),
    }
)
"""Types that make no value of their own: what they pass on was checked where it was made."""


def check_numerics(*, skip: Sequence[str] = ()) -> Config:
    """Options under which a step ends with an error at the first NaN or infinity that an operation computes.

    The error names the operation, the line that created it, the place of the first such element, and the first input
    that was bad already, or the values that it was made of. Variables are looked at after each update. Steps take about
    twice their time; graphs and sessions made without these options are not concerned.

    Args:
      skip: names of operations to let pass, with `*` for any characters: where a later `hr.where` takes the bad
        elements away.
    Returns:
      The options in force here with the checks: give them to a Session, or enter them around an `@hr.function`. Call it
      under `with hr.config(...):` to have other options too, such as a backend.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [2], name="x")
      ...     y = hr.log(x, name="y")
      >>> session = hr.Session(graph, config=hr.debug.check_numerics())
      >>> try:
      ...     session.run(y, feeds={x: [1.0, 0.0]})
      ... except hr.errors.InvalidArgumentError as error:
      ...     print(error.what, "|", error.got)
      output 'y:0' became -inf | 1 of 2 elements not finite, the first at [1]; its inputs are finite: 'x:0' 0.0
    """
    options = current_config()
    checked = partial(_with_checks, skip=tuple(skip))
    return Config(
        **{
            **{name: getattr(options, name) for name in Config.__dataclass_fields__},
            "passes": (checked, *options.passes),
        }
    )


def _with_checks(graph: Graph, *, skip: tuple[str, ...] = ()) -> Graph:
    # What asks for devices inside becomes primitives later anyway; its bodies would not go through the passes then.
    graph = lower(graph, _asks_for_devices)
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    ends: dict[Operation, Operation] = {}
    for op in graph.operations:
        inputs = [tensors[tensor] for tensor in forward_inputs(op)]
        copied = copies[op] = copy_op(op, inputs, result, [ends[item] for item in op.control_inputs])
        ends[op] = copied
        tensors.update(zip(op.outputs, copied.outputs, strict=True))
        if op.type in _PASS_ON or back_edge(op) is not None or any(fnmatchcase(op.name, item) for item in skip):
            continue
        ends[op] = _check_variables(op, copied, inputs) or copied
        for output in op.outputs:
            if output.dtype.is_differentiable:
                ends[op] = _check_value(op, copied, output, inputs)
                tensors[output] = ends[op].outputs[0]
    close_loops(copies, tensors)
    return result


def _asks_for_devices(op: Operation) -> bool:
    return any(inner.device or _asks_for_devices(inner) for body in op.bodies for inner in body.operations)


def _description(op: Operation, inputs: Sequence[Tensor]) -> tuple[list[Tensor], Mapping[str, object]]:
    """The inputs that are numbers, and the attributes that name them and the operation."""
    seen = [(tensor, old) for tensor, old in zip(inputs, op.inputs, strict=False) if _is_number(tensor)]
    names = [str(old.op.attrs.get("_feed", old.name)) for _, old in seen]
    return [tensor for tensor, _ in seen], {"of": op.location, "names": names}


def _is_number(tensor: Tensor) -> bool:
    return tensor.dtype.is_differentiable or tensor.dtype.is_integer or tensor.dtype.kind == "bool"


def _check_value(op: Operation, copied: Operation, output: Tensor, inputs: Sequence[Tensor]) -> Operation:
    seen, attrs = _description(op, inputs)
    return copied.graph.create_op(
        "_CheckValue",
        [copied.outputs[output.index], *seen],
        {"T": output.dtype, "U": [tensor.dtype for tensor in seen], "output": output.name, **attrs},
        name=f"{op.name}/check_numerics_{output.index}",
        device=op.device,
        source=op.source,
    )


def _check_variables(op: Operation, copied: Operation, inputs: Sequence[Tensor]) -> Operation | None:
    """The check of the variables that an operation changes, or None if it changes none."""
    handles = [tensor for tensor in inputs if tensor.dtype is resource]  # in a body they come as arguments
    if not handles or not op.has_effect:
        return None
    seen, attrs = _description(op, inputs)
    return copied.graph.create_op(
        "_CheckVariables",
        [*handles, *seen],
        {"N": len(handles), "U": [tensor.dtype for tensor in seen], **attrs},
        name=f"{op.name}/check_variables",
        control_inputs=[copied],
        device=op.device,
        source=op.source,
    )
