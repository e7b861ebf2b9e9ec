"""The `cpu` backend: fused loops in machine code, oneDNN for dense kernels, NumPy for what has no native form.

LLVM is loaded when the first session is made: `import headrace` and `headrace devices` never wait for it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace import Graph, config
from headrace.interfaces import INTERFACE_VERSION, Functions, Resources
from headrace.passes import batch_slices, draws, sparse_rows
from headrace.plan import Program, available_threads

if TYPE_CHECKING:
    from headrace_cpu.plan import CpuPlan

__all__ = ["CpuBackend"]


class CpuBackend:
    """Compiles segments to machine code (see `interfaces.Backend`)."""

    name = "cpu"
    interface_version = INTERFACE_VERSION

    def devices(self) -> Sequence[str]:
        """The one device of this backend; none where LLVM is missing."""
        return ["CPU:0"] if importlib.util.find_spec("llvmlite") is not None else []

    def advice(self) -> Sequence[str]:
        """What is missing here that would make it faster, a line each."""
        if not self.devices():
            return ["CPU:0 would be faster with machine code: pip install llvmlite"]
        try:
            importlib.metadata.version("onednn-cpu-gomp")
        except importlib.metadata.PackageNotFoundError:
            wish = "CPU:0 would be faster at matrix products and convolutions"
            return [f"{wish}: pip install headrace-kernels-cpu[onednn]"]
        return []

    def load(self) -> None:
        """Load LLVM, oneDNN and the modules that compile, where they are installed."""
        if self.devices():
            for name in ("nesting", "plan", "primitives.choice"):
                importlib.import_module(f"headrace_cpu.{name}")

    def compile(self, segment: Graph, resources: Resources, functions: Functions) -> CpuPlan:
        """Compile a bounded graph."""
        from headrace_cpu.layout import lay_out
        from headrace_cpu.nesting import Nesting
        from headrace_cpu.onednn import onednn
        from headrace_cpu.plan import CpuPlan, usable_threads
        from headrace_cpu.primitives.choice import primitive_call
        from headrace_cpu.scheduling.lists import separated
        from headrace_cpu.scheduling.scheduler import schedule

        options = config()
        threads = usable_threads(options.threads or available_threads())
        library_threads = 1 if options.deterministic else threads
        library = onednn()
        if library is not None:
            library.use_threads(library_threads)
        for name, prepare in (("HEADRACE_NATIVE_DRAWS", draws), ("HEADRACE_NATIVE_ROWS", sparse_rows)):
            segment = segment if os.environ.get(name) == "off" else prepare(segment)
        if library is not None and os.environ.get("HEADRACE_BATCH_SLICES") != "off":
            segment = batch_slices(segment, library_threads)
        program = separated(Program.of(segment, resources, functions))
        choose = functools.partial(primitive_call, threads=library_threads)
        nesting = Nesting(functions, resources, choose)
        lists = nesting.lists(program)
        assert lists is not None, "none was given"
        made = schedule(program, choose, nesting.find, lists)
        return CpuPlan(lay_out(made), threads, library_threads)
