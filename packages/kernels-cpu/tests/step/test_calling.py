"""What is around native calls: what goes into them is checked, and what they answer is explained."""

from __future__ import annotations

import contextlib
import gc
import itertools
import re
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InternalError
from headrace.runtime import resources
from headrace_cpu.driver.table import FIRST_HANDLE
from headrace_cpu.step import calling
from headrace_cpu.step.calling import Failure, call_updating, checked, lock_order


@pytest.mark.parametrize("value", [np.zeros(3, np.float32), np.zeros((2, 3)), np.float32(0)], ids=str)
def test_what_a_kernel_gives_is_checked_before_native_code_trusts_it(value: np.ndarray) -> None:
    found = re.escape(f"{value.dtype} {list(value.shape)}")
    with pytest.raises(
        InternalError, match=rf"a kernel gave another dtype or shape[^$]*float32 \[2, 3\][^$]*got: *{found}"
    ):
        checked(value, (np.dtype(np.float32), (2, 3)))
    assert checked([[1, 2]], (np.dtype(np.int64), (1, 2))).tolist() == [[1, 2]]


def test_native_code_that_fails_for_no_reason_that_a_kernel_has_is_a_fault_of_ours() -> None:
    error = Failure(None).error(7, [], 0, 0)
    assert isinstance(error, InternalError)
    assert re.search(r"native code failed\n[^$]*expected: status 0\n *got: *status 7\n[^$]*backend='numpy'", str(error))


class Storage:
    """Stands for a variable: it writes down what happens to it."""

    def __init__(self, *, fails: bool = False) -> None:
        self.value = np.zeros(2, np.float32)
        self.fails = fails
        self.events: list[Any] = []

    def acquire(self, fresh: tuple[int, ...] | None, threads: int) -> np.ndarray:
        if self.fails:
            raise InternalError("no value", hint="none")
        self.events.append(("acquire", fresh, threads))
        return self.value

    def release(self, value: np.ndarray | None) -> None:
        self.events.append("old" if value is None else "new" if value is self.value else "another")


def updated(storages: list[Any], driver: Any) -> None:
    table = [0] * FIRST_HANDLE
    call_updating(driver, [None, "x", None], [1, None, 0], storages, [None, (2,)], 3, 0, 0, table, ())


def test_an_update_writes_the_variables_between_their_locks() -> None:
    first, second = Storage(), Storage()
    seen: list[Any] = []

    def driver(items: list[Any], *_: Any) -> int:
        seen.extend(items)
        return 0

    updated([first, second], driver)
    assert seen[0] is second.value
    assert seen[1] == "x"
    assert seen[2] is first.value
    assert first.events == [("acquire", None, 3), "new"]
    assert second.events == [("acquire", (2,), 3), "new"]


def test_variables_keep_their_values_where_an_update_fails() -> None:
    first, second = Storage(), Storage()
    with pytest.raises(InternalError, match="native code failed"):
        updated([first, second], lambda *_: 7)
    assert (first.events[-1], second.events[-1]) == ("old", "old")
    begun = Storage()
    with pytest.raises(InternalError, match="no value"):
        updated([begun, Storage(fails=True)], lambda *_: 0)
    assert begun.events == [("acquire", None, 3), "old"]


def test_an_interrupt_at_any_point_of_an_update_leaves_no_lock_and_all_variables_of_one_moment() -> None:
    with hr.Graph().as_default() as graph:
        variables = [hr.Variable(np.zeros(4, np.float32), name=f"v{number}") for number in range(3)]
        step = hr.group([variable.assign_add(hr.ones([4])) for variable in variables])
    names = [variable.name for variable in variables]
    session = hr.Session(graph, config=hr.config(backend="cpu"))
    session.run(step)
    interrupts = 0
    for countdown in itertools.count(1):
        kept = session.read_variables(names[:1]) if countdown % 2 else {}  # that one is written elsewhere
        with interrupted_at(countdown) as where, contextlib.suppress(KeyboardInterrupt):
            session.run(step)
        found: list[Any] = []
        reader = threading.Thread(target=lambda found=found: found.append(session.read_variables(names)), daemon=True)
        reader.start()
        reader.join(10)
        assert found, f"a lock is held after an interrupt at {where}"
        assert len({float(value[0]) for value in found[0].values()}) == 1, where
        del kept
        interrupts += bool(where)
        if not where:
            break
    assert interrupts > 100


@contextlib.contextmanager
def interrupted_at(countdown: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt before an instruction, the one of that number, of the code around variables.

    Gives a list, to which it adds where that was: nothing, if there are not so many. Meanwhile Python looks for no
    garbage, since what ends with that runs code around variables, too, and nobody would see the interrupt there.
    """
    where: list[str] = []
    files = (calling.__file__, resources.__file__)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal countdown
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            countdown -= 1
            if countdown == 0:
                where.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        yield where
    finally:
        sys.settrace(before)
        gc.enable()


def test_locks_have_one_order() -> None:
    storages: list[Any] = [Storage() for _ in range(5)]
    assert lock_order(storages) == lock_order(storages[::-1])
