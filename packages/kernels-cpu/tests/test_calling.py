"""What is around native calls: what goes into them is checked, and what they answer is explained."""

from __future__ import annotations

import re

import numpy as np
import pytest

from headrace.errors import InternalError
from headrace_cpu.calling import Failure, checked


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
