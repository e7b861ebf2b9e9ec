"""oneDNN's own products: those of implementations that multiply by code which all of them share.

The library writes that code when the first of them runs, which takes 20 ms. So a thread multiplies two small matrices
while a plan is made, and the first step of the plan finds the code there. Python waits for threads before it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading

import numpy as np

from headrace_cpu.llvm.signals import held_signals

__all__ = ["IMPLEMENTATION", "WRITER", "OwnProducts"]

IMPLEMENTATION = "gemm:jit"
"""How the names of such implementations begin."""
WRITER = "headrace-onednn-products"
"""The name of the thread."""
SIZE = 8
"""Rows of the matrices: smaller ones the library multiplies otherwise."""


class OwnProducts:
    """The code of own products. Thread-safe.

    Args:
      library: oneDNN.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._has_begun = False

    def begin(self) -> None:
        """Let a thread have the code written, unless one was asked before."""
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
        with contextlib.suppress(RuntimeError):  # no more threads: then the first product waits for its code
            threading.Thread(target=self.multiply, name=WRITER).start()

    def multiply(self) -> int:
        """Multiply two matrices by that code; gives the library's answer, 0 where it did."""
        a, b, c = np.zeros((3, SIZE, SIZE), np.float32)
        size = ctypes.c_int64(SIZE)
        first, second, product = (ctypes.c_void_p(matrix.ctypes.data) for matrix in (a, b, c))
        as_it_is, one, zero = ctypes.c_char(b"N"), ctypes.c_float(1), ctypes.c_float(0)
        with held_signals():
            return int(
                self._library.dnnl_sgemm(
                    as_it_is, as_it_is, size, size, size, one, first, size, second, size, zero, product, size
                )
            )
