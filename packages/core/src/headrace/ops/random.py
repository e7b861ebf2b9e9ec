"""Random numbers from operations that have a stream of their own (`hr.random`).

Each of these operations has its own stream in each session. Its place in the space of all streams is set by two
numbers, the graph's seed and the operation's (`operation_seeds`); every execution takes the next stretch of the stream.
So a program with seeds gives the same numbers each time it is run, and two executions give different ones.

    graph seed   operation seed   numbers
    none         none             fresh in every session
    given        none             repeatable; the operations are told apart by the order in which they are created
    none         given            repeatable, whatever else is in the graph
    given        given            repeatable

Where several steps run at once, each takes whole stretches, in the order in which they get there.
"""

from __future__ import annotations

import threading
import weakref

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.graph import Graph
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.scopes import current_graph
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
from headrace.ops.stateless_random import (
    stateless_categorical,
    stateless_normal,
    stateless_randint,
    stateless_truncated_normal,
    stateless_uniform,
)
from headrace.types import DTypeLike, Shape, as_dtype, float16, float32, float64, int32, int64

__all__ = [
    "categorical",
    "dropout_mask",
    "gamma",
    "normal",
    "operation_seeds",
    "poisson",
    "randint",
    "shuffle",
    "stateless_categorical",
    "stateless_normal",
    "stateless_randint",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
]

DEFAULT_GRAPH_SEED = 87654321
"""Stands for the graph's seed where only the operation has one (TensorFlow's number, so that its numbers come out)."""

_SEED_MODULUS = 2**31 - 1
_SEEDS = {"seed": attr.int(0), "seed2": attr.int(0)}
_INDEX = attr.type(int32, int64)


@register_op(
    "RandomUniform",
    inputs={"shape": "T"},
    outputs={"output": "dtype"},
    attrs={**_SEEDS, "dtype": attr.floating, "T": _INDEX},
    stateful=True,
)
def _random_uniform_shape(op: InferenceContext) -> list[Shape]:
    """Uniform numbers in [0, 1) in a tensor of the given shape, the next ones of the operation's stream."""
    return wanted_shape(op)


@register_op(
    "_NextRandom",
    outputs={"key": "uint64", "counter": "uint64"},
    attrs={**_SEEDS, "count": attr.int()},
    stateful=True,
)
def _next_random_shape(op: InferenceContext) -> list[Shape]:
    """Key `[1]` and counter `[2]` of the next `count` numbers of a stream, which moves on; passes add it."""
    return [Shape([1]), Shape([2])]


@register_op(
    "RandomStandardNormal",
    inputs={"shape": "T"},
    outputs={"output": "dtype"},
    attrs={**_SEEDS, "dtype": attr.floating, "T": _INDEX},
    stateful=True,
)
def _random_standard_normal_shape(op: InferenceContext) -> list[Shape]:
    """Normal numbers of mean 0 and standard deviation 1, the next ones of the operation's stream."""
    return wanted_shape(op)


@register_op(
    "TruncatedNormal",
    inputs={"shape": "T"},
    outputs={"output": "dtype"},
    attrs={**_SEEDS, "dtype": attr.floating, "T": _INDEX},
    stateful=True,
)
def _truncated_normal_shape(op: InferenceContext) -> list[Shape]:
    """Standard normal numbers of which those beyond two standard deviations are drawn again."""
    return wanted_shape(op)


@register_op(
    "RandomUniformInt",
    inputs={"shape": "T", "minval": "Tout", "maxval": "Tout"},
    outputs={"output": "Tout"},
    attrs={**_SEEDS, "Tout": _INDEX, "T": _INDEX},
    stateful=True,
)
def _random_uniform_int_shape(op: InferenceContext) -> list[Shape]:
    """Integers in [minval, maxval), two scalars, as a remainder of random bits: slightly biased to small ones."""
    check_input(op, 1, "minval", SCALAR)
    check_input(op, 2, "maxval", SCALAR)
    return wanted_shape(op)


@register_op("RandomShuffle", inputs={"value": "T"}, outputs={"output": "T"}, attrs=dict(_SEEDS), stateful=True)
def _random_shuffle_shape(op: InferenceContext) -> list[Shape]:
    """The slices of `value` along its first axis in random order; a scalar unchanged."""
    return [op.inputs[0].shape]


@register_op(
    "Multinomial",
    inputs={"logits": "T", "num_samples": "int32"},
    outputs={"output": "output_dtype"},
    attrs={**_SEEDS, "T": attr.ordered, "output_dtype": attr.type(int32, int64, default=int64)},
    stateful=True,
)
def _multinomial_shape(op: InferenceContext) -> list[Shape]:
    """Class indices `[batch, num_samples]`, drawn by softmax(logits) from each row of logits `[batch, classes]`."""
    return drawn_shape(op)


_unseeded: weakref.WeakKeyDictionary[Graph, int] = weakref.WeakKeyDictionary()
_unseeded_lock = threading.Lock()


