"""Signals: a handler that comes while native code runs finds a stack; afterwards the same signals wait as before."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import pytest

import headrace as hr
from headrace_cpu.llvm.signals import held_signals, holding_signals

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux do signals wait")

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


WAITING = """
import os, re, sys, threading
import numpy as np
import headrace as hr

if "others" in sys.argv:  # who use the same pool before
    import ctypes
    work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda nothing: None)
    ctypes.CDLL("libgomp.so.1").GOMP_parallel(work, None, 2, 0)
before = set(os.listdir("/proc/self/task"))
with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [256, 784])
    y = hr.sin(x @ hr.constant(np.ones((784, 512), np.float32)))
with hr.Session(graph, config=hr.config(backend="cpu", threads=2)) as session:
    for _ in range(3):
        session.run(y, feeds={x: np.ones((256, 784), np.float32)})
for task in os.listdir("/proc/self/task"):
    found = int(re.search("SigBlk:\\s*(\\w+)", open(f"/proc/self/task/{task}/status").read())[1], 16)
    kind = "caller" if int(task) == threading.get_native_id() else "made" if task not in before else "known"
    print(kind, hex(found))
"""


@pytest.mark.parametrize("pool", ["ours", "others"])
def test_signals_but_faults_wait_in_threads_of_the_pool_and_no_longer_in_the_calling_one(pool: str) -> None:
    done = subprocess.run([sys.executable, "-c", WAITING, pool], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    faults = [signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT]
    worked = [int(mask, 16) for kind, mask in found if kind == ("made" if pool == "ours" else "known")]
    assert any(all(mask >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGALRM)) for mask in worked)
    assert not any(mask >> number - 1 & 1 for mask in worked for number in faults)
    assert [mask for kind, mask in found if kind == "caller"] == ["0x0"]


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
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == now
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_they_wait_around_what_python_calls_and_never_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with held_signals():
        assert {signal.SIGINT, signal.SIGTERM} <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert signal.SIGSEGV not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before

    def interrupted(how: int, signals: Iterable[int]) -> set[int]:
        answer = mask(how, signals)
        if len(list(signals)) > len(before):  # a handler runs as soon as signals wait
            raise KeyboardInterrupt
        return answer

    mask = signal.pthread_sigmask
    monkeypatch.setattr(signal, "pthread_sigmask", interrupted)
    with pytest.raises(KeyboardInterrupt), held_signals():
        pass
    assert mask(signal.SIG_BLOCK, ()) == before


def test_elsewhere_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not any("pthread" in text for text in holding_signals().values())
    with held_signals():
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
