"""NumPy kernels of the suppression family."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.suppression import check_class_boxes, detections
from headrace.types import Array, Shape

__all__: list[str] = []


class _Boxes:
    """Boxes by their corners, in float32, in whatever order the corners came."""

    def __init__(self, boxes: Array) -> None:
        wide = boxes.astype(np.float32)
        self._low, self._high = np.minimum(wide[:, :2], wide[:, 2:]), np.maximum(wide[:, :2], wide[:, 2:])
        self._areas = np.prod(self._high - self._low, axis=1)

    def overlaps(self, one: int, others: Any) -> Any:
        """For each of the others what it has in common with one, as a fraction of what they cover together."""
        common = np.minimum(self._high[one], self._high[others]) - np.maximum(self._low[one], self._low[others])
        shared = np.prod(np.maximum(common, 0), axis=-1)
        ratio = shared / (self._areas[one] + self._areas[others] - shared)
        return np.where((self._areas[one] > 0) & (self._areas[others] > 0), ratio, np.float32(0))


def _check(most: Any, iou_threshold: Any) -> None:
    if int(most) < 0:
        raise InvalidArgumentError(
            "max_output_size is negative",
            expected=">= 0",
            got=str(int(most)),
            hint="hr.size(scores) keeps all that do not overlap",
        )
    if not 0 <= float(iou_threshold) <= 1:
        raise InvalidArgumentError(
            "iou_threshold is out of range",
            expected="0 to 1",
            got=str(float(iou_threshold)),
            hint="give the overlap as a fraction: 0.5, not 50",
        )


def _suppressed(boxes: Array, scores: Array, most: Any, iou_threshold: Any, score_threshold: Any) -> Array:
    _check(most, iou_threshold)
    known, values = _Boxes(boxes), scores.astype(np.float32)
    candidates = np.flatnonzero(values > float(score_threshold))
    candidates = candidates[np.argsort(-values[candidates], kind="stable")]
    chosen: list[int] = []
    while len(candidates) and len(chosen) < int(most):
        best, candidates = int(candidates[0]), candidates[1:]
        chosen.append(best)
        candidates = candidates[~(known.overlaps(best, candidates) > np.float32(iou_threshold))]
    return np.array(chosen, np.int32)


def _softened(boxes: Array, scores: Array, most: int, score_threshold: Any, sigma: Any) -> tuple[Array, Array]:
    """A box that overlaps chosen ones comes again with a lower score; it stays when that is the best one left.

    Source: N. Bodla et al., "Soft-NMS: improving object detection with one line of code", ICCV 2017, equation 4.
    """
    known, dtype = _Boxes(boxes), scores.dtype.type
    scale = dtype(-0.5) / dtype(sigma)
    waiting = [(-score, index, 0) for index, score in enumerate(scores) if score > score_threshold]
    heapq.heapify(waiting)
    chosen: list[int] = []
    kept: list[Any] = []
    while waiting and len(chosen) < most:
        negative, index, seen = heapq.heappop(waiting)
        score = -negative
        for overlap in known.overlaps(index, np.array(chosen[: seen - 1 if seen else None : -1], np.int64)):
            similarity = dtype(overlap)
            score = dtype(score * np.exp(scale * similarity * similarity))
            if score <= score_threshold:
                break
        if score == -negative:
            chosen.append(index)
            kept.append(score)
        elif score > score_threshold:
            heapq.heappush(waiting, (-score, index, len(chosen)))
    return np.array(chosen, np.int32), np.array(kept, scores.dtype)


def _filled(values: Array, op: OpContext, most: Any) -> Array:
    size = int(most) if op.attr("pad_to_max_output_size") else len(values)
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])


@register_kernel("NonMaxSuppression")
def _first(op: OpContext, boxes: Array, scores: Array, most: Array) -> Array:
    return _suppressed(boxes, scores, most, op.attr("iou_threshold"), -np.inf)


@register_kernel("NonMaxSuppressionV2")
def _second(op: OpContext, boxes: Array, scores: Array, most: Array, iou_threshold: Array) -> Array:
    return _suppressed(boxes, scores, most, iou_threshold, -np.inf)


@register_kernel("NonMaxSuppressionV3")
def _third(
    op: OpContext, boxes: Array, scores: Array, most: Array, iou_threshold: Array, score_threshold: Array
) -> Array:
    return _suppressed(boxes, scores, most, iou_threshold, score_threshold)


@register_kernel("NonMaxSuppressionV4")
def _fourth(op: OpContext, boxes: Array, scores: Array, most: Array, *thresholds: Array) -> tuple[Array, Array]:
    chosen = _suppressed(boxes, scores, most, *thresholds)
    return _filled(chosen, op, most), np.array(len(chosen), np.int32)


@register_kernel("NonMaxSuppressionV5")
def _fifth(
    op: OpContext, boxes: Array, scores: Array, most: Array, iou_threshold: Array, score_threshold: Array, sigma: Array
) -> tuple[Array, Array, Array]:
    if float(sigma) < 0:
        raise InvalidArgumentError(
            "soft_nms_sigma is negative", expected=">= 0", got=str(float(sigma)), hint="0 removes boxes that overlap"
        )
    if float(sigma) > 0:
        _check(most, iou_threshold)
        chosen, kept = _softened(boxes, scores, int(most), scores.dtype.type(score_threshold), sigma)
    else:
        chosen = _suppressed(boxes, scores, most, iou_threshold, score_threshold)
        kept = scores[chosen]
    return _filled(chosen, op, most), _filled(kept, op, most), np.array(len(chosen), np.int32)


@register_kernel("CombinedNonMaxSuppression")
def _combined(
    op: OpContext,
    boxes: Array,
    scores: Array,
    per_class: Array,
    total: Array,
    iou_threshold: Array,
    score_threshold: Array,
) -> tuple[Array, Array, Array, Array]:
    check_class_boxes(Shape(boxes.shape), Shape(scores.shape))
    batch, _, classes = scores.shape
    count = detections(per_class, total, classes, bool(op.attr("pad_per_class")))
    _check(count, iou_threshold)
    found = np.zeros((batch, count, 4), np.float32)
    best, labels = np.zeros((2, batch, count), np.float32)
    valid = np.zeros(batch, np.int32)
    for image in range(batch):
        rows: list[tuple[float, int, int]] = []
        for label in range(classes):
            own = boxes[image, :, label if boxes.shape[2] > 1 else 0]
            stay = _suppressed(own, scores[image, :, label], per_class, iou_threshold, score_threshold)
            rows += [(float(scores[image, row, label]), label, int(row)) for row in stay]
        rows = sorted(rows, key=lambda row: -row[0])[:count]
        valid[image] = len(rows)
        for place, (score, label, row) in enumerate(rows):
            found[image, place] = boxes[image, row, label if boxes.shape[2] > 1 else 0]
            best[image, place], labels[image, place] = score, label
    return np.clip(found, 0, 1) if op.attr("clip_boxes") else found, best, labels, valid
