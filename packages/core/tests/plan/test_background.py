"""Plans that are compiled beside the steps: steps begin by NumPy kernels, go on with machine code, and share state."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError
from headrace.interfaces import Functions, Resources
from headrace.plan.numpy_backend import NumpyBackend, NumpyPlan
from headrace.plan.plan import backends


class Slow(NumpyBackend):
    """A backend of host memory that compiles when it may, and tells how often it did."""

    name = "slow"

    def __init__(self) -> None:
        self.may = threading.Event()
        self.compiled = 0
        self.error: Exception | None = None
        self.threads: set[int] = set()

    def compile(self, segment: hr.Graph, resources: Resources, functions: Functions) -> NumpyPlan:
        self.threads.add(threading.get_ident())
        assert self.may.wait(30)
        if self.error is not None:
            raise self.error
        self.compiled += 1
        return super().compile(segment, resources, functions)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    backend = Slow()
    monkeypatch.setitem(backends(), "slow", backend)
    yield backend
    backend.may.set()


def _counter() -> tuple[hr.Graph, hr.Tensor, hr.Operation]:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2], name="x")
        total = hr.Variable(np.zeros(2, np.float32), name="total")
        update = total.assign_add(x)
        assert isinstance(update, hr.Operation)
        return graph, x, update


def _backends_of(session: hr.Session, fetch: hr.Operation, x: hr.Tensor) -> str:
    trace = hr.Trace(detail=False)
    session.run(fetch, feeds={x: np.ones(2, np.float32)}, trace=trace)
    return trace.steps[-1].backend


def _until_compiled() -> None:
    """The one thread takes the plans in turn, so when this small one is made those before it are."""
    graph, x, fetch = _counter()
    with hr.Session(graph, config=hr.config(backend="slow", compile_wait=30)) as session:
        session.run(fetch, feeds={x: np.ones(2, np.float32)})


def test_steps_run_by_numpy_until_the_plan_is_there(slow: Slow) -> None:
    graph, x, fetch = _counter()
    with hr.Session(graph, config=hr.config(backend="slow", compile_wait=0.0)) as session:
        assert _backends_of(session, fetch, x) == "numpy"
        assert _backends_of(session, fetch, x) == "numpy"
        slow.may.set()
        _until_compiled()
        assert _backends_of(session, fetch, x) == "slow"
        assert session.read_variables()["total"].tolist() == [3.0, 3.0]
        assert threading.get_ident() not in slow.threads


def test_a_plan_that_is_made_in_time_is_the_first_one(slow: Slow) -> None:
    graph, x, fetch = _counter()
    slow.may.set()
    with hr.Session(graph, config=hr.config(backend="slow", compile_wait=30)) as session:
        assert _backends_of(session, fetch, x) == "slow"


def test_errors_that_come_in_time_are_raised(slow: Slow) -> None:
    graph, x, fetch = _counter()
    slow.error = NotFoundError("no code for this", expected="code", got="none", hint="wait")
    slow.may.set()
    with (
        hr.Session(graph, config=hr.config(backend="slow", compile_wait=30)) as session,
        pytest.raises(NotFoundError, match="no code for this"),
    ):
        session.run(fetch, feeds={x: np.ones(2, np.float32)})


def test_errors_that_come_later_are_told_and_leave_the_numpy_plan(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    graph, x, fetch = _counter()
    slow.error = RuntimeError("the code generator gave up")
    options = hr.config(backend="slow", compile_wait=0.0)
    with caplog.at_level(logging.ERROR, logger="headrace.plan"), hr.Session(graph, config=options) as session:
        assert _backends_of(session, fetch, x) == "numpy"
        slow.may.set()
        with pytest.raises(RuntimeError, match="gave up"):
            _until_compiled()
        assert _backends_of(session, fetch, x) == "numpy"
    (record,) = caplog.records
    assert "steps go on with NumPy kernels: the code generator gave up" in record.getMessage()


def test_deterministic_steps_wait(slow: Slow) -> None:
    graph, x, fetch = _counter()
    slow.may.set()
    with hr.Session(graph, config=hr.config(backend="slow", compile_wait=0.0, deterministic=True)) as session:
        assert _backends_of(session, fetch, x) == "slow"
        assert slow.threads == {threading.get_ident()}


def test_a_step_that_numpy_has_no_memory_for_waits(slow: Slow) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1000], name="x")
        fetch = hr.sum(hr.exp(x) * hr.sin(x))
    threading.Timer(0.01, slow.may.set).start()
    options = hr.config(backend="slow", compile_wait=0.0, memory_limit=100)
    with (
        hr.Session(graph, config=options) as session,
        pytest.raises(hr.errors.ResourceExhaustedError, match="more memory than it may"),
    ):
        session.run(fetch, feeds={x: np.ones(1000, np.float32)})
    assert slow.compiled


@pytest.mark.parametrize("wrong", [-1, "1 s", True])
def test_a_wait_that_is_no_time_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="a wait for machine code is a time"):
        hr.config(compile_wait=wrong)


AT_THE_END = """
import numpy as np
import headrace as hr
from headrace.plan.numpy_backend import NumpyBackend
from headrace.plan.plan import backends
import threading
import time

begun = threading.Event()

class Slow(NumpyBackend):
    name = "slow"
    def compile(self, *given):
        begun.set()
        time.sleep(0.2)
        print("compiled", flush=True)
        return super().compile(*given)

backends()["slow"] = Slow()
with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [None])
    y = x + 1.0
session = hr.Session(graph, config=hr.config(backend="slow", compile_wait=0))
for size in range(1, 5):
    session.run(y, feeds={x: np.ones(size, np.float32)})
begun.wait(30)
print("over", flush=True)
"""


def test_a_process_that_ends_waits_for_the_plan_under_way_alone() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["over", "compiled"]
    assert done.stderr == ""
