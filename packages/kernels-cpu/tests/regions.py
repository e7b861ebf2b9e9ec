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


def native(region: Region, lanes: int | None = None, cuts: Sequence[int] = ()) -> Callable[[Sequence[Array]], None]:
    """The region as a function of its buffers, on one thread, its points in parts between some cuts."""
    printed = print_region(region, lanes or host().lanes)
    body = "\n".join([*printed.functions.values(), printed.body.replace("SYMBOL", "region")])
    symbol = f"test_{hashlib.sha256(f'{body}{cuts}'.encode()).hexdigest()[:24]}"
    ends = [*cuts, math.prod(region.outer)]
    calls = "\n".join(
        f"  call void @region(ptr %args, i64 {begin}, i64 {end})" for begin, end in zip([0, *cuts], ends, strict=True)
    )
    text = f"""{body}
define void @{symbol}(ptr %args) {{
{calls}
  ret void
}}
"""
    (address,) = host().load(text, [symbol])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)

    def call(buffers: Sequence[Array]) -> None:
        table = (ctypes.c_void_p * max(len(buffers), 1))(*[buffer.ctypes.data for buffer in buffers])
        function(ctypes.cast(table, ctypes.c_void_p))

    return call
