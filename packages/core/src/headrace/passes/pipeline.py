"""The one explicit, ordered list of graph passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.config import Config
from headrace.errors import GraphError, NotFoundError, known_names
from headrace.graph.graph import Graph
from headrace.graph.verifier import verify_bounded
from headrace.passes.arithmetic import arithmetic
from headrace.passes.batch_norm import batch_norm
from headrace.passes.cse import cse
from headrace.passes.fold import fold
from headrace.passes.inline import inline
from headrace.passes.narrow import narrow
from headrace.passes.pooling import pooling
from headrace.passes.raising import raising

__all__ = ["PASSES", "optimize"]

Pass = Callable[[Graph], Graph]

PASSES: dict[str, Pass] = {
    "raising": raising,
    "inline": inline,
    "batch_norm": batch_norm,
    "fold": fold,
    "arithmetic": arithmetic,
    "pooling": pooling,
    "cse": cse,
    "narrow": narrow,
}
"""The built-in passes by the name that `hr.config(passes=...)` uses."""


def optimize(graph: Graph, config: Config) -> Graph:
    """Apply the configured passes, in the order in which they are listed, to a bounded graph.

    Args:
      graph: the bounded graph of one step (see `passes.prune`).
      config: its `passes` are names of built-in passes or functions `Graph -> Graph`; `verify` checks each result.
    Raises:
      NotFoundError: a pass of that name does not exist.
      GraphError: a pass gave no graph or, with `verify`, a graph that breaks a rule.
    """
    for step in _resolve(config.passes):
        given = step(graph)
        if not isinstance(given, Graph):
            raise GraphError(
                f"pass '{_name(step)}' gave no graph",
                expected="an hr.Graph",
                got=repr(given),
                hint="end the pass with `return graph`, also where it changes nothing",
            )
        graph = given
        if config.verify:
            verify_bounded(graph, stage=_name(step))
    return graph


def _name(step: Pass) -> str:
    return getattr(step, "__name__", str(step))


def _resolve(passes: Sequence[str | Pass]) -> list[Pass]:
    resolved: list[Pass] = []
    for item in passes:
        if not isinstance(item, str):
            resolved.append(item)
        elif item in PASSES:
            resolved.append(PASSES[item])
        else:
            raise NotFoundError(
                f"there is no graph pass '{item}'",
                expected=known_names(item, PASSES) + ", or a function Graph -> Graph",
                got=item,
                hint="hr.config().passes shows the passes that run now",
            )
    return resolved
