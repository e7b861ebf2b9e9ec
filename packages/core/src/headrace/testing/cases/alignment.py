"""Cases of the alignment family. Losses come from a sum over every path, distances from the recursive definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers
from headrace.types import Array


def _spelled(path: Sequence[int], blank: int, merge: bool) -> list[int]:
    """What a path of classes spells."""
    return [label for n, label in enumerate(path) if label != blank and not (merge and n and label == path[n - 1])]


def _loss(logits: Array, labels: Sequence[int], merge: bool) -> tuple[float, Array]:
    """The loss, and its gradient: what the frames give without the labels less what they give in the right paths."""
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    frames, classes = logits.shape
    total, share = 0.0, np.zeros(logits.shape)
    for path in itertools.product(range(classes), repeat=frames):
        if _spelled(path, classes - 1, merge) == list(labels):
            weight = float(np.prod([probabilities[time, label] for time, label in enumerate(path)]))
            total += weight
            for time, label in enumerate(path):
                share[time, label] += weight
    return -float(np.log(total)), probabilities - share / total


def _ctc(merge: bool = True, collapse: bool = False, ignore: bool = False) -> Callable[..., tuple[Array, Array]]:
    """Loss and gradient by definition."""

    def expected(inputs: Array, indices: Array, values: Array, lengths: Array) -> tuple[Array, Array]:
        wide = np.asarray(inputs, np.float64)
        loss, gradient = np.zeros(wide.shape[1]), np.zeros(wide.shape)
        for example, frames in enumerate(lengths):
            labels = [int(value) for place, value in zip(indices, values, strict=True) if place[0] == example]
            if collapse:
                labels = [key for key, _ in itertools.groupby(labels)]
            if not frames or (ignore and len(labels) > frames):
                continue
            loss[example], gradient[:frames, example] = _loss(wide[:frames, example], labels, merge)
        return loss, gradient

    return expected


def _labels(*rows: Sequence[int]) -> list[Array]:
    places = [(row, column) for row, labels in enumerate(rows) for column in range(len(labels))]
    return [
        np.array(places, np.int64).reshape(-1, 2),
        np.array([label for labels in rows for label in labels], np.int32),
    ]


def _lengths(*values: int) -> Array:
    return np.array(values, np.int32)


_FRAMES = numbers("float32", 4, 2, 3, low=-1, high=1, seed=5)

# The gradient is checked by tests/ops/test_alignment.py: it has no second order.
_LOSSES = [
    OpCase(
        f"CTCLoss/{label}",
        "CTCLoss",
        [frames, *_labels(*rows), _lengths(*lengths)],
        attrs,
        expected=_ctc(**options),
        differentiate=(),
        deviation="TensorFlow takes the sums over paths in float32" if label == "float64" else None,
    )
    for label, frames, rows, lengths, attrs, options in (
        ("float32", _FRAMES, ([0, 1], [1]), (4, 4), {}, {}),
        ("float64", _FRAMES.astype(np.float64), ([0, 1], [1, 1]), (4, 3), {}, {}),
        ("repeated labels", _FRAMES, ([0, 0], [1]), (3, 2), {}, {}),
        ("no labels", _FRAMES, ([], [1]), (4, 3), {}, {}),
        ("no frames", _FRAMES, ([], [1]), (0, 3), {}, {}),
        ("repetitions that count", _FRAMES, ([0, 0], [1, 0]), (4, 3), {"ctc_merge_repeated": False}, {"merge": False}),
        ("collapsed labels", _FRAMES, ([0, 0, 1], [1]), (3, 4), {"preprocess_collapse_repeated": True},
         {"collapse": True}),
        ("longer labels ignored", _FRAMES, ([0, 1, 0], [1]), (2, 4), {"ignore_longer_outputs_than_inputs": True},
         {"ignore": True}),
    )
]  # fmt: skip


def _levenshtein(guess: tuple[Any, ...], truth: tuple[Any, ...]) -> int:
    @cache
    def distance(n: int, m: int) -> int:
        if not n or not m:
            return n + m
        same: int = distance(n - 1, m - 1) + (guess[n - 1] != truth[m - 1])
        return min(int(distance(n - 1, m)) + 1, int(distance(n, m - 1)) + 1, same)

    return int(distance(len(guess), len(truth)))


_GUESSES: dict[str, tuple[list[Any], list[Any]]] = {
    "int64": ([[1, 2, 3, 4], [7], [], []], [[1, 3, 4, 5], [7], [2, 2], []]),
    "string": ([[b"k", b"i", b"t"], [b"a"]], [[b"s", b"i", b"t", b"s"], [b"", b"a"]]),
    "float32": ([[0.5, 1.5]], [[1.5, 0.5]]),
}


def _sparse(rows: list[list[Any]], dtype: str) -> list[Array]:
    places = [(row, column) for row, items in enumerate(rows) for column in range(len(items))]
    kind = object if dtype == "string" else dtype
    values = np.array([item for items in rows for item in items], kind)
    widest = max(map(len, rows))
    return [np.array(places, np.int64).reshape(-1, 2), values, np.array([len(rows), widest], np.int64)]


def _edit_case(dtype: str, normalize: bool) -> OpCase:
    guesses, truths = _GUESSES[dtype]
    distances = []
    for guess, truth in zip(guesses, truths, strict=True):
        distance = float(_levenshtein(tuple(guess), tuple(truth)))
        distances.append(distance / len(truth) if normalize and truth else distance)
    return OpCase(
        f"EditDistance/{dtype}{'' if normalize else ' counted'}",
        "EditDistance",
        [*_sparse(guesses, dtype), *_sparse(truths, dtype)],
        {"normalize": normalize},
        expected=np.array(distances, np.float32),
    )


_ONE, _NOTHING = _sparse([[1, 2], []], "int64"), [np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array([2, 0])]
_DECODED = [
    np.array([[0, 0], [0, 1], [1, 0]]),
    np.array([0, 1, 1]),
    np.array([2, 2]),
    np.array([[-20.0], [-5.0]], np.float32),
]
_DECODE = np.zeros((4, 2, 3), np.float32)
for _time, _label, _value in ((0, 0, 8), (1, 0, 4), (2, 2, 2), (3, 1, 6)):
    _DECODE[_time, 0, _label] = _value
_DECODE[0, 1, 1] = 5

CASES = [
    *_LOSSES,
    *(
        OpCase(f"CTCLoss/{label}", "CTCLoss", [_FRAMES, *given, lengths], raises=text)
        for label, given, lengths, text in (
            ("too few frames", _labels([0, 1, 0]), _lengths(2, 2), "frames of an example are too few"),
            ("no room for a blank", _labels([0, 0]), _lengths(2, 2), "frames of an example are too few"),
            ("label is the blank", _labels([2]), _lengths(4, 4), "label is no class"),
            ("negative label", _labels([-1]), _lengths(4, 4), "label is no class"),
            ("length beyond the frames", _labels([0]), _lengths(5, 4), "longer than the frames"),
            ("too few lengths", _labels([0]), _lengths(4), "each example has one length"),
            ("no frames for a label", _labels([0], [1]), _lengths(0, 3), "frames of an example are too few"),
            ("row beyond the batch", [np.array([[2, 0]]), np.array([0], np.int32)], _lengths(4, 4), "not there"),
        )
    ),
    OpCase(
        "CTCGreedyDecoder/merged",
        "CTCGreedyDecoder",
        [_DECODE, _lengths(4, 1)],
        {"merge_repeated": True},
        expected=tuple(_DECODED),
    ),
    OpCase(
        "CTCGreedyDecoder/not merged",
        "CTCGreedyDecoder",
        [_DECODE, _lengths(2, 1)],
        expected=(
            np.array([[0, 0], [0, 1], [1, 0]]),
            np.array([0, 0, 1]),
            np.array([2, 2]),
            np.array([[-12.0], [-5.0]], np.float32),
        ),
    ),
    OpCase(
        "CTCGreedyDecoder/another blank",
        "CTCGreedyDecoder",
        [_DECODE.astype(np.float64), _lengths(4, 0)],
        {"blank_index": 0},
        expected=(np.array([[0, 0], [0, 1]]), np.array([2, 1]), np.array([2, 2]), np.array([[-20.0], [0.0]])),
    ),
    OpCase(
        "CTCGreedyDecoder/no such blank",
        "CTCGreedyDecoder",
        [_DECODE, _lengths(4, 0)],
        {"blank_index": 3},
        raises="blank_index is no class",
    ),
    OpCase("CTCGreedyDecoder/length", "CTCGreedyDecoder", [_DECODE, _lengths(5, 0)], raises="longer than the frames"),
    *(_edit_case(dtype, normalize) for dtype in _GUESSES for normalize in (True, False)),
    OpCase(
        "EditDistance/no truth",
        "EditDistance",
        [*_ONE, *_NOTHING],
        expected=np.array([np.inf, 0], np.float32),
    ),
    OpCase(
        "EditDistance/no hypothesis",
        "EditDistance",
        [*_NOTHING, *_ONE],
        expected=np.array([1, 0], np.float32),
    ),
    OpCase(
        "EditDistance/out of order",
        "EditDistance",
        [np.array([[0, 1], [0, 0]]), np.array([1, 2]), np.array([1, 2]), *_ONE],
        raises="out of order",
        deviation="TensorFlow counts on, with indices that no sparse tensor has",
    ),
    OpCase(
        "EditDistance/out of range",
        "EditDistance",
        [np.array([[0, 5]]), np.array([1]), np.array([1, 2]), *_ONE],
        raises="out of range",
        deviation="TensorFlow counts on, with indices that no sparse tensor has",
    ),
    OpCase(
        "EditDistance/ranks differ",
        "EditDistance",
        [np.array([[0]]), np.array([1]), np.array([1]), *_ONE],
        raises="contradict|differ in rank",
    ),
]
