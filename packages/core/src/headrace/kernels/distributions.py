"""Random numbers with a distribution, made from Philox blocks: exact definitions that every backend repeats.

Each function is pure: (state, shape, dtype) -> array.  Which words of the stream an element uses follows from its index
alone, never from how the work was cut.  Blocks are used as TensorFlow's CPU kernels use them, so uniform numbers,
integers and permutations equal TensorFlow's bit for bit.  Normal ones follow the same formula but take logarithm and
sine from `box_muller` instead of the C library: float16 and bfloat16 came out equal, float32 within 2 ulp (98.5 %
equal), float64 within 3 ulp (93 % equal) of tensorflow-cpu 2.21 on x86-64 Linux.

Source: TensorFlow ``tensorflow/core/lib/random/random_distributions.h``, ``kernels/random_op_cpu.h``,
``kernels/random_shuffle_op.cc``, ``kernels/multinomial_op.cc`` for the use of words; the arithmetic is our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.kernels.box_muller import box_muller
from headrace.kernels.philox import CHUNK, PhiloxState, philox_planes, philox_words, state_chunks

__all__ = [
    "RESERVED_BLOCKS_PER_ELEMENT",
    "Out",
    "categorical",
    "normal",
    "permutation",
    "truncated_normal",
    "uniform",
    "uniform_full_int",
    "uniform_int",
]

RESERVED_BLOCKS_PER_ELEMENT = 256
"""How far a stateful operation moves its stream per element it makes, whatever it used (TensorFlow's number)."""

_RESERVED_SAMPLES = 256  # words set aside for one element of a truncated normal, so that groups never overlap
_TRUNCATE_AT = 2.0
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)
_BITS: dict[np.dtype[Any], int] = {np.dtype(np.float16): 10, np.dtype(ml_dtypes.bfloat16): 7, _FLOAT32: 23}
Out = NDArray[Any] | None
"""Where to write a result: a C-contiguous array of its shape and dtype, or None for a new one."""

_Planes = tuple[NDArray[np.uint64], NDArray[np.uint64]]


def uniform(state: PhiloxState, shape: tuple[int, ...], dtype: DTypeLike, out: Out = None) -> NDArray[Any]:
    """Draw from [0, 1): multiples of the dtype's spacing just below 2, all equally likely.

    Args:
      state: where in the stream to start.
      shape: of the result.
      dtype: float16, bfloat16, float32 (10, 7, 23 random bits; one word an element) or float64 (52; two words).
      out: see `Out`.
    Returns:
      Array of `shape` and `dtype`.

    Example:
      >>> print(uniform(PhiloxState.from_seeds(1, 2), (3,), np.float32))
      [0.40639675 0.8575996  0.05539584]
    """
    dtype = np.dtype(dtype)
    if dtype == _FLOAT64:

        def from_planes(planes: _Planes, values: NDArray[Any]) -> None:
            _interleave(_fraction64(planes), values)

        return _fill_planes(state, shape, dtype, 2, out, from_planes)

    bits = _BITS[dtype]
    mask = np.uint32((1 << bits) - 1)
    scale = np.array(2.0**-bits, dtype)

    def from_words(words: NDArray[np.uint32], values: NDArray[Any]) -> None:
        np.bitwise_and(words, mask, out=words)
        np.copyto(values, words.view(np.int32), casting="unsafe")  # from int32: unsigned conversion is slow on x86
        np.multiply(values, scale, out=values)

    return _fill_words(state, shape, dtype, out, from_words)


def uniform_int(
    state: PhiloxState, shape: tuple[int, ...], low: int, high: int, dtype: DTypeLike, out: Out = None
) -> NDArray[Any]:
    """Draw integers from [low, high) as `low + bits mod (high - low)`.

    The remainder favours small values by up to (high - low) / 2**32 (int32) or / 2**64 (int64), as TensorFlow's does.

    Args:
      state: where in the stream to start.
      shape: of the result.
      low: inclusive, representable in `dtype`.
      high: exclusive, above `low`, representable in `dtype`.
      dtype: int32 (one word an element) or int64 (two words, the low one first).
      out: see `Out`.
    Returns:
      Array of `shape` and `dtype`.
    """
    dtype = np.dtype(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}").type
    values = uniform_full_int(state, shape, unsigned, None if out is None else out.view(unsigned))
    np.remainder(values, unsigned(high - low), out=values)
    np.add(values, unsigned(low % (1 << 8 * dtype.itemsize)), out=values)
    return values.view(dtype)


