"""What loop rules are written with: element-wise functions, reductions and views of values, named as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.loops.value import Piece, Scalar, Value, broadcast, map_values
from headrace.types import DType, int64, uint32
from headrace.types import bool as boolean

__all__ = [
    "abs",
    "all",
    "any",
    "assemble",
    "broadcast_to",
    "cast",
    "ceil",
    "cos",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "expm1",
    "floor",
    "index",
    "isfinite",
    "isnan",
    "log",
    "log1p",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "not_equal",
    "philox",
    "position",
    "prod",
    "rint",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "squeeze",
    "strided",
    "sum",
    "tanh",
    "transpose",
    "where",
]

Axes = int | Sequence[int] | None


def abs(x: Value) -> Value:
    """|x|."""
    return map_values("abs", x)


def ceil(x: Value) -> Value:
    """The lowest whole number that is not below x."""
    return map_values("ceil", x)


def cos(x: Value) -> Value:
    """The cosine of x in radians."""
    return map_values("cos", x)


def erf(x: Value) -> Value:
    """The error function."""
    return map_values("erf", x)


def exp(x: Value) -> Value:
    """e to the power of x."""
    return map_values("exp", x)


def expm1(x: Value) -> Value:
    """exp(x) - 1, exact for small x."""
    return map_values("expm1", x)


def floor(x: Value) -> Value:
    """The highest whole number that is not above x."""
    return map_values("floor", x)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return map_values("log", x)


def log1p(x: Value) -> Value:
    """log(1 + x), exact for small x."""
    return map_values("log1p", x)


def rint(x: Value) -> Value:
    """The nearest whole number, ties to even."""
    return map_values("rint", x)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return map_values("rsqrt", x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x))."""
    return map_values("sigmoid", x)


