"""Signals: a handler that comes while native code runs finds a stack; afterwards the same signals wait as before."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.llvm.signals import signals_wait

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals of Linux")

SCRIPT = """
import ctypes, signal, sys
import numpy as np
import headrace as hr

def step(build, *arrays):
    with hr.Graph().as_default() as graph:
        given = [hr.placeholder(hr.float32, array.shape) for array in arrays]
        product = build(*given)
    call = hr.Session(graph, config=hr.config(backend="cpu", threads=2)).make_callable(product, given)
    return lambda: call(*arrays)

a, b = np.ones((128, 784), np.float32), np.ones((784, 512), np.float32)
if "constant" in sys.argv:  # a library brings it into another layout, on threads that are made for that
    step(lambda x: x @ hr.constant(b), a)()
multiply = step(lambda x, y: x @ y, a, b)
multiply()
libc = ctypes.CDLL(None)
libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
libc.signal(signal.SIGALRM, ctypes.cast(libc.getpid, ctypes.c_void_p))  # unlike Python's own it asks for no other stack
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
for _ in range(2000):
    assert (multiply() == 784).all()
    del [bytearray(200) for _ in range(20)][:]
signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.mark.parametrize("before", ["nothing", "constant"])
def test_a_signal_in_the_middle_of_a_product_writes_into_no_memory_of_others(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, before], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("waiting", [(), (signal.SIGUSR1,)], ids=str)
@pytest.mark.parametrize("rows", [512, 1024])
def test_afterwards_the_same_signals_wait_as_before(rows: int, waiting: tuple[signal.Signals, ...]) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [rows, rows])
        picked = hr.gather(x @ x, hr.constant([0, 700]))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        now = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        session = hr.Session(graph, config=hr.config(backend="cpu", threads=2))
        with pytest.raises(hr.errors.InvalidArgumentError) if rows < 700 else contextlib.nullcontext():
            session.run(picked, feeds={x: np.ones((rows, rows), np.float32)})
        with signals_wait():
            assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == now
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
