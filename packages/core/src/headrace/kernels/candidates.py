"""NumPy kernels of the candidates family. With equal seeds they draw what TensorFlow draws."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.errors import OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.philox import PhiloxState, PhiloxStream, philox_words
from headrace.kernels.registry import register_kernel
from headrace.types import Array

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
    def kernel(op: OpContext, true_classes: Array) -> tuple[Array, Array, Array]:
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

    register_kernel(op_type)(kernel)


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
