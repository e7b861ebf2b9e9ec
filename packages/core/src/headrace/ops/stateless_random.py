"""Random numbers that are a pure function of a seed, a vector of two integers.

Equal seeds give equal numbers: on every device, whatever the number of threads, at every execution.
"""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.draws import (
    SCALAR,
    between,
    check_input,
    drawn_shape,
    floating_type,
    is_standard,
    is_unit_interval,
    scaled,
    sizes,
    wanted_shape,
)
from headrace.types import DTypeLike, Shape, as_dtype, float32, int32, int64, uint32, uint64

__all__ = [
    "stateless_categorical",
    "stateless_normal",
    "stateless_randint",
    "stateless_truncated_normal",
    "stateless_uniform",
]

_PAIR = Shape([2])
_INDEX = attr.type(int32, int64)
_ANY_INT = attr.type(int32, int64, uint32, uint64)
_FULL_INT = attr.type(int32, int64, uint32, uint64, default=uint64)
_FLOAT = attr.type(*(attr.floating.allowed or ()), default=float32)
_SEED_TYPE = attr.type(int32, int64, default=int64)
_SHAPE_TYPE = attr.type(int32, int64, default=int32)
_STATE = {"key": "uint64", "counter": "uint64", "alg": "int32"}


@register_op(
    "StatelessRandomUniform",
    inputs={"shape": "T", "seed": "Tseed"},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "T": _SHAPE_TYPE, "Tseed": _SEED_TYPE},
)
def _stateless_random_uniform_shape(op: InferenceContext) -> list[Shape]:
    """Uniform numbers in [0, 1) that are a function of the seed, a vector of two integers."""
    check_input(op, 1, "seed", _PAIR)
    return wanted_shape(op)


@register_op(
    "StatelessRandomNormal",
    inputs={"shape": "T", "seed": "Tseed"},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "T": _SHAPE_TYPE, "Tseed": _SEED_TYPE},
)
def _stateless_random_normal_shape(op: InferenceContext) -> list[Shape]:
    """Standard normal numbers that are a function of the seed, a vector of two integers."""
    check_input(op, 1, "seed", _PAIR)
    return wanted_shape(op)


@register_op(
    "StatelessTruncatedNormal",
    inputs={"shape": "T", "seed": "Tseed"},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "T": _SHAPE_TYPE, "Tseed": _SEED_TYPE},
)
def _stateless_truncated_normal_shape(op: InferenceContext) -> list[Shape]:
    """Normal numbers within two standard deviations that are a function of the seed, a vector of two integers."""
    check_input(op, 1, "seed", _PAIR)
    return wanted_shape(op)


@register_op(
    "StatelessRandomUniformInt",
    inputs={"shape": "T", "seed": "Tseed", "minval": "dtype", "maxval": "dtype"},
    outputs={"output": "dtype"},
    attrs={"dtype": _INDEX, "T": _INDEX, "Tseed": _SEED_TYPE},
)
def _stateless_random_uniform_int_shape(op: InferenceContext) -> list[Shape]:
    """Integers in [minval, maxval) that are a function of the seed, a vector of two integers."""
    check_input(op, 1, "seed", _PAIR)
    check_input(op, 2, "minval", SCALAR)
    check_input(op, 3, "maxval", SCALAR)
    return wanted_shape(op)


@register_op(
    "StatelessRandomUniformFullInt",
    inputs={"shape": "T", "seed": "Tseed"},
    outputs={"output": "dtype"},
    attrs={
        "dtype": _FULL_INT,
        "T": _SHAPE_TYPE,
        "Tseed": attr.type(int32, int64, uint32, uint64, default=int64),
    },
)
def _stateless_random_uniform_full_int_shape(op: InferenceContext) -> list[Shape]:
    """Integers from the whole range of their dtype that are a function of the seed, a vector of two integers."""
    check_input(op, 1, "seed", _PAIR)
    return wanted_shape(op)


@register_op(
    "StatelessMultinomial",
    inputs={"logits": "T", "num_samples": "int32", "seed": "Tseed"},
    outputs={"output": "output_dtype"},
    attrs={"T": attr.ordered, "Tseed": _SEED_TYPE, "output_dtype": attr.type(int32, int64, default=int64)},
)
def _stateless_multinomial_shape(op: InferenceContext) -> list[Shape]:
    """Class indices drawn as `Multinomial` does, as a function of the seed, a vector of two integers."""
    check_input(op, 2, "seed", _PAIR)
    return drawn_shape(op)


