"""Run one region as machine code: what the tests of the printer share."""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Callable, Sequence

from headrace.loops.ir import Region
from headrace.types import Array
from headrace_cpu.llvm.host import host
from headrace_cpu.loops.printer import print_region


def native(region: Region, lanes: int | None = None) -> Callable[[Sequence[Array]], None]:
    """The region as a function of its buffers, on one thread."""
    printed = print_region(region, lanes or host().lanes)
    body = "\n".join([*printed.functions.values(), printed.body.replace("SYMBOL", "region")])
    symbol = f"test_{hashlib.sha256(body.encode()).hexdigest()[:24]}"
    points = math.prod(region.outer)
    text = f"""{body}
define void @{symbol}(ptr %args) {{
  call void @region(ptr %args, i64 0, i64 {points})
  ret void
}}
"""
    (address,) = host().load(text, [symbol])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def call(buffers: Sequence[Array]) -> None:
        table = (ctypes.c_void_p * max(len(buffers), 1))(*[buffer.ctypes.data for buffer in buffers])
        function(ctypes.cast(table, ctypes.c_void_p))

    return call