def uniform_full_int(state: PhiloxState, shape: tuple[int, ...], dtype: DTypeLike, out: Out = None) -> NDArray[Any]:
    """Draw integers from the whole range of their type.

    Args:
      state: where in the stream to start.
      shape: of the result.
      dtype: int32, uint32 (one word an element), int64 or uint64 (two words, the low one first).
      out: see `Out`.
    Returns:
      Array of `shape` and `dtype`.
    """
    dtype = np.dtype(dtype)
    if dtype.itemsize == 4:

        def from_words(words: NDArray[np.uint32], values: NDArray[Any]) -> None:
            values[:] = words.view(dtype)

        return _fill_words(state, shape, dtype, out, from_words)

    def from_planes(planes: _Planes, values: NDArray[Any]) -> None:
        even, odd = planes
        np.left_shift(odd, np.uint64(32), out=odd)
        np.bitwise_or(even, odd, out=even)
        _interleave(even.view(dtype), values)

    return _fill_planes(state, shape, dtype, 2, out, from_planes)


def normal(state: PhiloxState, shape: tuple[int, ...], dtype: DTypeLike, out: Out = None) -> NDArray[Any]:
    """Draw from the normal distribution of mean 0 and standard deviation 1, by the Box-Muller transform.

    Args:
      state: where in the stream to start.
      shape: of the result.
      dtype: float16, bfloat16 (both rounded from the float32 result), float32 (four elements a block; |value| <= 5.68)
        or float64 (two elements a block).
      out: see `Out`.
    Returns:
      Array of `shape` and `dtype`.

    Example:
      >>> print(normal(PhiloxState.from_seeds(1, 2), (2,), np.float32))
      [-1.0467793  0.8397046]
    """
    dtype = np.dtype(dtype)
    per_block = 2 if dtype == _FLOAT64 else 4

    def from_planes(planes: _Planes, values: NDArray[Any]) -> None:
        _interleave(_normals(planes, dtype), values)

    return _fill_planes(state, shape, dtype, per_block, out, from_planes)


