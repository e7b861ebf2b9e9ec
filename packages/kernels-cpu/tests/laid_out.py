"""Schedules and layouts of small graphs, most without any library: what the tests of the stages before code share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.interfaces import Functions
from headrace.loops.verifier import verify_region
from headrace.passes import optimize, prune
from headrace.plan import Line, Program
from headrace_cpu.layout import Layout, lay_out
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import Request
from headrace_cpu.scheduling.lists import ListUse
from headrace_cpu.scheduling.schedule import Schedule
from headrace_cpu.scheduling.scheduler import schedule

needs_avx512 = pytest.mark.skipif(host().lanes < 16, reason="which weights oneDNN packs depends on the processor")


def laid_out(build: Callable[..., Any], *inputs: tuple[hr.DType, tuple[int, ...]]) -> Layout:
    """The layout of a graph of inputs with these dtypes and shapes, whose regions keep the rules of the loop IR."""
    layout = lay_out(scheduled(build, *inputs))
    for unit in layout.units:
        if unit.region is not None:
            verify_region(unit.region)
    return layout


def scheduled(
    build: Callable[..., Any],
    *inputs: tuple[hr.DType, tuple[int, ...]],
    library: Callable[[Request], Any] = lambda request: None,
    nested: Callable[[Line], Any] = lambda line: None,
) -> Schedule:
    """The schedule of such a graph, where a library computes what it gives a call for."""
    graph = hr.Graph()
    with graph.as_default():
        given = [hr.placeholder(dtype, shape) for dtype, shape in inputs]
        made = build(*given)
    wanted = made if isinstance(made, list) else [made]
    tensors = [item for item in wanted if isinstance(item, hr.Tensor)]
    operations = [item for item in wanted if isinstance(item, hr.Operation)]
    bounded = optimize(prune(graph, tensors, operations, given), hr.config())
    functions: Functions = None  # type: ignore[assignment]  # no operation here calls one
    with hr.Session(graph) as session:
        program = Program.of(bounded, session.resources, functions)
    return schedule(program, library, nested, ListUse())