def sign(x: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN."""
    return map_values("sign", x)


def sin(x: Value) -> Value:
    """The sine of x in radians."""
    return map_values("sin", x)


def sqrt(x: Value) -> Value:
    """The square root."""
    return map_values("sqrt", x)


def square(x: Value) -> Value:
    """X times x."""
    return map_values("mul", x, x)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent."""
    return map_values("tanh", x)


def maximum(x: Value | Scalar, y: Value | Scalar) -> Value:
    """The larger of two; NaN if one of them is."""
    return map_values("max", x, y)


def minimum(x: Value | Scalar, y: Value | Scalar) -> Value:
    """The smaller of two; NaN if one of them is."""
    return map_values("min", x, y)


def equal(x: Value | Scalar, y: Value | Scalar) -> Value:
    """True where two are equal."""
    return map_values("eq", x, y, dtype=boolean)


def not_equal(x: Value | Scalar, y: Value | Scalar) -> Value:
    """True where two differ, or one is NaN."""
    return map_values("ne", x, y, dtype=boolean)


def isnan(x: Value) -> Value:
    """True where x is not a number."""
    return not_equal(x, x)


def isfinite(x: Value) -> Value:
    """True where x is neither infinite nor NaN."""
    return map_values("isfinite", x, dtype=boolean)


def where(condition: Value, x: Value | Scalar, y: Value | Scalar) -> Value:
    """X where the condition holds, else y."""
    chosen = map_values("max", x, y)  # checks the pair of operands and gives their dtype
    return Value("select", chosen.dtype, broadcast(condition.shape, chosen.shape), (condition, *chosen.args))


def cast(x: Value, dtype: DType) -> Value:
    """X in another dtype; floats are rounded to nearest even, and truncated towards zero on their way to integers."""
    return x if x.dtype is dtype else Value("cast", dtype, x.shape, (x,))


def index(shape: Sequence[int], axis: int) -> Value:
    """The int64 position of each element of `shape` along an axis."""
    return Value("index", int64, tuple(shape), (), axis % len(shape))


def position(shape: Sequence[int], step: int = 1, start: int = 0) -> Value:
    """The int64 number of each element of `shape` in the order of memory, times `step`, plus `start`."""
    return Value("position", int64, tuple(shape), (), (step, start))


def philox(key: Value, low: Value, high: Value, number: Value) -> Value:
    """Words of a stream of Philox4x32-10, uint32, each of which depends on its own number only.

    Args:
      key: uint64, which stream.
      low: uint64, the lower half of the counter of the block whose words have the numbers 0 to 3.
      high: uint64, the upper half.
      number: int64, which word; not negative.
    Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    shape = broadcast(key.shape, low.shape, high.shape, number.shape)
    return Value("philox", uint32, shape, (key, low, high, number))


def _reduce(op: str, x: Value, axis: Axes, keepdims: bool) -> Value:
    given = range(x.rank) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = tuple(sorted({item % x.rank for item in given}))
    kept = Value(
        "reduce",
        x.dtype,
        tuple(1 if number in axes else size for number, size in enumerate(x.shape)),
        (x,),
        (op, axes),
    )
    return kept if keepdims else squeeze(kept, axes)


def sum(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """The sum along axes; floats are added in float64 and rounded once."""
    return _reduce("sum", x, axis, keepdims)


def mean(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """The arithmetic mean along axes of a floating value."""
    total = _reduce("sum", x, axis, keepdims)
    count, kept = 1, 1
    for size in x.shape:
        count *= size
    for size in total.shape:
        kept *= size
    return total / (count // kept if kept else 1)


def prod(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """The product along axes."""
    return _reduce("prod", x, axis, keepdims)


def max(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """The largest along axes; NaN if one is."""
    return _reduce("max", x, axis, keepdims)


def min(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """The smallest along axes; NaN if one is."""
    return _reduce("min", x, axis, keepdims)


def any(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """True where one along axes is true."""
    return _reduce("any", x, axis, keepdims)


def all(x: Value, axis: Axes = None, *, keepdims: bool = False) -> Value:
    """True where all along axes are true."""
    return _reduce("all", x, axis, keepdims)


def _view(x: Value, shape: Sequence[int], sources: Sequence[tuple[int | None, int, int]]) -> Value:
    return Value("view", x.dtype, tuple(shape), (x,), tuple(sources))


def transpose(x: Value, perm: Sequence[int]) -> Value:
    """The axes in another order: axis i of the result is axis `perm[i]` of x."""
    places = {source: target for target, source in enumerate(perm)}
    return _view(x, [x.shape[axis] for axis in perm], [(places[axis], 1, 0) for axis in range(x.rank)])


def expand_dims(x: Value, axis: int | Sequence[int]) -> Value:
    """New axes of size 1 at the given places of the result."""
    added = [axis] if isinstance(axis, int) else list(axis)
    rank = x.rank + len(added)
    places = {item % rank for item in added}
    own = [place for place in range(rank) if place not in places]
    sizes = iter(x.shape)
    return _view(x, [1 if place in places else next(sizes) for place in range(rank)], [(place, 1, 0) for place in own])


def squeeze(x: Value, axes: Sequence[int]) -> Value:
    """Without the given axes, which have size 1."""
    left = [axis for axis in range(x.rank) if axis not in axes]
    places = {axis: place for place, axis in enumerate(left)}
    return _view(x, [x.shape[axis] for axis in left], [(places.get(axis), 1, 0) for axis in range(x.rank)])


def broadcast_to(x: Value, shape: Sequence[int]) -> Value:
    """X repeated to a shape, as NumPy broadcasts."""
    lead = len(shape) - x.rank
    return _view(
        x,
        shape,
        [(None if size == 1 else axis + lead, 1, 0) for axis, size in enumerate(x.shape)],
    )


def strided(x: Value, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
    """A regular part of x; steps may be negative."""
    return _view(x, sizes, [(axis, steps[axis], starts[axis]) for axis in range(x.rank)])


def assemble(
    shape: Sequence[int], pieces: Sequence[tuple[Value, Sequence[int], Sequence[int]]], fill: Scalar | None
) -> Value:
    """A value made of pieces, each written to its place; only as a whole output of a rule.

    Args:
      shape: of the whole.
      pieces: value, first position along each axis, step along each axis; they do not overlap.
      fill: what stands where no piece is; None where they cover everything.
    """
    places = tuple(Piece(tuple(shape), tuple(starts), tuple(steps)) for _, starts, steps in pieces)
    values = tuple(value for value, _, _ in pieces)
    return Value("assemble", values[0].dtype, tuple(shape), values, (places, fill))
