"""Run instructions that a writer has written as a function of pointers: what the tests of writers share."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace_cpu.llvm.host import host
from headrace_cpu.llvm.text import Text


def compiled(write: Callable[[Text, list[str]], None], pointers: int) -> Callable[..., int]:
    """What `write` writes, given the registers of some pointers, as a function of arrays; it gives 0 at its end."""
    t = Text()
    names = [f"%p{number}" for number in range(pointers)]
    write(t, names)
    given = ", ".join(f"ptr {name}" for name in names)
    body = "\n".join([f"define i32 @SYMBOL({given}) {{", *t.allocas, *t.lines, "  ret i32 0", "}"])
    text = "\n".join([*t.functions.values(), body])
    symbol = f"written_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    (address,) = host().load(text.replace("SYMBOL", symbol), [symbol])
    function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * pointers)(address)

    def call(*arrays: Any) -> int:
        return int(function(*[array.ctypes.data if isinstance(array, np.ndarray) else array for array in arrays]))

    return call
