"""Signals: they wait while a thread is in code of a library, or of the pool, on Linux.

The system puts what a handler needs below the stack pointer. oneDNN 3.2 multiplies float32 with code whose stack
pointer is in memory that it works in (`jit_avx512_common_gemm_f32`): a Ctrl-C or the tick of a profiler then wrote over
what others keep there. So a signal waits until native code comes back, as Python's own handlers do anyway, or goes to a
thread that computes nothing. Threads of the pool let signals wait for good, from their first work for us on; one that
somebody else has made, and that only a library has used since, does not.
"""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["HELD_BYTES", "held_signals", "holding_signals"]

HELD_BYTES = 128
"""Of a set of signals."""
FAULTS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
"""What a thread itself does wrong; that does not wait."""


@contextmanager
def held_signals() -> Iterator[None]:
    """Let signals of this thread wait inside."""
    if sys.platform != "linux":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:  # a handler of Python that raises ends also the call that has let signals wait
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _faults())
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def holding_signals() -> dict[str, str]:
    """Functions by name: what a thread calls before such code, and after it.

    `void hold_signals(ptr before)` lets signals of the thread wait and writes down, if `before` is not null, which ones
    did already, in HELD_BYTES; `void release_signals(ptr before)` lets the same wait as before.
    """
    return FUNCTIONS if sys.platform == "linux" else NOTHING


@functools.cache
def _faults() -> set[int]:
    return {getattr(signal, name) for name in FAULTS if hasattr(signal, name)}


def _waiting() -> str:
    """The set of all signals but faults, as LLVM's text has bytes."""
    bits = sum(1 << (number - 1) for number in range(1, 8 * HELD_BYTES + 1) if number not in _faults())
    return "".join(f"\\{byte:02X}" for byte in bits.to_bytes(HELD_BYTES, "little"))


NOTHING = {
    name: f"define internal void @{name}(ptr %before) alwaysinline {{\n  ret void\n}}"
    for name in ("hold_signals", "release_signals")
}

BLOCK, SET = 0, 2
"""What Linux calls SIG_BLOCK and SIG_SETMASK."""

FUNCTIONS = {
    "waiting_signals": f'@waiting_signals = private unnamed_addr constant [{HELD_BYTES} x i8] c"{_waiting()}", align 8',
    "pthread_sigmask": "declare i32 @pthread_sigmask(i32, ptr, ptr)",
    "hold_signals": f"""define internal void @hold_signals(ptr %before) alwaysinline {{
  %status = call i32 @pthread_sigmask(i32 {BLOCK}, ptr @waiting_signals, ptr %before)
  ret void
}}""",
    "release_signals": f"""define internal void @release_signals(ptr %before) alwaysinline {{
  %status = call i32 @pthread_sigmask(i32 {SET}, ptr %before, ptr null)
  ret void
}}""",
}
