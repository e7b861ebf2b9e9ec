"""What is around native calls: what goes into them is checked, and what they answer is explained."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headrace.errors import InternalError
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
    call_updating(driver, [None, "x", None], [1, None, 0], storages, [None, (2,)], 3, 0, 0, None, ())


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


def test_locks_have_one_order() -> None:
    storages: list[Any] = [Storage() for _ in range(5)]
    assert lock_order(storages) == lock_order(storages[::-1])
