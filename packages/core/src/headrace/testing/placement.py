"""What every division of a graph among devices must keep: the same bits, wherever each operation runs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from headrace.config import Config
from headrace.grad.backprop import gradients
from headrace.graph.apply import constant
from headrace.graph.graph import Graph
from headrace.graph.op_def import lookup_op_def
from headrace.graph.operation import Tensor
from headrace.graph.scopes import current_graph, device
from headrace.session import Session
from headrace.testing.conformance import applied_case, differentiated_inputs, flat_arrays
from headrace.testing.op_case import OpCase
from headrace.testing.tolerance import assert_close
from headrace.types import Array, Shape, as_dtype

__all__ = ["check_case_placed", "check_gradient_placed", "check_graph_placed"]

DEVICES = 3
"""Virtual devices that a graph is scattered over."""

LIMIT = 60.0
"""Seconds after which a step counts as hanging."""


def check_case_placed(case: OpCase, *, seed: int = 0) -> bool:
    """Run an operation case on one device and scattered over three.

    Args:
      case: the case.
      seed: which of the many ways to scatter it.
    Returns:
      False if the case does not lend itself to it: it is to raise, has no output, or depends on state.
    Raises:
      AssertionError: the results differ.
    """
    if case.raises is not None or lookup_op_def(case.op).stateful:
        return False
    generator = random.Random(f"{seed} {case.id}")
    arrays = flat_arrays(case)
    graph = Graph()
    with graph.as_default(), device(lambda op: f"CPU:{generator.randrange(DEVICES)}"):
        inputs = [_placeholder(array) for array in arrays]
        fetches = applied_case(case, inputs)
    if fetches:
        check_graph_placed(graph, fetches, dict(zip(inputs, arrays, strict=True)), what=case.id)
    return bool(fetches)


def check_gradient_placed(case: OpCase, *, seed: int = 0) -> bool:
    """The same as `check_case_placed` for the gradient of a case, in float64.

    Args:
      case: the case.
      seed: which of the many ways to scatter it.
    Returns:
      False if the case has no gradient.
    Raises:
      AssertionError: the results differ.
    """
    chosen = differentiated_inputs(case)
    if not chosen:
        return False
    generator = random.Random(f"{seed} {case.id}")
    arrays = [array.astype(np.float64) if as_dtype(array.dtype).is_floating else array for array in flat_arrays(case)]
    graph = Graph()
    with graph.as_default(), device(lambda op: f"CPU:{generator.randrange(DEVICES)}"):
        # what is not differentiated is constant: rules may have to know it
        fed = {index: _placeholder(arrays[index]) for index in chosen}
        inputs = [fed[index] if index in fed else constant(array) for index, array in enumerate(arrays)]
        outputs = [output for output in applied_case(case, inputs, wide=True) if output.dtype.is_floating]
        fetches = [item for item in gradients(outputs, list(fed.values())) if isinstance(item, Tensor)]
    check_graph_placed(graph, fetches, {fed[index]: arrays[index] for index in fed}, what=f"gradient of {case.id}")
    return True


def check_graph_placed(graph: Graph, fetches: Sequence[Tensor], feeds: dict[Tensor, Array], *, what: str) -> None:
    """Run a graph, whose operations ask for `CPU:0` to `CPU:2`, on one device and on these.

    Args:
      graph: the graph.
      fetches: what to compare.
      feeds: its feeds.
      what: what it is, for the error.
    Raises:
      AssertionError: the results differ.
    """
    spread = Config(backend="numpy", verify=True, virtual_devices={"CPU": DEVICES})
    with (
        Session(graph, config=Config(backend="numpy", soft_placement=True)) as alone,
        Session(graph, config=spread) as session,
    ):
        expected = alone.run(list(fetches), feeds=feeds)
        given = session.run(list(fetches), feeds=feeds, timeout=LIMIT)
    for index, (one, other) in enumerate(zip(given, expected, strict=True)):
        assert_close(one, other, what=f"{what} result {index} over {DEVICES} devices", exact=other.dtype != object)


def _placeholder(array: Array) -> Tensor:
    attrs = {"dtype": as_dtype(array.dtype), "shape": Shape(array.shape)}
    return current_graph().create_op("Placeholder", (), attrs).outputs[0]