# TensorFlow 2 writes the stateless operations in two steps: a key and a counter are made of the seed, then used.


@register_op("StatelessRandomGetAlg", outputs={"alg": "int32"}, stateful=True)
def _stateless_random_get_alg_shape(op: InferenceContext) -> list[Shape]:
    """The number of the generator in use: 1, Philox."""
    return [Shape([])]


@register_op(
    "StatelessRandomGetKeyCounter",
    inputs={"seed": "Tseed"},
    outputs={"key": "uint64", "counter": "uint64"},
    attrs={"Tseed": _SEED_TYPE},
)
def _stateless_random_get_key_counter_shape(op: InferenceContext) -> list[Shape]:
    """The generator's key `[1]` and counter `[2]` for a seed of two integers."""
    check_input(op, 0, "seed", _PAIR)
    return [Shape([1]), Shape([2])]


@register_op(
    "StatelessRandomGetKeyCounterAlg",
    inputs={"seed": "Tseed"},
    outputs={"key": "uint64", "counter": "uint64", "alg": "int32"},
    attrs={"Tseed": _SEED_TYPE},
)
def _stateless_random_get_key_counter_alg_shape(op: InferenceContext) -> list[Shape]:
    """The generator's key `[1]` and counter `[2]` for a seed of two integers, and its number."""
    check_input(op, 0, "seed", _PAIR)
    return [Shape([1]), Shape([2]), Shape([])]


def _keyed_shape(op: InferenceContext) -> list[Shape]:
    check_input(op, 1, "key", Shape([1]))
    check_input(op, 2, "counter", Shape([None]))
    check_input(op, 3, "alg", SCALAR)
    return wanted_shape(op)


@register_op(
    "StatelessRandomUniformV2",
    inputs={"shape": "Tshape", **_STATE},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "Tshape": _SHAPE_TYPE},
)
def _stateless_random_uniform_v2_shape(op: InferenceContext) -> list[Shape]:
    """Uniform numbers in [0, 1) from a key `[1]` and a counter `[2]`; alg 1 or 3 (automatic) is Philox."""
    return _keyed_shape(op)


@register_op(
    "StatelessRandomNormalV2",
    inputs={"shape": "Tshape", **_STATE},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "Tshape": _SHAPE_TYPE},
)
def _stateless_random_normal_v2_shape(op: InferenceContext) -> list[Shape]:
    """Standard normal numbers from a key `[1]` and a counter `[2]`; alg 1 or 3 (automatic) is Philox."""
    return _keyed_shape(op)


@register_op(
    "StatelessTruncatedNormalV2",
    inputs={"shape": "Tshape", **_STATE},
    outputs={"output": "dtype"},
    attrs={"dtype": _FLOAT, "Tshape": _SHAPE_TYPE},
)
def _stateless_truncated_normal_v2_shape(op: InferenceContext) -> list[Shape]:
    """Truncated normal numbers from a key `[1]` and a counter `[2]`; alg 1 or 3 (automatic) is Philox."""
    return _keyed_shape(op)


@register_op(
    "StatelessRandomUniformIntV2",
    inputs={"shape": "Tshape", **_STATE, "minval": "dtype", "maxval": "dtype"},
    outputs={"output": "dtype"},
    attrs={"dtype": _ANY_INT, "Tshape": _SHAPE_TYPE},
)
def _stateless_random_uniform_int_v2_shape(op: InferenceContext) -> list[Shape]:
    """Integers in [minval, maxval) from a key `[1]` and a counter `[2]`; alg 1 or 3 (automatic) is Philox."""
    check_input(op, 4, "minval", SCALAR)
    check_input(op, 5, "maxval", SCALAR)
    return _keyed_shape(op)


@register_op(
    "StatelessRandomUniformFullIntV2",
    inputs={"shape": "Tshape", **_STATE},
    outputs={"output": "dtype"},
    attrs={"dtype": _FULL_INT, "Tshape": _SHAPE_TYPE},
)
def _stateless_random_uniform_full_int_v2_shape(op: InferenceContext) -> list[Shape]:
    """Integers from the whole range of their dtype from a key `[1]` and a counter `[2]`; alg 1 or 3 is Philox."""
    return _keyed_shape(op)


