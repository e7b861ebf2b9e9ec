"""Pooling in code of our own gives what the NumPy kernels give, whatever the windows, the channels and the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import bfloat16, float32
from headrace_cpu.onednn import Request
from headrace_cpu.primitives.pooling import pooling_call

WINDOWS: list[tuple[tuple[int, ...], Any, Any, Any]] = [
    ((2, 7, 9, 5), 3, 2, "SAME"),
    ((2, 7, 9, 16), 3, 2, "VALID"),
    ((1, 6, 5, 33), 3, 1, "SAME"),
    ((3, 8, 8, 48), 2, 1, "VALID"),
    ((2, 9, 4, 3), (5, 2), (1, 3), "SAME"),
    ((2, 5, 5, 20), 7, 3, "SAME"),
    ((1, 1, 1, 17), 3, 2, "SAME"),
]


def both(build: Any, *arrays: Any, threads: int | None = None) -> tuple[list[Any], list[Any]]:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.as_dtype(array.dtype), array.shape) for array in arrays]
        outputs = build(*inputs)
    found = []
    for backend in ("cpu", "numpy"):
        with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
            step = session.make_callable(outputs, inputs)
            step(*arrays)
            found.append(step(*arrays))
    return found[0], found[1]


def is_ours(graph: hr.Graph, op_type: str) -> bool:
    return all(pooling_call(Request.of(op)) is not None for op in graph.operations if op.type == op_type)


def normal(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "size", "strides", "padding"), WINDOWS)
def test_the_largest_and_its_gradient(
    shape: tuple[int, ...], size: Any, strides: Any, padding: Any, dtype: Any
) -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.max_pool2d(x, size, strides, padding)
        weights = np.linspace(-1, 1, y.shape.num_elements or 0).astype(dtype).reshape(y.shape.as_tuple())
        (dx,) = hr.gradients(y, [x], grad_ys=[hr.constant(weights)])
        assert is_ours(y.graph, "MaxPool") == (padding == "SAME")
        assert is_ours(y.graph, "MaxPoolGrad")
        return [y, dx]

    coarse = np.round(normal(shape) * 2).astype(dtype)  # many equal elements: the first of them counts
    for images in (normal(shape, dtype), coarse):
        (y, dx), (wanted, gradient) = both(build, images)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_allclose(dx, gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("shape", "size", "strides", "padding"), WINDOWS)
def test_the_mean_and_its_gradient(shape: tuple[int, ...], size: Any, strides: Any, padding: Any) -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.avg_pool2d(x, size, strides, padding)
        weights = np.linspace(-1, 1, y.shape.num_elements or 0).astype(np.float32).reshape(y.shape.as_tuple())
        (dx,) = hr.gradients(y, [x], grad_ys=[hr.constant(weights)])
        assert is_ours(y.graph, "AvgPoolGrad")
        return [y, dx]

    ours, theirs = both(build, normal(shape))
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def test_explicit_padding() -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.max_pool2d(x, 3, 2, [[1, 1], [0, 2]])
        return [y, *hr.gradients(hr.square(y), [x])]

    ours, theirs = both(build, normal((2, 8, 9, 18)))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6, atol=1e-6)


def test_nan_and_infinity_are_passed_on() -> None:
    x = normal((1, 5, 5, 17))
    x[0, 1, 1, :3], x[0, 2, 2, 4], x[0, 0, 0, 5] = np.nan, np.inf, -np.inf
    x[0, :, :, 6] = -np.inf

    def build(t: hr.Tensor) -> list[hr.Tensor]:
        y, z = hr.nn.max_pool2d(t, 3, 2, "SAME"), hr.nn.avg_pool2d(t, 3, 2, "SAME")
        return [y, z, *hr.gradients([y], [t])]

    ours, theirs = both(build, x)
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y, z = hr.nn.max_pool2d(x, 3, 2, "SAME"), hr.nn.avg_pool2d(x, 3, 1, "SAME")
        return [y, z, *hr.gradients([hr.square(y), hr.square(z)], [x])]

    x = normal((5, 40, 40, 37))
    one, two = (both(build, x, threads=threads)[0] for threads in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


def test_what_is_kept_narrow_is_pooled_narrow() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(float32, [2, 7, 7, 20])
        y = hr.nn.max_pool2d(x, 3, 2, "SAME")
        hr.gradients(y, [x])
    forward = next(op for op in graph.operations if op.type == "MaxPool")
    backward = next(op for op in graph.operations if op.type == "MaxPoolGrad")
    assert pooling_call(Request(forward, (bfloat16, bfloat16), (None,))) is not None
    assert pooling_call(Request(forward, (bfloat16, float32), (None,))) is not None
    assert pooling_call(Request(backward, (bfloat16, bfloat16, bfloat16, float32), (None,) * 3)) is not None
    assert (
        pooling_call(Request(backward, (bfloat16,) * 4, (None,) * 3)) is None
    )  # sums would be rounded again and again


def test_pooling_between_products_under_the_policy() -> None:
    w = normal((1, 1, 20, 20))
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(float32, [2, 7, 7, 20])
        y = hr.nn.conv2d(hr.nn.max_pool2d(hr.nn.conv2d(x, w), 3, 2, "SAME"), w)
        outputs = [y, *hr.gradients(hr.square(y), [x])]
    found = []
    for backend in ("cpu", "numpy"):
        with hr.config(backend=backend):
            options = hr.mixed_precision()
        with hr.Session(graph, config=options) as session:
            found.append(session.run(outputs, feeds={x: normal((2, 7, 7, 20))}))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-2 * float(np.abs(theirs).max()))


def test_other_forms_are_left_to_numpy() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(float32, [1, 4, 9, 9])
        hr.nn.max_pool2d(x, 3, 2, "SAME", "NCHW")
        hr.nn.max_pool2d(hr.astype(x, hr.int32), 3, 2, "SAME")
        hr.nn.max_pool2d(x, 9, 2, "SAME")
        hr.nn.max_pool2d(x, 2)
    assert [pooling_call(Request.of(op)) for op in graph.operations if op.type == "MaxPool"] == [None] * 4