def truncated_normal(state: PhiloxState, shape: tuple[int, ...], dtype: DTypeLike, out: Out = None) -> NDArray[Any]:
    """Draw from the standard normal distribution, given that the absolute value is below 2: values outside are redrawn.

    Elements come in groups, as many as a block gives. Each group has its own stretch of the stream, 256 words an
    element, and takes from it the first values that are accepted.

    Args:
      state: where in the stream to start.
      shape: of the result.
      dtype: float16, bfloat16 (accepted in float32, then rounded, so 2.0 can occur), float32 or float64.
      out: see `Out`.
    Returns:
      Array of `shape` and `dtype`.
    """
    dtype = np.dtype(dtype)
    per_group = 2 if dtype == _FLOAT64 else 4
    stride = per_group * _RESERVED_SAMPLES // 4

    def from_stretches(chunk: PhiloxState, values: NDArray[Any]) -> None:
        _fill_truncated(chunk, stride, values)

    return _fill(state, shape, dtype, per_group, out, from_stretches, CHUNK // 2, stride)


def permutation(state: PhiloxState, size: int) -> NDArray[np.int64]:
    """Draw a random order of `size` things by the Fisher-Yates shuffle, one 32-bit word for each but the last.

    Args:
      state: where in the stream to start; (`size` + 2) // 4 blocks are used.
      size: number of things, at most 2**32.
    Returns:
      int64 `[size]`: result element i is the old place of the thing that comes to place i.
    """
    if size <= 1:
        return np.arange(size)
    words = philox_words(state, (size + 2) // 4).reshape(-1)[: size - 1]
    remaining = np.arange(size, 1, -1, dtype=np.uint64)
    swaps = words.astype(np.uint64) % remaining + np.arange(size - 1, dtype=np.uint64)
    order = list(range(size))  # a list: element access costs a third of an array's
    for place, other in enumerate(swaps.tolist()):
        order[place], order[other] = order[other], order[place]
    return np.array(order, np.int64)


def categorical(state: PhiloxState, logits: NDArray[Any], samples: int, dtype: DTypeLike) -> NDArray[Any]:
    """Draw class indices with probabilities softmax(logits), by inverting the cumulative distribution in float64.

    Args:
      state: where in the stream to start; two words a sample, row after row.
      logits: floating `[batch, classes]`; a class whose logit is not finite is never drawn.
      samples: number of draws per row.
      dtype: int32 or int64.
    Returns:
      Array `[batch, samples]` of `dtype`, values in [0, classes); `classes` itself where a row has no finite logit.
    """
    batch = logits.shape[0]
    draws = uniform(state, (batch, samples), np.float64)
    finite = np.isfinite(logits)
    wide = np.where(finite, logits, -np.inf).astype(np.float64)
    largest = np.max(wide, axis=1, keepdims=True, initial=-1.7976931348623157e308)
    cumulative = np.cumsum(np.exp(wide - largest), axis=1)
    result = np.empty((batch, samples), dtype)
    for row in range(batch):
        result[row] = np.searchsorted(cumulative[row], draws[row] * cumulative[row, -1], side="right")
    return result


def _fill_truncated(state: PhiloxState, stride: int, out: NDArray[Any]) -> None:
    """Fill `out` `[groups, per_group]`; group i draws from the blocks that start at i * `stride`, until it is full."""
    groups, per_group = out.shape
    filled = np.zeros(groups, np.intp)
    open_groups = np.arange(groups)
    offsets = np.arange(groups, dtype=np.uint64) * np.uint64(stride)
    while open_groups.size:
        drawn = _normals(philox_planes(state, offsets), out.dtype, round_to=False)
        offsets += np.uint64(1)
        for candidate in drawn:
            wanted = (np.abs(candidate) < _TRUNCATE_AT) & (filled < per_group)
            out[open_groups[wanted], filled[wanted]] = candidate[wanted]
            filled += wanted
        unfinished = filled < per_group
        open_groups, filled, offsets = open_groups[unfinished], filled[unfinished], offsets[unfinished]


def _normals(planes: _Planes, dtype: np.dtype[Any], round_to: bool = True) -> NDArray[Any]:
    """Make the normal numbers of n blocks, `[per block, n]`; float16 and bfloat16 stay float32 unless `round_to`."""
    if dtype == _FLOAT64:
        radius, angle = _fraction64(planes)
        return np.stack(box_muller(radius, angle, _FLOAT64))
    sine, cosine = box_muller(_fraction32(planes[0]), _fraction32(planes[1]), _FLOAT32)
    values = np.stack([sine[0], cosine[0], sine[1], cosine[1]])
    return values.astype(dtype) if round_to else values


def _fraction32(plane: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The float32 uniform number of each word, as float64; changes `plane`."""
    np.bitwise_and(plane, np.uint64((1 << 23) - 1), out=plane)
    return plane.astype(np.float64) * 2.0**-23


def _fraction64(planes: _Planes) -> NDArray[np.float64]:
    """The float64 uniform number of each pair of words `[2, n]`, the high word first; changes `planes`."""
    even, odd = planes
    np.bitwise_and(even, np.uint64((1 << 20) - 1), out=even)
    np.left_shift(even, np.uint64(32), out=even)
    np.bitwise_or(even, odd, out=even)
    return even.astype(np.float64) * 2.0**-52


def _interleave(rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Store row i as column i; column by column because NumPy's assignment of a transpose takes 3 times as long."""
    for column, row in enumerate(rows):
        out[:, column] = row


def _fill_words(
    state: PhiloxState,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    out: Out,
    convert: Callable[[NDArray[np.uint32], NDArray[Any]], None],
) -> NDArray[Any]:
    """Make one element of each word, in stream order.

    `convert(words, values)` gets both as `[blocks, 4]` and may change the words.
    """

    def convert_chunk(chunk: PhiloxState, values: NDArray[Any]) -> None:
        convert(philox_words(chunk, len(values)), values)

    return _fill(state, shape, dtype, 4, out, convert_chunk, CHUNK)


def _fill_planes(
    state: PhiloxState,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    per_block: int,
    out: Out,
    convert: Callable[[_Planes, NDArray[Any]], None],
) -> NDArray[Any]:
    """Make `per_block` elements of each block.

    `convert(planes, values)` gets `values` as `[blocks, per_block]` and may change the planes.
    """

    def convert_chunk(chunk: PhiloxState, values: NDArray[Any]) -> None:
        convert(philox_planes(chunk, np.arange(len(values), dtype=np.uint64)), values)

    # Half a chunk: the float64 intermediates of these conversions need room in the cache too.
    return _fill(state, shape, dtype, per_block, out, convert_chunk, CHUNK // 2)


def _fill(
    state: PhiloxState,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    per_group: int,
    out: Out,
    convert_chunk: Callable[[PhiloxState, NDArray[Any]], None],
    chunk_size: int,
    stride: int = 1,
) -> NDArray[Any]:
    """Make the elements in groups of `per_group`, `chunk_size` groups at a time, each from its own `stride` blocks.

    `convert_chunk(chunk, values)` fills `values`, `[groups, per_group]`, from the state of the chunk.
    """
    result = np.empty(shape, dtype) if out is None else out
    flat = result.reshape(-1)
    for chunk, first, count in state_chunks(state, -(-flat.size // per_group), chunk_size, stride):
        target = flat[first * per_group : (first + count) * per_group]
        if target.size == count * per_group:
            convert_chunk(chunk, target.reshape(count, per_group))
        else:  # the last group gives more than is left to fill
            whole = np.empty((count, per_group), dtype)
            convert_chunk(chunk, whole)
            target[:] = whole.reshape(-1)[: target.size]
    return result