def stateless_uniform(
    shape: TensorLike,
    seed: TensorLike,
    minval: TensorLike = 0.0,
    maxval: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    name: str | None = None,
) -> Tensor:
    """Uniform random numbers in [minval, maxval) that are a pure function of the seed.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      seed: int32 or int64 `[2]`.
      minval: of `dtype`, a scalar or broadcast against `shape`.
      maxval: likewise.
      dtype: float16, bfloat16, float32 or float64.
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`: equal seeds give equal numbers, on every device, at every execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
    """
    own_name = name if is_unit_interval(minval, maxval) else None
    drawn = _draw_stateless("StatelessRandomUniform", shape, seed, dtype, "uniform", own_name)
    return between(drawn, minval, maxval, name)


def stateless_normal(
    shape: TensorLike,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    name: str | None = None,
) -> Tensor:
    """Normally distributed random numbers that are a pure function of the seed.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      seed: int32 or int64 `[2]`.
      mean: of `dtype`, a scalar or broadcast against `shape`.
      stddev: likewise; the standard deviation.
      dtype: float16, bfloat16, float32 or float64.
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`: equal seeds give equal numbers, on every device, at every execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
    """
    own_name = name if is_standard(mean, stddev) else None
    return scaled(_draw_stateless("StatelessRandomNormal", shape, seed, dtype, "normal", own_name), mean, stddev, name)


def stateless_truncated_normal(
    shape: TensorLike,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    name: str | None = None,
) -> Tensor:
    """Normally distributed random numbers within two standard deviations, a pure function of the seed.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      seed: int32 or int64 `[2]`.
      mean: of `dtype`, a scalar or broadcast against `shape`.
      stddev: likewise; the standard deviation before truncation.
      dtype: float16, bfloat16, float32 or float64.
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`: equal seeds give equal numbers, on every device, at every execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
    """
    own_name = name if is_standard(mean, stddev) else None
    drawn = _draw_stateless("StatelessTruncatedNormal", shape, seed, dtype, "truncated_normal", own_name)
    return scaled(drawn, mean, stddev, name)


def stateless_randint(
    shape: TensorLike,
    seed: TensorLike,
    minval: TensorLike,
    maxval: TensorLike,
    dtype: DTypeLike = int32,
    *,
    name: str | None = None,
) -> Tensor:
    """Random integers in [minval, maxval) that are a pure function of the seed.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      seed: int32 or int64 `[2]`.
      minval: scalar of `dtype`; the lower bound, included.
      maxval: scalar of `dtype`; the upper bound, excluded.
      dtype: int32 or int64.
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`: equal seeds give equal numbers, on every device, at every execution.
    Raises:
      AttrError: `dtype` is neither int32 nor int64.
      InvalidArgumentError: minval >= maxval, when it is run.
    """
    drawn: Tensor = apply_op(
        "StatelessRandomUniformInt",
        sizes(shape),
        seed,
        minval,
        maxval,
        dtype=as_dtype(dtype),
        name=name,
    )
    return drawn


def stateless_categorical(
    logits: TensorLike, num_samples: TensorLike, seed: TensorLike, dtype: DTypeLike = int64, *, name: str | None = None
) -> Tensor:
    """Class indices drawn with probability softmax(logits), a pure function of the seed.

    Args:
      logits: floating `[batch, classes]`; a class whose logit is not finite is never drawn.
      num_samples: int32 scalar, draws per row.
      seed: int32 or int64 `[2]`.
      dtype: int32 or int64.
      name: the operation's name.
    Returns:
      Tensor `[batch, num_samples]` of `dtype`, values in [0, classes).
    Raises:
      ShapeError: the logits are not a matrix.
    """
    drawn: Tensor = apply_op(
        "StatelessMultinomial",
        logits,
        num_samples,
        seed,
        output_dtype=as_dtype(dtype),
        name=name,
    )
    return drawn


def _draw_stateless(
    op_type: str, shape: TensorLike, seed: TensorLike, dtype: DTypeLike, function: str, name: str | None
) -> Tensor:
    wanted = floating_type(dtype, f"stateless_{function}")
    drawn: Tensor = apply_op(op_type, sizes(shape), seed, dtype=wanted, name=name)
    return drawn
