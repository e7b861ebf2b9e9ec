"""Numerical gradients: is what a gradient rule computes the derivative of what the kernel computes?

Central differences in float64 with step 1e-6 * max(1, |x|), so rounding makes errors of about 1e-10; the two
must agree within 1e-7, or 1e-5 of the larger of the difference and the largest element of the gradient. Every element
is varied where an input has fewer than 64 of them, a random direction otherwise; then the same for the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.grad.backprop import gradients
from headrace.graph.apply import apply_op
from headrace.graph.graph import Graph
from headrace.graph.operation import Tensor
from headrace.ops.indexed_slices import IndexedSlices
from headrace.session import Session
from headrace.types import Array, as_dtype

__all__ = ["check_gradient"]

STEP = 1e-6
RELATIVE = 1e-5
ABSOLUTE = 1e-7
FULL_BELOW = 64  # elements

Build = Callable[[Sequence[Tensor]], Sequence[Tensor]]
Evaluate = Callable[[Sequence[Array]], tuple[float, Sequence[Array]]]


def check_gradient(build: Build, points: Sequence[Any], *, second_order: bool = True, seed: int = 0) -> None:
    """Raise AssertionError unless the gradients of a function agree with central differences.

    Args:
      build: adds the function to the current graph: float64 tensors in, tensors out (those of integer dtype are
        ignored).
      points: the values of its inputs; they must lie at least 1e-3 away from any kink.
      second_order: check the gradient of the gradient too.
      seed: of the random weights that make one number of all outputs.

    Example:
      >>> import headrace as hr
      >>> from headrace.testing import check_gradient
      >>> check_gradient(lambda xs: [xs[0] * xs[1]], [[1.0, 2.0], [3.0, 4.0]])
    """
    values = [np.array(point, np.float64) for point in points]
    graph = Graph()
    rng = np.random.default_rng(seed)
    with graph.as_default():
        inputs = [_placeholder(graph, value, index) for index, value in enumerate(values)]
        total = _weighted_sum([y for y in build(inputs) if y.dtype.is_differentiable], rng, graph, inputs, values)
        first = [_dense(gradient) for gradient in gradients(total, inputs)]
        known = [gradient for gradient in first if gradient is not None]
        second: Sequence[Tensor | None] = [None] * len(inputs)
        slope = None
        if second_order and known:
            slope = _weighted_sum(known, rng, graph, inputs, values)
            second = [_dense(gradient) for gradient in gradients(slope, inputs)]
    session = Session(graph)
    _compare(_evaluator(session, inputs, total, first, values), values, "gradient", rng)
    if slope is not None:
        _compare(_evaluator(session, inputs, slope, second, values), values, "second gradient", rng)


def _placeholder(graph: Graph, value: Array, index: int) -> Tensor:
    attrs = {"dtype": as_dtype(value.dtype), "shape": value.shape}
    return graph.create_op("Placeholder", (), attrs, name=f"x{index}").outputs[0]


def _dense(gradient: Tensor | IndexedSlices | None) -> Tensor | None:
    return gradient.to_dense() if isinstance(gradient, IndexedSlices) else gradient


def _weighted_sum(
    tensors: Sequence[Tensor], rng: np.random.Generator, graph: Graph, inputs: Sequence[Tensor], values: Sequence[Array]
) -> Tensor:
    """One number from several tensors, each element with a random weight, so that no error cancels."""
    shapes = Session(graph).run(list(tensors), feeds=dict(zip(inputs, values, strict=True)))
    total: Tensor | None = None
    for tensor, value in zip(tensors, shapes, strict=True):
        weights = rng.uniform(0.5, 1.5, value.shape)
        flat = apply_op("Reshape", apply_op("Mul", tensor, weights), [-1])
        part: Tensor = apply_op("Sum", flat, [0])
        total = part if total is None else apply_op("AddV2", total, part)
    if total is None:
        raise AssertionError("the function has no differentiable output")
    return total


def _evaluator(
    session: Session, inputs: Sequence[Tensor], total: Tensor, slopes: Sequence[Tensor | None], values: Sequence[Array]
) -> Evaluate:
    step = session.make_callable([total, [slope for slope in slopes if slope is not None]], inputs)

    def evaluate(point: Sequence[Array]) -> tuple[float, Sequence[Array]]:
        number, given = step(*point)
        known = iter(given)
        filled = [
            np.zeros_like(value) if slope is None else next(known) for slope, value in zip(slopes, values, strict=True)
        ]
        return float(number), filled

    return evaluate


def _compare(evaluate: Evaluate, values: Sequence[Array], what: str, rng: np.random.Generator) -> None:
    _, slopes = evaluate(values)
    for index, value in enumerate(values):
        if slopes[index].shape != value.shape:
            raise AssertionError(f"{what} by input {index} has shape {slopes[index].shape}, the input {value.shape}")
        for direction in _directions(value, rng):
            numeric = _central_difference(evaluate, values, index, direction)
            given = float((slopes[index] * direction).sum())
            if not abs(given - numeric) <= ABSOLUTE + RELATIVE * max(abs(numeric), _scale(slopes[index])):
                raise AssertionError(
                    f"{what} by input {index} along {direction.tolist()}: {given}, numerically {numeric}"
                )


def _scale(slope: Array) -> float:
    return float(np.abs(slope).max()) if slope.size else 0.0


def _directions(value: Array, rng: np.random.Generator) -> list[Array]:
    if value.size == 0:
        return []
    if value.size >= FULL_BELOW:
        return [rng.normal(size=value.shape)]
    return list(np.eye(value.size).reshape(value.size, *value.shape))


def _central_difference(evaluate: Evaluate, values: Sequence[Array], index: int, direction: Array) -> float:
    moved = np.abs(values[index][direction != 0])
    step = STEP * max(1.0, float(moved.max()))
    shifted = [
        evaluate([value + sign * step * direction if i == index else value for i, value in enumerate(values)])[0]
        for sign in (1.0, -1.0)
    ]
    return (shifted[0] - shifted[1]) / (2 * step)
