"""Kernels of the transfer family: the two ends of a tensor's way from one device to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import DEAD, OpContext
from headrace.kernels.context import OUTSIDE_LOOPS, current_iteration
from headrace.kernels.registry import register_kernel

__all__ = ["check_key", "transfer_key"]


def transfer_key(attrs: Mapping[str, Any], frame_iteration: str = OUTSIDE_LOOPS) -> str:
    """The key under which the two ends of a transfer meet (see `interfaces.Rendezvous`).

    Args:
      attrs: the attributes of one of its ends.
      frame_iteration: in which iteration of which loop.
    """
    parts = (
        attrs["send_device"],
        f"{attrs['send_device_incarnation']:x}",
        attrs["recv_device"],
        attrs["tensor_name"],
        frame_iteration,
    )
    return ";".join(parts)


def check_key(key: str) -> str:
    """Return `key` if it has the form of `transfer_key`; raises InvalidArgumentError otherwise."""
    parts = key.split(";")
    if len(parts) != 5 or not all(parts):
        raise InvalidArgumentError(
            "this is no key of a rendezvous",
            expected="source device;incarnation;destination device;tensor name;frame:iteration",
            got=repr(key),
            hint="names of jobs and tensors must not have a ';'",
        )
    return key


@register_kernel("_Send")
@register_kernel("_HostSend")
def _send(op: OpContext, value: Any) -> None:
    if value is DEAD:
        op.step.rendezvous.send(_key(op), None, True)
    else:
        # the buffer of an array in the arena is written again in this step; lists never change
        op.step.rendezvous.send(_key(op), np.array(value) if isinstance(value, np.ndarray) else value, False)


@register_kernel("_Recv")
@register_kernel("_HostRecv")
def _recv(op: OpContext) -> Any:
    value, is_dead = op.step.rendezvous.recv(_key(op), op.step)
    return DEAD if is_dead else value


def _key(op: OpContext) -> str:
    return transfer_key({name: op.attr(name) for name in _KEY_ATTRS}, current_iteration())


_KEY_ATTRS = ("send_device", "send_device_incarnation", "recv_device", "tensor_name")
