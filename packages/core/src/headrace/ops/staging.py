"""Operations on staging areas, which keep tensors ready for a later step; they find theirs by name, without a handle.

The user's view of `Stage` and its kin is `hr.StagingArea`; `MapStage` and its kin come from graphs of TensorFlow.
"""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

__all__: list[str] = []

_TYPES = attr.list_of(attr.type(), minimum=1)
_AREA: dict[str, AttrSpec] = {
    "capacity": attr.int(0, minimum=0),
    "memory_limit": attr.int(0, minimum=0),
    "container": attr.string(""),
    "shared_name": attr.string(""),
}


def _untyped(op: InferenceContext) -> list[Shape]:
    return [Shape()] * len(op.attr("dtypes"))


@register_op("Stage", inputs={"values": "dtypes"}, attrs={**_AREA, "dtypes": _TYPES}, stateful=True, blocks=True)
def _stage_shape(op: InferenceContext) -> list[Shape]:
    """Puts an element into a staging area, waiting for room."""
    return []


@register_op("Unstage", outputs={"values": "dtypes"}, attrs={**_AREA, "dtypes": _TYPES}, stateful=True, blocks=True)
def _unstage_shape(op: InferenceContext) -> list[Shape]:
    """Takes the first element of a staging area, waiting for one."""
    return _untyped(op)


@register_op(
    "StagePeek",
    inputs={"index": "int32"},
    outputs={"values": "dtypes"},
    attrs={**_AREA, "dtypes": _TYPES},
    stateful=True,
    blocks=True,
)
def _peek_shape(op: InferenceContext) -> list[Shape]:
    """The element at a place of a staging area, which stays there, waiting until there is one."""
    check_scalar(op.inputs[0].shape, "index")
    return _untyped(op)


_ANY_TYPES = {**_AREA, "dtypes": attr.list_of(attr.type(), ())}


@register_op("StageSize", outputs={"size": "int32"}, attrs=_ANY_TYPES, stateful=True, reads_only=True)
def _size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements a staging area holds."""
    return [Shape([])]


@register_op("StageClear", attrs=_ANY_TYPES, stateful=True)
def _clear_shape(op: InferenceContext) -> list[Shape]:
    """Drops all elements of a staging area."""
    return []


def _check_places(op: InferenceContext) -> None:
    check_scalar(op.inputs[0].shape, "key")
    op.inputs[1].shape.with_rank(1)


def _map_stage_shape(op: InferenceContext) -> list[Shape]:
    """Puts components of the element that has this key into a staging area, waiting for room."""
    _check_places(op)
    return []


def _map_unstage_shape(op: InferenceContext) -> list[Shape]:
    """Takes components of the element that has this key, waiting until it is complete."""
    _check_places(op)
    return _untyped(op)


def _map_peek_shape(op: InferenceContext) -> list[Shape]:
    """Components of the element that has this key, which stay, waiting until it is complete."""
    _check_places(op)
    return _untyped(op)


def _map_unstage_no_key_shape(op: InferenceContext) -> list[Shape]:
    """Takes components of any complete element, the least key first where keys are ordered, waiting for one."""
    op.inputs[0].shape.with_rank(1)
    return [Shape([]), *_untyped(op)]


def _map_size_shape(op: InferenceContext) -> list[Shape]:
    """How many complete elements a staging area holds."""
    return [Shape([])]


def _map_incomplete_size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements of a staging area lack components."""
    return [Shape([])]


def _map_clear_shape(op: InferenceContext) -> list[Shape]:
    """Drops all elements of a staging area."""
    return []


for _prefix in ("", "Ordered"):
    register_op(
        f"{_prefix}MapStage",
        inputs={"key": "int64", "indices": "int32", "values": "fake_dtypes"},
        attrs={**_AREA, "dtypes": attr.list_of(attr.type()), "fake_dtypes": _TYPES},
        stateful=True,
        blocks=True,
    )(_map_stage_shape)
    for _name, _function in (("MapUnstage", _map_unstage_shape), ("MapPeek", _map_peek_shape)):
        register_op(
            f"{_prefix}{_name}",
            inputs={"key": "int64", "indices": "int32"},
            outputs={"values": "dtypes"},
            attrs={**_AREA, "dtypes": _TYPES},
            stateful=True,
            blocks=True,
        )(_function)
    register_op(
        f"{_prefix}MapUnstageNoKey",
        inputs={"indices": "int32"},
        outputs={"key": "int64", "values": "dtypes"},
        attrs={**_AREA, "dtypes": _TYPES},
        stateful=True,
        blocks=True,
    )(_map_unstage_no_key_shape)
    register_op(f"{_prefix}MapSize", outputs={"size": "int32"}, attrs=_ANY_TYPES, stateful=True, reads_only=True)(
        _map_size_shape
    )
    register_op(
        f"{_prefix}MapIncompleteSize", outputs={"size": "int32"}, attrs=_ANY_TYPES, stateful=True, reads_only=True
    )(_map_incomplete_size_shape)
    register_op(f"{_prefix}MapClear", attrs=_ANY_TYPES, stateful=True)(_map_clear_shape)
