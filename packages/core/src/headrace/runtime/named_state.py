"""The state of a session by the names that its graph gives it: values of variables, and where random streams stand."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import HeadraceError, NotFoundError, known_names
from headrace.graph.apply import as_array
from headrace.graph.graph import Graph
from headrace.kernels.philox import PhiloxState, PhiloxStream
from headrace.runtime.initialization import buffer_of
from headrace.runtime.resources import ResourceManager, VariableBuffer
from headrace.types import Array

__all__ = ["buffers_by_name", "check_names", "restart_streams", "stream_states", "write_values"]


def buffers_by_name(graph: Graph, resources: ResourceManager) -> dict[str, VariableBuffer]:
    """The buffers of the variables of a graph, in the order of their creation."""
    handles = [op.outputs[0] for op in graph.operations if op.type == "VarHandleOp"]
    return {handle.op.name: buffer_of(handle, resources) for handle in handles}


def check_names(names: Iterable[str], buffers: Mapping[str, VariableBuffer]) -> None:
    """Raise NotFoundError if there is no variable of a name."""
    for name in names:
        if name not in buffers:
            raise NotFoundError(
                f"the graph has no variable '{name}'",
                expected=known_names(name, buffers),
                got=name,
                hint="session.graph.variables lists the variables, with their names",
            )


def write_values(values: Mapping[str, Any], buffers: Mapping[str, VariableBuffer], *, copy: bool) -> None:
    """Replace the values of variables, all of them or, on any error, none (see `Session.write_variables`).

    Args:
      values: by the names of the variables.
      buffers: all variables that there are.
      copy: False lets buffers hold the arrays themselves.
    """
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        check_names([name], buffers)
        arrays[name] = _checked(buffers[name], value, adopted=not copy)
    for name, array in arrays.items():
        if copy:
            buffers[name].assign(array)
        else:
            buffers[name].adopt(array)


def _checked(buffer: VariableBuffer, value: Any, *, adopted: bool) -> Array:
    """The array that a variable is to hold."""
    try:
        array = value if isinstance(value, np.ndarray) and value.dtype != object else as_array(value, buffer.dtype)
    except HeadraceError as error:
        error.at(f"variable '{buffer.name}'")
        raise
    buffer.check(array, adopted=adopted)
    return array


def stream_states(resources: ResourceManager) -> dict[str, tuple[int, int]]:
    """Where the streams of random operations stand, as operation name -> (key, counter)."""
    streams = resources.objects(PhiloxStream)
    return {key[1]: (stream.state.key, stream.state.counter) for key, stream in sorted(streams.items())}


def restart_streams(streams: Mapping[str, Sequence[int]], graph: Graph, resources: ResourceManager) -> None:
    """Let streams go on from where they stood; on any error none has changed (see `Session.write_streams`)."""
    operations = [graph.operation(name) for name in streams]
    seeds = [(operation.attr("seed"), operation.attr("seed2")) for operation in operations]
    for (name, (key, counter)), pair in zip(streams.items(), seeds, strict=True):
        create = functools.partial(PhiloxStream, PhiloxState(key, counter))
        resources.lookup_or_create((PhiloxStream, name, pair), create).restart(PhiloxState(key, counter))
