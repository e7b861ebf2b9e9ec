"""The `cpu` backend: fused loops in machine code, oneDNN for dense kernels, NumPy for what has no native form."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import Graph
from headrace.interfaces import INTERFACE_VERSION, Functions, Resources
from headrace.plan import Program
from headrace_cpu.layout import lay_out
from headrace_cpu.onednn import library_call
from headrace_cpu.plan import CpuPlan
from headrace_cpu.scheduling import schedule
from headrace_cpu.threads import available_threads

__all__ = ["CpuBackend"]


class CpuBackend:
    """Compiles segments to machine code (see `interfaces.Backend`)."""

    name = "cpu"
    interface_version = INTERFACE_VERSION

    def devices(self) -> Sequence[str]:
        """The one device of this backend."""
        return ["CPU:0"]

    def compile(self, segment: Graph, resources: Resources, functions: Functions) -> CpuPlan:
        """Compile a bounded graph."""
        program = Program.of(segment, resources, functions)
        return CpuPlan(lay_out(schedule(program, library_call)), available_threads())
