"""NumPy kernels of the alignment family: sums over all paths in logarithms and float64, one example at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array

__all__: list[str] = []


def _lengths(lengths: Array, time: int) -> list[int]:
    found = [int(length) for length in lengths]
    if found and (min(found) < 0 or max(found) > time):
        raise InvalidArgumentError(
            "a sequence is longer than the frames",
            expected=f"0 <= sequence_length <= {time}",
            got=str(found[:8]),
            hint="inputs are [time, batch, classes]: count frames along the first axis",
        )
    return found


@register_kernel("CTCLoss")
def _ctc_loss(op: OpContext, inputs: Array, indices: Array, values: Array, lengths: Array) -> tuple[Array, Array]:
    time, batch, classes = inputs.shape
    lengths_of = _lengths(lengths, time)
    targets = _targets(indices, values, batch, classes)
    loss, gradient = np.zeros(batch), np.zeros(inputs.shape)
    for example, frames in enumerate(lengths_of):
        labels = targets[example]
        if op.attr("preprocess_collapse_repeated"):
            labels = [label for n, label in enumerate(labels) if not n or label != labels[n - 1]]
        again = sum(a == b for a, b in pairwise(labels)) if op.attr("ctc_merge_repeated") else 0
        needed = len(labels) + again
        if needed > frames:
            if op.attr("ignore_longer_outputs_than_inputs"):
                continue
            raise InvalidArgumentError(
                "the frames of an example are too few for its labels",
                expected=f"at least {needed} frames for {len(labels)} labels of which {again} repeat",
                got=f"{frames} frames in example {example}",
                hint="ignore_longer_outputs_than_inputs=True leaves such examples out; or lengthen the frames",
            )
        if not frames:
            continue
        logits = inputs[:frames, example].astype(np.float64)
        loss[example], gradient[:frames, example] = _one_loss(logits, labels, bool(op.attr("ctc_merge_repeated")))
    return loss.astype(inputs.dtype), gradient.astype(inputs.dtype)


def _targets(indices: Array, values: Array, batch: int, classes: int) -> list[list[int]]:
    targets: list[list[int]] = [[] for _ in range(batch)]
    for (example, _), label in zip(indices.tolist(), values.tolist(), strict=True):
        if not 0 <= example < batch:
            raise OutOfRangeError(
                "labels belong to an example that is not there",
                expected=f"0 <= row < {batch}",
                got=str(example),
                hint="the first column of labels_indices counts the examples, the second their labels",
            )
        if not 0 <= label < classes - 1:
            raise InvalidArgumentError(
                "a label is no class",
                expected=f"0 <= label < {classes - 1}, since the last class is the blank",
                got=str(label),
                hint="add one class to the frames for the blank, and count labels from 0",
            )
        targets[example].append(label)
    return targets


def _one_loss(logits: Array, labels: Sequence[int], merge: bool) -> tuple[float, Array]:
    """The loss of one example and its gradient: forward and backward over the labels with blanks between them."""
    classes = logits.shape[1]
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    blank = classes - 1
    path = np.full(2 * len(labels) + 1, blank)
    path[1::2] = labels
    stays = np.ones(len(path), bool) if merge else path == blank
    skips = path != blank
    skips[:2] = False
    if merge:
        skips[2:] &= path[2:] != path[:-2]
    emitted = logs[:, path]
    forward = _forward(emitted, stays, skips)
    # Backward is forward in a mirror: a skip into a place is one out of the place two before.
    mirrored = np.concatenate([skips[2:], [False, False]])[: len(path)][::-1]
    backward = _forward(emitted[::-1, ::-1], stays[::-1], mirrored)[::-1, ::-1]
    ends = forward[-1, -2:]
    total = float(np.logaddexp.reduce(ends))
    probabilities = np.exp(logs)
    if total == -np.inf:
        return np.inf, probabilities
    with np.errstate(invalid="ignore"):
        share = np.exp(forward + backward - emitted - total)
    share = np.where(np.isfinite(share), share, 0.0)
    expected = np.zeros_like(probabilities)
    for place, label in enumerate(path):
        expected[:, label] += share[:, place]
    return -total, probabilities - expected


def _forward(emitted: Array, stays: Array, skips: Array) -> Array:
    """For each frame and place, log of the sum over all ways to be there then, what that frame emits included."""
    found = np.full(emitted.shape, -np.inf)
    found[0, :2] = emitted[0, :2]
    for time in range(1, len(emitted)):
        before = found[time - 1]
        total = np.where(stays, before, -np.inf)
        total[1:] = np.logaddexp(total[1:], before[:-1])
        total[2:] = np.where(skips[2:], np.logaddexp(total[2:], before[:-2]), total[2:])
        found[time] = total + emitted[time]
    return found


@register_kernel("CTCGreedyDecoder")
def _ctc_greedy_decoder(op: OpContext, inputs: Array, lengths: Array) -> tuple[Array, Array, Array, Array]:
    time, batch, classes = inputs.shape
    blank = int(op.attr("blank_index"))
    blank += classes if blank < 0 else 0
    if not 0 <= blank < classes:
        raise InvalidArgumentError(
            "blank_index is no class",
            expected=f"{-classes} <= blank_index < {classes}",
            got=str(op.attr("blank_index")),
            hint="-1 is the last class",
        )
    score = np.zeros((batch, 1), inputs.dtype)
    rows: list[list[int]] = []
    for example, frames in enumerate(_lengths(lengths, time)):
        logits = inputs[:frames, example]
        best = logits.argmax(axis=1) if frames else np.zeros(0, np.int64)
        score[example] = -np.take_along_axis(logits, best[:, None], 1).sum() if frames else 0
        merged = [
            int(label)
            for n, label in enumerate(best)
            if label != blank and not (op.attr("merge_repeated") and n and label == best[n - 1])
        ]
        rows.append(merged)
    places = [(row, column) for row, labels in enumerate(rows) for column in range(len(labels))]
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.array([label for labels in rows for label in labels], np.int64),
        np.array([batch, max(map(len, rows), default=0)], np.int64),
        score,
    )


@register_kernel("EditDistance")
def _edit_distance(
    op: OpContext,
    hypothesis_indices: Array,
    hypothesis_values: Array,
    hypothesis_shape: Array,
    truth_indices: Array,
    truth_values: Array,
    truth_shape: Array,
) -> Array:
    shape = np.maximum(hypothesis_shape, truth_shape)[:-1]
    guesses = _rows(hypothesis_indices, hypothesis_values, hypothesis_shape)
    truths = _rows(truth_indices, truth_values, truth_shape)
    result = np.zeros(tuple(int(size) for size in shape), np.float32)
    for place in guesses.keys() | truths.keys():
        guess, truth = guesses.get(place, []), truths.get(place, [])
        distance = float(_distance(guess, truth))
        if op.attr("normalize"):
            distance = distance / len(truth) if truth else np.inf
        result[place] = distance
    return result


def _rows(indices: Array, values: Array, shape: Array) -> dict[tuple[int, ...], list[Any]]:
    rows: dict[tuple[int, ...], list[Any]] = {}
    last: list[int] | None = None
    for index, value in zip(indices.tolist(), values.tolist(), strict=True):
        inside = all(0 <= at < size for at, size in zip(index, shape, strict=True))
        if not inside or (last is not None and last >= index):
            raise InvalidArgumentError(
                "an index of a sparse tensor is out of range or out of order",
                expected=f"ascending indices inside {shape.tolist()}",
                got=str(index),
                hint="hr.sparse.reorder puts the indices in order",
            )
        rows.setdefault(tuple(index[:-1]), []).append(value)
        last = index
    return rows


def _distance(guess: Sequence[Any], truth: Sequence[Any]) -> int:
    """Levenshtein's distance, a row of the table at a time."""
    row = list(range(len(truth) + 1))
    for n, item in enumerate(guess, 1):
        before, row[0] = row[0], n
        for m, wanted in enumerate(truth, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (item != wanted))
    return row[-1]
