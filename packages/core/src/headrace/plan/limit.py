"""Holding a step to a limit of memory: what needs more is rewritten, where that is asked for, or refused unrun."""

from __future__ import annotations

from collections.abc import Callable

from headrace.config import Config
from headrace.errors import ResourceExhaustedError
from headrace.graph.graph import Graph
from headrace.interfaces import Compiled
from headrace.passes.recompute import recompute
from headrace.plan.needs import PlannedMemory

__all__ = ["check_limit", "needed_memory", "within_limit"]

ROUNDS = 8
"""How often a graph is rewritten for a limit that what a backend made of it still exceeds."""


def within_limit(graph: Graph, config: Config, compile_graph: Callable[[Graph], Compiled]) -> tuple[Graph, Compiled]:
    """Compile a bounded graph so that a step stays within `config.memory_limit`.

    A backend may need more than the values that are alive at once, by gaps in its arena, or less, by loops in which
    values are no memory. So it is asked what it needs, and the rewriting aims lower until that fits.

    Args:
      graph: the graph.
      config: the limit, and whether values may be computed again for it.
      compile_graph: compiles.
    Returns:
      The graph, rewritten if need be, and what it was compiled to.
    Raises:
      ResourceExhaustedError: it needs more.
    """
    compiled = compile_graph(graph)
    limit = config.memory_limit
    if limit is None:
        return graph, compiled
    memory = needed_memory(compiled)
    if not config.recompute or memory is None or memory.peak_bytes <= limit:
        check_limit(memory, config)
        return graph, compiled
    target, best = limit - memory.outside_bytes - memory.copies_bytes, memory
    for _ in range(ROUNDS if target > 0 else 0):
        changed = recompute(graph, target)
        if changed is not graph:
            tried = compile_graph(changed)
            needed = needed_memory(tried)
            assert needed is not None
            if needed.peak_bytes <= limit:
                return changed, tried
            best = min(best, needed, key=lambda one: one.peak_bytes)
            target = min(target, target * limit // needed.peak_bytes)
        target -= target // 8  # a backend may answer a little less with a little more
    check_limit(best, config)
    return graph, compiled


def check_limit(memory: PlannedMemory | None, config: Config) -> None:
    """Refuse a step that needs more memory than it may.

    Args:
      memory: what it needs, or None where the backend does not say.
      config: the limit.
    Raises:
      ResourceExhaustedError: it needs more; the error names the largest values.
    """
    limit = config.memory_limit
    if limit is None or memory is None or memory.peak_bytes <= limit:
        return
    largest = memory.largest[0].where if memory.largest else None
    copies = f", {memory.copies_bytes:,} of them for weights in other layouts" if memory.copies_bytes else ""
    raise ResourceExhaustedError(
        "a step would need more memory than it may",
        where=largest or None,
        expected=f"at most {limit:,} bytes (memory_limit)",
        got=f"{memory.peak_bytes:,} bytes{copies}; the largest values: " + ", ".join(map(str, memory.largest)),
        hint=_way_out(memory.copies_bytes >= limit, config),
    )


def _way_out(is_for_copies: bool, config: Config) -> str:
    """What to do about a step that needs too much; copies of weights are as large for small batches."""
    if is_for_copies:
        return "a higher hr.config(memory_limit=...)"
    if config.recompute:
        return "smaller batches, or a higher hr.config(memory_limit=...)"
    return "hr.config(recompute=True) computes values again instead of keeping them; or feed smaller batches"


def needed_memory(compiled: Compiled) -> PlannedMemory | None:
    """What a compiled segment or step says that it needs, or None if its backend does not say."""
    return getattr(compiled, "memory", None)
