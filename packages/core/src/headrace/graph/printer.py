"""Graphs as text: one line per operation, the same for the same graph, for goldens, errors and reading."""

from __future__ import annotations

import numpy as np

from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation

__all__ = ["format_graph"]

_MAX_ELEMENTS = 6


def format_graph(graph: Graph, *, sources: bool = False) -> str:
    """Print a graph, one operation a line in the order of creation.

    Args:
      graph: the graph.
      sources: add the user's line to each operation (they change when a file is edited, so goldens leave them out).
    Returns:
      The text, ending in a newline unless the graph is empty.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     y = hr.constant(2.0, name="a") * 3.0
      >>> print(graph_text := hr.format_graph(graph), end="")
      a: float32[] = Const(value=2.0)
      Const: float32[] = Const(value=3.0)
      Mul: float32[] = Mul(a, Const)
    """
    return "".join(_format_op(op, sources) + "\n" for op in graph.operations)


def _format_op(op: Operation, sources: bool) -> str:
    outputs = ", ".join(str(tensor.spec) for tensor in op.outputs)
    arguments = [tensor.op.name if tensor.index == 0 else tensor.name for tensor in op.inputs]
    arguments += [f"^{item.name}" for item in op.control_inputs]
    arguments += [f"{name}={_format_value(value)}" for name, value in sorted(op.attrs.items()) if _is_telling(op, name)]
    text = f"{op.name}: {outputs} = " if outputs else f"{op.name} = "
    text += f"{op.type}({', '.join(arguments)})"
    if op.device:
        text += f" on {op.device}"
    return f"{text}  # {op.source}" if sources else text


def _is_telling(op: Operation, name: str) -> bool:
    """Leave out what the specs show already (dtypes) and what is the default."""
    spec = op.op_def.attrs.get(name)
    if spec is None:
        return True
    if spec.kind == "type" and (name in _signature_attrs(op) or op.type in ("Const", "Placeholder")):
        return False
    default, value = spec.default, op.attrs[name]
    return not (isinstance(value, type(default)) and not isinstance(value, np.ndarray) and value == default)


def _signature_attrs(op: Operation) -> set[str | None]:
    arguments = (*op.op_def.inputs, *op.op_def.outputs)
    return {name for item in arguments for name in (item.type_attr, item.type_list_attr)}


def _format_value(value: AttrValue) -> str:
    if isinstance(value, np.ndarray):
        if value.ndim > 1 and not value.size:
            return f"{list(value.shape)}[]"  # of [2**31, 0], Python would make a list of 2**31 lists
        if value.size <= _MAX_ELEMENTS:
            return str(value.tolist())
        shown = ", ".join(str(item) for item in value.reshape(-1)[:_MAX_ELEMENTS].tolist())
        return f"{list(value.shape)}[{shown}, ...]"
    if isinstance(value, FunctionName):
        return value.name
    if isinstance(value, tuple):
        return "[" + ", ".join(_format_value(item) for item in value) + "]"
    return repr(value) if isinstance(value, str) else str(value)