def operation_seeds(seed: int | None, graph: Graph | None = None) -> tuple[int, int]:
    """Combine an operation's seed with its graph's into the two seed attributes of a random operation.

    Call it once per operation: where the graph has a seed and the operation none, the operation's is the number of such
    calls before it in that graph, so that operations differ and adding other operations changes nothing.

    Args:
      seed: the operation's seed, any integer, or None.
      graph: the graph of the operation, or None for the one being built.
    Returns:
      The attributes `seed` and `seed2`, each in [0, 2**31 - 1]; (0, 0), which asks for fresh numbers in each session,
      only where neither seed is given.
    Source: TensorFlow ``tensorflow/python/framework/random_seed.py``, so that equal seeds give equal numbers.

    Example:
      >>> operation_seeds(7, Graph()), operation_seeds(7, Graph(seed=1)), operation_seeds(None, Graph())
      ((87654321, 7), (1, 7), (0, 0))
    """
    graph = (graph or current_graph()).root  # counted once for all functions, or two of them would draw the same
    if graph.seed is None:
        return (0, 0) if seed is None else (DEFAULT_GRAPH_SEED, _truncated(seed))
    if seed is None:
        with _unseeded_lock:
            seed = _unseeded.get(graph, 0)
            _unseeded[graph] = seed + 1
    pair = _truncated(graph.seed), _truncated(seed)
    return (0, _SEED_MODULUS) if pair == (0, 0) else pair


def _truncated(seed: int) -> int:
    try:
        return seed.__index__() % _SEED_MODULUS
    except AttributeError:
        raise InvalidArgumentError(
            "a seed must be an integer",
            expected="int or None",
            got=repr(seed),
            hint="int(seed) if it is whole; hr.random.stateless_uniform takes tensors as seeds",
        ) from None


