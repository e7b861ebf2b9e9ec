"""Gradient rules of the transfer family: none, since partitioning comes after differentiation."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _op_type in ("_Send", "_Recv", "_HostSend", "_HostRecv"):
    no_gradient(_op_type, "transfers are added when the gradients are there already")
