"""Suppression: of boxes that overlap, the best ones stay."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Array, Shape, float16, float32

__all__ = ["check_class_boxes", "detections"]

_BOX_HINT = "boxes are rows of [y1, x1, y2, x2]"
_THRESHOLD = attr.type(float16, float32, default=float32)
_INDICES = {"selected_indices": "int32"}
_BOXES = {"boxes": "T", "scores": "T", "max_output_size": "int32"}
_THRESHOLDS = {"iou_threshold": "T_threshold", "score_threshold": "T_threshold"}
_TYPES = {"T": _THRESHOLD, "T_threshold": _THRESHOLD}
_PADDED = {"pad_to_max_output_size": attr.bool(False)}


def _chosen(op: InferenceContext) -> list[Shape]:
    count, four = op.inputs[0].shape.with_rank(2)
    if four not in (None, 4) or not op.inputs[1].shape.is_compatible_with(Shape([count])):
        raise ShapeError(
            "boxes do not fit",
            expected="boxes [n, 4], scores [n]",
            got=f"{op.inputs[0].shape}, {op.inputs[1].shape}",
            hint=_BOX_HINT + ", scores one number for each",
        )
    for index, spec in enumerate(op.inputs[2:], 2):
        check_scalar(spec.shape, _NAMES[index - 2])
    return [Shape([None])]


_NAMES = ("max_output_size", "iou_threshold", "score_threshold", "soft_nms_sigma")


def _padded(op: InferenceContext) -> Shape:
    """The boxes that stay, or as many as may stay if that is asked for."""
    (bare,), most = _chosen(op), op.constant(2)
    known = op.attr("pad_to_max_output_size") and most is not None and int(most) >= 0
    return Shape([int(most)]) if known and most is not None else bare


@register_op(
    "NonMaxSuppression",
    inputs={"boxes": "float32", "scores": "float32", "max_output_size": "int32"},
    outputs=_INDICES,
    attrs={"iou_threshold": attr.float(0.5)},
)
def _first_shape(op: InferenceContext) -> list[Shape]:
    """`NonMaxSuppressionV3` for every score, with the greatest overlap as an attribute."""
    return _chosen(op)


@register_op("NonMaxSuppressionV2", inputs={**_BOXES, "iou_threshold": "T_threshold"}, outputs=_INDICES, attrs=_TYPES)
def _second_shape(op: InferenceContext) -> list[Shape]:
    """`NonMaxSuppressionV3` for every score."""
    return _chosen(op)


@register_op("NonMaxSuppressionV3", inputs={**_BOXES, **_THRESHOLDS}, outputs=_INDICES, attrs=_TYPES)
def _third_shape(op: InferenceContext) -> list[Shape]:
    """Which boxes stay, best score first, when each removes the worse ones that overlap it too much."""
    return _chosen(op)


@register_op(
    "NonMaxSuppressionV4",
    inputs={**_BOXES, **_THRESHOLDS},
    outputs={**_INDICES, "valid_outputs": "int32"},
    attrs={**_TYPES, **_PADDED},
)
def _fourth_shape(op: InferenceContext) -> list[Shape]:
    """`NonMaxSuppressionV3` and how many boxes stay; on request with zeros behind them, as many as may stay."""
    return [_padded(op), Shape([])]


@register_op(
    "NonMaxSuppressionV5",
    inputs={**_BOXES, "iou_threshold": "T", "score_threshold": "T", "soft_nms_sigma": "T"},
    outputs={**_INDICES, "selected_scores": "T", "valid_outputs": "int32"},
    attrs={"T": _THRESHOLD, **_PADDED},
)
def _fifth_shape(op: InferenceContext) -> list[Shape]:
    """`NonMaxSuppressionV4` with scores; with a sigma above 0 overlap does not remove a box but lowers its score."""
    shape = _padded(op)
    return [shape, shape, Shape([])]


@register_op(
    "CombinedNonMaxSuppression",
    inputs={
        "boxes": "float32",
        "scores": "float32",
        "max_output_size_per_class": "int32",
        "max_total_size": "int32",
        "iou_threshold": "float32",
        "score_threshold": "float32",
    },
    outputs={
        "nmsed_boxes": "float32",
        "nmsed_scores": "float32",
        "nmsed_classes": "float32",
        "valid_detections": "int32",
    },
    attrs={"pad_per_class": attr.bool(False), "clip_boxes": attr.bool(True)},
)
def _combined_shape(op: InferenceContext) -> list[Shape]:
    """For each image the best boxes of all classes, when suppression runs in each class; zeros fill the rest."""
    boxes, scores = op.inputs[0].shape.with_rank(4), op.inputs[1].shape.with_rank(3)
    check_class_boxes(boxes, scores)
    names = ("max_output_size_per_class", "max_total_size", "iou_threshold", "score_threshold")
    for spec, name in zip(op.inputs[2:], names, strict=True):
        check_scalar(spec.shape, name)
    per_class, total, classes = op.constant(2), op.constant(3), scores[2]
    count: int | None = None
    if per_class is not None and total is not None and (classes is not None or not op.attr("pad_per_class")):
        count = detections(per_class, total, classes or 0, bool(op.attr("pad_per_class")))
    batch = scores[0] if boxes[0] is None else boxes[0]
    return [Shape([batch, count, 4]), Shape([batch, count]), Shape([batch, count]), Shape([batch])]


def check_class_boxes(boxes: Shape, scores: Shape) -> None:
    """Raise ShapeError unless the boxes `[batch, n, 1 or classes, 4]` go with the scores `[batch, n, classes]`."""
    classes, four = boxes[2], boxes[3]
    fits = Shape([boxes[0], boxes[1]]).is_compatible_with(Shape([scores[0], scores[1]]))
    if not fits or four not in (None, 4) or (None not in (classes, scores[2]) and classes not in (1, scores[2])):
        raise ShapeError(
            "boxes do not fit",
            expected="boxes [batch, n, 1 or classes, 4], scores [batch, n, classes]",
            got=f"{boxes}, {scores}",
            hint=_BOX_HINT + "; all classes share them, or each has its own",
        )


def detections(per_class: Array, total: Array, classes: int, padded_per_class: bool) -> int:
    """How many boxes there are at most for an image.

    Raises:
      InvalidArgumentError: none are asked for.
    """
    if min(int(per_class), int(total)) < 1:
        raise InvalidArgumentError(
            "no boxes are asked for",
            expected="max_output_size_per_class and max_total_size of at least 1",
            got=f"{int(per_class)} and {int(total)}",
            hint="max_total_size counts the boxes of all classes together",
        )
    return min(int(total), int(per_class) * classes) if padded_per_class else int(total)
