"""Draws: a random operation becomes a look at its stream and a function of what was found there.

The function is one of key, counter and index, so that a backend may compute each number where it is used and none of
them ever lies in memory. What stays an operation with a state takes a microsecond whatever it draws. The numbers, and
how far the stream moves, are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import rewrite
from headrace.types import int32

__all__ = ["draws"]

_PHILOX = 1


def draws(graph: Graph) -> Graph:
    """A bounded graph in which uniform numbers are functions of the state of their stream.

    Args:
      graph: a bounded graph; it is not changed.
    Returns:
      `graph` itself where it draws none.

    Example:
      >>> import headrace as hr
      >>> from headrace.passes import prune
      >>> with hr.Graph().as_default() as graph:
      ...     kept = hr.random.uniform([2, 3], seed=1) >= 0.5
      >>> sorted(op.type for op in draws(prune(graph, [kept], [], [])).operations if "Random" in op.type)
      ['StatelessRandomUniformV2', '_NextRandom']
    """
    return rewrite(graph, _drawn) if any(map(_draws, graph.operations)) else graph


def _draws(op: Operation) -> bool:
    if op.type != "RandomUniform" or op.control_inputs or "_target" in op.attrs:
        return False
    shape = op.inputs[0].op
    return shape.type == "Const" and not shape.control_inputs and op.outputs[0].shape.is_fully_defined


def _drawn(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
    """The look keeps the name, which is that of the stream."""
    if not _draws(op):
        return None
    count = op.outputs[0].shape.num_elements
    state = {"seed": op.attrs["seed"], "seed2": op.attrs["seed2"], "count": count}
    key, counter = _made(op, graph, "_NextRandom", (), state, "")
    (alg,) = _made(op, graph, "Const", (), {"value": np.asarray(_PHILOX, np.int32), "dtype": int32}, "alg")
    kinds = {"dtype": op.attrs["dtype"], "Tshape": op.attrs["T"]}
    return _made(op, graph, "StatelessRandomUniformV2", (*inputs, key, counter, alg), kinds, "numbers")


def _made(
    op: Operation, graph: Graph, op_type: str, inputs: Sequence[Tensor], attrs: Mapping[str, Any], part: str
) -> Sequence[Tensor]:
    name = f"{op.name}/{part}/" if part else f"{op.name}/"
    return graph.create_op(op_type, inputs, attrs, name=name, device=op.device, source=op.source).outputs