def uniform(
    shape: TensorLike,
    minval: TensorLike = 0.0,
    maxval: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniform random numbers in [minval, maxval).

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      minval: of `dtype`, a scalar or broadcast against `shape`; the lower bound, included.
      maxval: likewise; the upper bound, excluded but for rounding.
      dtype: float16, bfloat16, float32 or float64; `randint` draws integers.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`, new numbers at each execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
      ShapeError: a negative size.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.random.uniform([2, 3], -1, 1, seed=7)
      >>> x.shape
      Shape([2, 3])
    """
    own_name = name if is_unit_interval(minval, maxval) else None
    return between(_draw("RandomUniform", shape, dtype, "uniform", seed, own_name), minval, maxval, name)


def normal(
    shape: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed random numbers.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      mean: of `dtype`, a scalar or broadcast against `shape`.
      stddev: likewise; the standard deviation.
      dtype: float16, bfloat16, float32 or float64.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`, new numbers at each execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
      ShapeError: a negative size.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     w = hr.random.normal([784, 10], stddev=0.05, seed=1)
      >>> w.shape
      Shape([784, 10])
    """
    own_name = name if is_standard(mean, stddev) else None
    return scaled(_draw("RandomStandardNormal", shape, dtype, "normal", seed, own_name), mean, stddev, name)


def truncated_normal(
    shape: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = float32,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed random numbers, those beyond two standard deviations of the mean drawn again.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      mean: of `dtype`, a scalar or broadcast against `shape`.
      stddev: likewise; the standard deviation before truncation (after it is 0.880 times that).
      dtype: float16, bfloat16, float32 or float64.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`, new numbers at each execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
      ShapeError: a negative size.
    """
    own_name = name if is_standard(mean, stddev) else None
    return scaled(_draw("TruncatedNormal", shape, dtype, "truncated_normal", seed, own_name), mean, stddev, name)


def randint(
    shape: TensorLike,
    minval: TensorLike,
    maxval: TensorLike,
    dtype: DTypeLike = int32,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Random integers in [minval, maxval).

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      minval: scalar of `dtype`; the lower bound, included.
      maxval: scalar of `dtype`; the upper bound, excluded.
      dtype: int32 or int64.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor of `shape` and `dtype`, new numbers at each execution. Small numbers are more likely than large ones by up
      to (maxval - minval) / 2**32 (int32) or / 2**64 (int64).
    Raises:
      AttrError: `dtype` is neither int32 nor int64.
      InvalidArgumentError: minval >= maxval, when it is run.
    """
    wanted = as_dtype(dtype)
    first, second = operation_seeds(seed)
    drawn: Tensor = apply_op(
        "RandomUniformInt", sizes(shape), minval, maxval, Tout=wanted, seed=first, seed2=second, name=name
    )
    return drawn


def shuffle(value: TensorLike, *, seed: int | None = None, name: str | None = None) -> Tensor:
    """The slices of a tensor along its first axis in random order.

    Args:
      value: any dtype `[n, ...]`, or a scalar, which stays as it is.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor of the same dtype and shape. It has no gradient; `hr.gather(value, hr.random.shuffle(hr.range(n)))` has.
    """
    first, second = operation_seeds(seed)
    shuffled: Tensor = apply_op("RandomShuffle", value, seed=first, seed2=second, name=name)
    return shuffled


@register_op(
    "RandomGamma",
    inputs={"shape": "S", "alpha": "T"},
    outputs={"output": "T"},
    attrs={"seed": attr.int(0), "seed2": attr.int(0), "S": attr.index_type, "T": attr.type(float16, float32, float64)},
    stateful=True,
)
def _random_gamma_shape(op: InferenceContext) -> list[Shape]:
    """Gamma-distributed numbers of scale 1: `shape` of them for each element of alpha, the distribution's shape."""
    return [wanted_shape(op)[0] + op.inputs[1].shape]


_RATES = (float16, float32, float64, int32, int64)


@register_op(
    "RandomPoissonV2",
    inputs={"shape": "S", "rate": "R"},
    outputs={"output": "dtype"},
    attrs={
        "seed": attr.int(0),
        "seed2": attr.int(0),
        "S": attr.index_type,
        "R": AttrSpec("type", default=float64, allowed=_RATES),
        "dtype": AttrSpec("type", default=int64, allowed=_RATES),
    },
    stateful=True,
)
def _random_poisson_shape(op: InferenceContext) -> list[Shape]:
    """Poisson-distributed numbers: `shape` of them for each element of the rate, which is their mean."""
    return [wanted_shape(op)[0] + op.inputs[1].shape]


def gamma(
    shape: TensorLike, alpha: TensorLike, beta: TensorLike = 1.0, *, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Gamma-distributed random numbers; their gradient by alpha and beta is that of the number at its probability.

    Args:
      shape: int32 or int64 `[rank]`, how many for each element of alpha.
      alpha: float16, float32 or float64, the shapes of the distribution, above 0.
      beta: the same dtype, broadcasts with alpha: the inverse scale.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      `[shape..., alpha...]` of alpha's dtype.
    Source: M. Figurnov et al., *Implicit reparameterization gradients*, NeurIPS 2018, for the gradient.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.random.gamma([1000], [1.0, 9.0], seed=1)
      >>> print(hr.Session(graph).run(x).mean(0).round())
      [1. 9.]
    """
    first, second = operation_seeds(seed)
    tensor = convert_to_tensor(alpha)
    drawn = apply_op("RandomGamma", sizes(shape), tensor, seed=first, seed2=second)
    result: Tensor = apply_op("RealDiv", drawn, convert_to_tensor(beta, tensor.dtype), name=name)
    return result


def poisson(
    shape: TensorLike, rate: TensorLike, dtype: DTypeLike = int64, *, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Poisson-distributed random numbers.

    Args:
      shape: int32 or int64 `[rank]`, how many for each element of the rate.
      rate: floating or integer, the means, at least 0.
      dtype: of the result: float16, float32, float64, int32 or int64.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      `[shape..., rate...]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.random.poisson([1000], [0.0, 3.0, 50.0], seed=1)
      >>> print(hr.Session(graph).run(x).mean(0).round())
      [ 0.  3. 50.]
    """
    first, second = operation_seeds(seed)
    result: Tensor = apply_op(
        "RandomPoissonV2", sizes(shape), rate, dtype=as_dtype(dtype), seed=first, seed2=second, name=name
    )
    return result


def categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    dtype: DTypeLike = int64,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Class indices drawn with probability softmax(logits).

    Args:
      logits: floating `[batch, classes]`; a class whose logit is not finite is never drawn.
      num_samples: int32 scalar, draws per row.
      dtype: int32 or int64.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      Tensor `[batch, num_samples]` of `dtype`, values in [0, classes), new ones at each execution.
    Raises:
      ShapeError: the logits are not a matrix.
    """
    first, second = operation_seeds(seed)
    drawn: Tensor = apply_op(
        "Multinomial",
        logits,
        num_samples,
        output_dtype=as_dtype(dtype),
        seed=first,
        seed2=second,
        name=name,
    )
    return drawn


def dropout_mask(
    shape: TensorLike,
    rate: TensorLike,
    dtype: DTypeLike = float32,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Which elements to keep when each is dropped with probability `rate`.

    Args:
      shape: int32 or int64 `[rank]`, the shape of the result.
      rate: scalar of `dtype` in [0, 1], or broadcast against `shape`.
      dtype: the floating type in which the chances are drawn: float16 rounds them to 1/1024, bfloat16 to 1/128.
      seed: the operation's seed (see the head of this module).
      name: the operation's name.
    Returns:
      bool Tensor of `shape`, True where an element is kept, new at each execution.
    Raises:
      DTypeError: `dtype` is not a floating type.
    """
    kept: Tensor = apply_op(
        "GreaterEqual", _draw("RandomUniform", shape, dtype, "dropout_mask", seed, None), rate, name=name
    )
    return kept


def _draw(
    op_type: str, shape: TensorLike, dtype: DTypeLike, function: str, seed: int | None, name: str | None
) -> Tensor:
    wanted = floating_type(dtype, function)
    first, second = operation_seeds(seed)
    drawn: Tensor = apply_op(op_type, sizes(shape), dtype=wanted, seed=first, seed2=second, name=name)
    return drawn
