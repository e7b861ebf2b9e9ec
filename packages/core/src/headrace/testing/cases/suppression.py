"""Cases of the suppression family; the boxes are those of the tests of Faster R-CNN, in three groups that overlap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]],
    np.float32,
)
_SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], np.float32)


def _overlap(shift: float) -> float:
    """What two boxes of size 1 have in common whose columns differ by so much."""
    return (1 - shift) / (1 + shift)


def _lowered(score: float, *shifts: float, sigma: float = 0.5) -> float:
    return score * math.exp(-0.5 / sigma * sum(_overlap(shift) ** 2 for shift in shifts))


def _v5(
    what: str,
    chosen: Any,
    kept: Any = (),
    *,
    scores: Any = _SCORES,
    boxes: Any = _BOXES,
    most: int = 6,
    iou: float = 0.5,
    least: float = 0.0,
    sigma: float = 0.0,
    **attrs: Any,
) -> OpCase:
    dtype = scores.dtype.type
    inputs = [boxes, scores, np.int32(most), dtype(iou), dtype(least), dtype(sigma)]
    if isinstance(chosen, str):
        return OpCase(f"NonMaxSuppressionV5/{what}", "NonMaxSuppressionV5", inputs, attrs, raises=chosen)
    values = np.array(kept, dtype) if len(kept) else scores[np.array(chosen, np.int64)]
    rest = most - len(chosen) if attrs else 0
    expected = (
        np.array([*chosen, *[0] * rest], np.int32),
        np.concatenate([values, np.zeros(rest, dtype)]),
        np.int32(len(chosen)),
    )
    return OpCase(f"NonMaxSuppressionV5/{what}", "NonMaxSuppressionV5", inputs, attrs, expected)


_PAD = {"pad_to_max_output_size": True}
_SOFT = [
    0.95,
    0.9,
    _lowered(0.75, 0.1),
    0.3,
    _lowered(0.5, 0.1),
    _lowered(0.6, 0.1, 0.2),
]
_FIFTH = [
    _v5("hard", [3, 0, 5]),
    _v5("corners swapped", [3, 0, 5], boxes=_BOXES[:, [2, 3, 0, 1]]),
    _v5("soft", [3, 0, 1, 5, 4, 2], _SOFT, sigma=0.5),
    _v5("soft, no overlap is too much", [3, 0, 1, 5, 4, 2], _SOFT, sigma=0.5, iou=1.0),
    _v5("soft, few", [3, 0, 1], _SOFT[:3], sigma=0.5, most=3),
    _v5("soft, least score", [3, 0], _SOFT[:2], sigma=0.5, least=0.4),
    _v5("padded", [3, 0, 5], most=8, **_PAD),
    _v5("soft, padded", [3, 0, 1, 5, 4, 2], _SOFT, sigma=0.5, most=8, **_PAD),
    _v5("equal scores", [0, 3, 5], scores=np.full(6, 0.5, np.float32)),
    _v5("half", [3, 0, 5], scores=_SCORES.astype(np.float16), boxes=_BOXES.astype(np.float16)),
    _v5("none", [], most=0),
    _v5("no boxes", [], boxes=_BOXES[:0], scores=_SCORES[:0]),
    _v5("negative number", r"max_output_size is negative", most=-1),
    _v5("negative sigma", r"soft_nms_sigma is negative", sigma=-1.0),
    _v5("more than the whole", r"iou_threshold is out of range", iou=1.5),
    _v5("soft, more than the whole", r"iou_threshold is out of range", iou=1.5, sigma=0.5),
    _v5("scores do not fit", r"boxes do not fit", scores=_SCORES[:5]),
]
_EARLIER = [
    OpCase(
        "NonMaxSuppression/default", "NonMaxSuppression", [_BOXES, _SCORES, 3], expected=np.array([3, 0, 5], np.int32)
    ),
    OpCase(
        "NonMaxSuppression/overlap",
        "NonMaxSuppression",
        [_BOXES, _SCORES, 6],
        {"iou_threshold": 0.7},
        np.array([3, 0, 5], np.int32),
    ),
    OpCase(
        "NonMaxSuppressionV2/negative scores",
        "NonMaxSuppressionV2",
        [_BOXES, -_SCORES, 6, np.float32(0.5)],
        expected=np.array([5, 4, 2], np.int32),
    ),
    OpCase(
        "NonMaxSuppressionV2/no overlap is too much",
        "NonMaxSuppressionV2",
        [_BOXES, _SCORES, 2, np.float32(1)],
        expected=np.array([3, 0], np.int32),
    ),
]
_SHARED = _BOXES[None, :, None]
_CLASSES = np.stack([_SCORES, _SCORES[::-1]], axis=-1)[None]


def _combined(
    what: str,
    rows: Any,
    *,
    boxes: Any = _SHARED,
    scores: Any = _CLASSES,
    per_class: int = 3,
    total: int = 5,
    iou: float = 0.5,
    least: float = 0.0,
    size: int | None = None,
    **attrs: Any,
) -> OpCase:
    """`rows` gives for each image the (box, class) of each detection."""
    inputs = [boxes, scores, per_class, total, np.float32(iou), np.float32(least)]
    name = f"CombinedNonMaxSuppression/{what}"
    if isinstance(rows, str):
        return OpCase(name, "CombinedNonMaxSuppression", inputs, attrs, raises=rows)
    count = total if size is None else size
    found, best = np.zeros((len(rows), count, 4), np.float32), np.zeros((len(rows), count), np.float32)
    labels = np.zeros((len(rows), count), np.float32)
    for image, pairs in enumerate(rows):
        for place, (box, label) in enumerate(pairs):
            found[image, place] = boxes[image, box, label if boxes.shape[2] > 1 else 0]
            best[image, place], labels[image, place] = scores[image, box, label], label
    if attrs.get("clip_boxes", True):
        found = np.clip(found, 0, 1)
    expected = (found, best, labels, np.array([len(pairs) for pairs in rows], np.int32))
    return OpCase(name, "CombinedNonMaxSuppression", inputs, attrs, expected)


_BEST = [(3, 0), (2, 1), (0, 0), (5, 1), (4, 1)]
_OWN = np.concatenate([_SHARED, _SHARED[..., [1, 0, 3, 2]]], axis=2)
_COMBINED = [
    _combined("shared boxes", [_BEST]),
    _combined("not clipped", [_BEST], clip_boxes=False),
    _combined("boxes of classes", [_BEST], boxes=_OWN, clip_boxes=False),
    _combined("padded per class", [_BEST[:4]], per_class=2, total=10, size=4, pad_per_class=True),
    _combined("few in all", [_BEST[:3]], per_class=2, total=3, pad_per_class=True),
    _combined("least score", [_BEST], least=0.7),
    _combined("fewer than asked for", [_BEST[:2]], least=0.92),
    _combined("two images", [_BEST, _BEST], boxes=np.concatenate([_SHARED] * 2), scores=np.concatenate([_CLASSES] * 2)),
    _combined("no images", [], boxes=_SHARED[:0], scores=_CLASSES[:0]),
    _combined("no boxes", [[]], boxes=_SHARED[:, :0], scores=_CLASSES[:, :0]),
    _combined("none of all", r"no boxes are asked for", total=0),
    _combined("none of a class", r"no boxes are asked for", per_class=0),
    _combined("more than the whole", r"iou_threshold is out of range", iou=2.0),
    _combined("scores do not fit", r"boxes do not fit", scores=_CLASSES[:, :5]),
    _combined("three of two classes", r"boxes do not fit", boxes=np.concatenate([_SHARED] * 3, axis=2)),
]

CASES = [*_FIFTH, *_EARLIER, *_COMBINED]
