"""Operations that carry a tensor from one device to another: partitioning adds them, users never do."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape

__all__ = ["TRANSFER_ATTRS"]

TRANSFER_ATTRS = {
    "tensor_name": attr.string(),
    "send_device": attr.string(),
    "send_device_incarnation": attr.int(),
    "recv_device": attr.string(),
    "client_terminated": attr.bool(False),
}
"""What both ends of a transfer have in common; together the key under which they meet."""


@register_op("_Send", inputs={"tensor": "T"}, attrs=TRANSFER_ATTRS, stateful=True)
def _send_shape(op: InferenceContext) -> list[Shape]:
    """Hands a tensor to the rendezvous of the step, for one other device to receive."""
    return []


@register_op("_HostSend", inputs={"tensor": "T"}, attrs=TRANSFER_ATTRS, stateful=True)
def _host_send_shape(op: InferenceContext) -> list[Shape]:
    """Hands a tensor that lies in host memory to the rendezvous of the step."""
    return []


_RECEIVED = {**TRANSFER_ATTRS, "tensor_type": attr.any_type, "_shape": attr.shape(Shape())}


@register_op("_Recv", outputs={"tensor": "tensor_type"}, attrs=_RECEIVED, stateful=True, blocks=True)
def _recv_shape(op: InferenceContext) -> list[Shape]:
    """The tensor that another device sends; waits until it is there."""
    return [_sent_shape(op)]


@register_op("_HostRecv", outputs={"tensor": "tensor_type"}, attrs=_RECEIVED, stateful=True, blocks=True)
def _host_recv_shape(op: InferenceContext) -> list[Shape]:
    """The tensor that another device sends, put into host memory; waits until it is there."""
    return [_sent_shape(op)]


def _sent_shape(op: InferenceContext) -> Shape:
    shape: Shape = op.attr("_shape")
    return shape
