"""NumPy kernels of the candidates family. With equal seeds they draw what TensorFlow draws."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.errors import InvalidArgumentError, OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.files import unreadable
from headrace.kernels.philox import PhiloxState, PhiloxStream, philox_words
from headrace.kernels.registry import register_kernel
from headrace.kernels.strings import parse_number
from headrace.types import Array, float64

_BLOCKS_PER_SAMPLE = 512
"""Random blocks that one execution takes from the stream for each sample, whether it needs them or not."""
_CHUNK = 4096
"""Random blocks that are computed at a time, at most."""

Draw = Callable[[NDArray[np.uint32], int], NDArray[np.int64]]
"""From random words to classes below a number."""
Probability = Callable[[NDArray[np.float64], int], NDArray[np.float64]]


def _uniform(words: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
    """The remainder of 64 random bits; the lowest 2**64 mod count numbers are passed over, so that none is favoured."""
    pairs = words.astype(np.uint64).reshape(-1, 2)
    bits = pairs[:, 0] | pairs[:, 1] << np.uint64(32)
    if count & (count - 1) == 0:
        return (bits & np.uint64(count - 1)).astype(np.int64)
    kept = bits[bits >= np.uint64((2**64 - 1) % count + 1)]
    return (kept % np.uint64(count)).astype(np.int64)


def _log_uniform(words: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
    """exp(u log(count + 1)) - 1, rounded down, of 52 random bits u."""
    pairs = words.astype(np.uint64).reshape(-1, 2)
    mantissa = (pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32) | pairs[:, 1]
    fraction = mantissa.astype(np.float64) * 2.0**-52
    return (np.exp(fraction * math.log1p(count)).astype(np.int64) - 1) % count


def _uniform_probability(classes: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.full(classes.shape, 1 / count)


def _log_uniform_probability(classes: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.log((classes + 2) / (classes + 1)) / math.log1p(count)


def _draws(state: PhiloxState, draw: Draw, count: int, first: int) -> Iterator[NDArray[np.int64]]:
    """Classes without end, a chunk at a time; the first chunk is as large as is probably enough."""
    blocks = min(first, _CHUNK)
    while True:
        yield draw(philox_words(state, blocks).reshape(-1), count)
        state, blocks = state.skip(blocks), _CHUNK


def _first(chunks: Iterator[NDArray[np.int64]], wanted: int) -> tuple[NDArray[np.int64], int]:
    """The first classes, and that they took as many draws."""
    found: list[NDArray[np.int64]] = []
    while sum(map(len, found)) < wanted:
        found.append(next(chunks))
    return np.concatenate(found)[:wanted], wanted


def _first_different(chunks: Iterator[NDArray[np.int64]], wanted: int) -> tuple[NDArray[np.int64], int]:
    """The first classes that are all different, and how many draws they took."""
    found: dict[int, None] = {}
    tries = 0
    for chunk in chunks:
        for value in chunk.tolist():
            tries += 1
            found[value] = None
            if len(found) == wanted:
                return np.fromiter(found, np.int64, wanted), tries
    raise AssertionError("the chunks have no end")


def _register(op_type: str, draw: Draw, probability: Probability) -> None:
    @register_kernel(op_type)
    def kernel(op: OpContext, true_classes: Array) -> tuple[Array, Array, Array]:
        return _sampled(op, true_classes, draw, probability)


def _sampled(op: OpContext, true_classes: Array, draw: Draw, probability: Probability) -> tuple[Array, Array, Array]:
    wanted, count = op.attr("num_sampled"), op.attr("range_max")
    if true_classes.size and (int(true_classes.min()) < 0 or int(true_classes.max()) >= count):
        raise OutOfRangeError(
            "a true class is out of range",
            expected=f"0 <= class < {count}",
            got=str(true_classes.tolist()),
            hint="count classes from 0, or raise num_classes",
        )
    chunks = _draws(_reserve(op, wanted), draw, count, wanted)
    sampled, tries = (_first_different if op.attr("unique") else _first)(chunks, wanted)

    def expected(classes: Array) -> Array:
        chance = probability(classes.astype(np.float64), count)
        counts = chance * wanted if tries == wanted else -np.expm1(tries * np.log1p(-chance))
        return np.asarray(counts, np.float32)

    return sampled, expected(true_classes), expected(sampled)


class _Weights:
    """Classes with probabilities in proportion to weights `[classes]`."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.ends = np.cumsum(weights)
        self.shares = weights / self.ends[-1]

    def draw(self, words: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
        """The class in whose part of the sum of all weights 52 random bits fall."""
        pairs = words.astype(np.uint64).reshape(-1, 2)
        fraction = ((pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32) | pairs[:, 1]).astype(np.float64) * 2.0**-52
        found = np.searchsorted(self.ends, fraction * self.ends[-1], side="right")
        return np.asarray(found, np.int64)

    def probability(self, classes: NDArray[np.float64], count: int) -> NDArray[np.float64]:
        """How likely each class is."""
        return np.asarray(self.shares[classes.astype(np.int64)])


@register_kernel("FixedUnigramCandidateSampler")
def _fixed_unigram(op: OpContext, true_classes: Array) -> tuple[Array, Array, Array]:
    weights: _Weights = op.resources.lookup_or_create((_Weights, op.name), lambda: _Weights(_fixed_weights(op)))
    _check_enough(op, int(np.count_nonzero(weights.shares)))
    return _sampled(op, true_classes, weights.draw, weights.probability)


def _fixed_weights(op: OpContext) -> NDArray[np.float64]:
    given = list(op.attr("unigrams")) or _weights_in_file(op)
    weights = np.concatenate([np.zeros(op.attr("num_reserved_ids")), np.asarray(given, np.float64)])
    if len(weights) != op.attr("range_max") or not np.all(weights >= 0):
        raise InvalidArgumentError(
            "the weights are not right",
            expected=f"{op.attr('range_max')} numbers of at least 0, reserved classes included",
            got=f"{len(weights)}, the least {weights.min() if len(weights) else 'of none'}",
            hint="give one weight for each class, in their order",
        )
    used = weights > 0
    weights[used] **= op.attr("distortion")
    weights[np.arange(len(weights)) % op.attr("num_shards") != op.attr("shard")] = 0
    if not weights.any():
        raise InvalidArgumentError(
            "no class can be drawn",
            expected="a weight above 0 in this shard",
            got="none",
            hint="check num_shards and shard",
        )
    return weights


def _weights_in_file(op: OpContext) -> list[float]:
    """The last column of each line."""
    path = Path(op.attr("vocab_file"))
    try:
        lines = path.read_text("utf-8").splitlines() if op.attr("vocab_file") else []
    except OSError as error:
        raise unreadable(path, error) from error
    return [float(parse_number(line.rpartition(",")[2].encode(), float64)) for line in lines if line]


def _check_enough(op: OpContext, count: int) -> None:
    if op.attr("unique") and op.attr("num_sampled") > count:
        raise InvalidArgumentError(
            "too few classes can be drawn",
            expected=f"at least {op.attr('num_sampled')} different ones with a weight",
            got=str(count),
            hint="draw fewer, or let classes repeat with unique=False",
        )


class _Learned:
    """How often each class was true, plus one. Mutable and thread-safe."""

    def __init__(self, count: int) -> None:
        self._counts = np.ones(count)
        self._lock = threading.Lock()

    def weights(self) -> _Weights:
        """The counts so far as weights."""
        with self._lock:
            return _Weights(self._counts.copy())

    def count(self, classes: Array) -> None:
        """Count the true classes of a step."""
        with self._lock:
            np.add.at(self._counts, classes.reshape(-1), 1)


@register_kernel("LearnedUnigramCandidateSampler")
def _learned_unigram(op: OpContext, true_classes: Array) -> tuple[Array, Array, Array]:
    learned: _Learned = op.resources.lookup_or_create((_Learned, op.name), lambda: _Learned(op.attr("range_max")))
    weights = learned.weights()
    result = _sampled(op, true_classes, weights.draw, weights.probability)
    learned.count(true_classes)
    return result


def _reserve(op: OpContext, samples: int) -> PhiloxState:
    """The operation's stretch of its stream, which the session keeps under the operation's name."""
    seeds = op.attr("seed"), op.attr("seed2")

    def start() -> PhiloxStream:
        chosen = (secrets.randbits(64), secrets.randbits(64)) if seeds == (0, 0) else seeds
        return PhiloxStream(PhiloxState.from_seeds(*chosen))

    stream: PhiloxStream = op.resources.lookup_or_create((PhiloxStream, op.name, seeds), start)
    return stream.reserve(samples * _BLOCKS_PER_SAMPLE)


_register("UniformCandidateSampler", _uniform, _uniform_probability)
_register("LogUniformCandidateSampler", _log_uniform, _log_uniform_probability)


@register_kernel("ComputeAccidentalHits")
def _accidental_hits(op: OpContext, true_classes: Array, sampled: Array) -> tuple[Array, Array, Array]:
    positions = {int(value): position for position, value in enumerate(sampled)}
    hits = [
        (row, positions[value])
        for row, classes in enumerate(true_classes.tolist())
        for value in classes
        if value in positions
    ]
    rows, columns = np.array(hits, np.int64).reshape(-1, 2).T
    weights = np.full(len(hits), np.finfo(np.float32).min, np.float32)
    return rows.astype(np.int32), columns.copy(), weights
