"""The rendezvous of one process."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import AbortedError
from headrace.interfaces import StepControl
from headrace.kernels.context import NO_FUNCTIONS
from headrace.kernels.transfer import check_key, transfer_key
from headrace.plan.plan import find_backend
from headrace.runtime.rendezvous import LocalRendezvous
from headrace.runtime.resources import ResourceManager
from headrace.runtime.step_control import StepController
from headrace.testing import check_rendezvous
from headrace.testing.rendezvous import _key


def test_A56_the_local_rendezvous_does_what_a_rendezvous_must() -> None:
    assert check_rendezvous(lambda: LocalRendezvous(7)) == 12


class _Forgetful(LocalRendezvous):
    """Loses that a tensor is dead."""

    def send(self, key: str, value: object, is_dead: bool) -> None:
        super().send(key, value, False)


class _Unkeyed(LocalRendezvous):
    """Puts all values under one key."""

    def recv(self, key: str, step: StepControl) -> tuple[object, bool]:
        return super().recv(_key("x:0"), step)

    def send(self, key: str, value: object, is_dead: bool) -> None:
        super().send(_key("x:0"), value, is_dead)


class _Stubborn(LocalRendezvous):
    """Goes on after an abort."""

    def start_abort(self, error: BaseException) -> None:
        super().start_abort(AbortedError("something"))


@pytest.mark.parametrize(
    ("faulty", "message"),
    [(_Forgetful, "came out alive"), (_Unkeyed, "other keys"), (_Stubborn, "does not name")],
)
def test_the_check_finds_a_rendezvous_that_is_wrong(faulty: type[LocalRendezvous], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_rendezvous(lambda: faulty(1))


def test_A56_a_key_names_both_devices_the_incarnation_the_tensor_and_the_iteration() -> None:
    attrs = {
        "send_device": "/job:ps/replica:0/task:0/device:CPU:0",
        "send_device_incarnation": 255,
        "recv_device": "/job:worker/replica:0/task:1/device:GPU:0",
        "tensor_name": "layer/w:0",
    }
    key = transfer_key(attrs, "3:14")
    assert key == ("/job:ps/replica:0/task:0/device:CPU:0;ff;/job:worker/replica:0/task:1/device:GPU:0;layer/w:0;3:14")
    assert check_key(key) == key
    assert transfer_key(attrs).endswith(";layer/w:0;0:0")


def test_a_wait_says_what_it_waits_for_and_in_which_iteration() -> None:
    with pytest.raises(
        hr.errors.DeadlineExceededError, match="'x:0' in iteration 2:5 that .*CPU:0 sends to .*in step 9"
    ):
        LocalRendezvous(9).recv(_key("x:0", "2:5"), StepController(timeout=0.0))


def test_a_transfer_outside_of_any_step_says_so() -> None:
    graph = hr.Graph()
    attrs = {
        "tensor_name": "x:0",
        "send_device": "a",
        "send_device_incarnation": 1,
        "recv_device": "b",
        "T": hr.float32,
    }
    with graph.as_default():
        graph.create_op("_Send", [hr.constant(np.float32(1))], attrs, name="send")
    compiled = find_backend("numpy").compile(graph, ResourceManager(), NO_FUNCTIONS)
    with pytest.raises(hr.errors.InternalError, match="outside of any step(.|\n)*_Send 'send'"):
        compiled(())
