"""Signals: no handler runs on a thread while native code does.

The system puts what a handler needs below the stack pointer. oneDNN 3.2 multiplies float32 with code whose stack
pointer is in memory that it works in (`jit_avx512_common_gemm_f32`): a Ctrl-C or the tick of a profiler then wrote over
what others keep there. So a signal waits until native code comes back, as Python's own handlers do anyway, or goes to a
thread that computes nothing. Threads of the pool are made where signals wait, and let them wait for good.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["guarded", "signals_wait"]

BYTES = 128
"""Of a set of signals."""
FAULTS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
"""What a thread itself does wrong; that does not wait."""


def guarded(symbol: str, inner: str) -> dict[str, str]:
    """A driver that calls another one while signals wait, and what it needs, by name; only the other one elsewhere.

    Args:
      symbol: its name.
      inner: the name of the other one, a function of four pointers.
    """
    if sys.platform != "linux":
        return {
            symbol: f"""define i32 @{symbol}(ptr %list, ptr %arena, ptr %constants, ptr %table) {{
  %status = call i32 @{inner}(ptr %list, ptr %arena, ptr %constants, ptr %table)
  ret i32 %status
}}"""
        }
    return {
        "waiting_signals": f'@waiting_signals = private unnamed_addr constant [{BYTES} x i8] c"{_waiting()}", align 8',
        "pthread_sigmask": "declare i32 @pthread_sigmask(i32, ptr, ptr)",
        symbol: f"""define i32 @{symbol}(ptr %list, ptr %arena, ptr %constants, ptr %table) {{
  %before = alloca [{BYTES} x i8], align 8
  %blocked = call i32 @pthread_sigmask(i32 {int(signal.SIG_BLOCK)}, ptr @waiting_signals, ptr %before)
  %status = call i32 @{inner}(ptr %list, ptr %arena, ptr %constants, ptr %table)
  %restored = call i32 @pthread_sigmask(i32 {int(signal.SIG_SETMASK)}, ptr %before, ptr null)
  ret i32 %status
}}""",
    }


@contextmanager
def signals_wait() -> Iterator[None]:
    """The same for native code that Python calls."""
    if sys.platform != "linux":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _faults())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@functools.cache
def _faults() -> set[int]:
    return {getattr(signal, name) for name in FAULTS}


@functools.cache
def _waiting() -> str:
    """The set of all signals but faults, as LLVM's text has bytes."""
    bits = sum(1 << (number - 1) for number in range(1, 8 * BYTES + 1) if number not in _faults())
    return "".join(f"\\{byte:02X}" for byte in bits.to_bytes(BYTES, "little"))
