"""Activations behind pooling: the same bits for every value, and only where nobody else reads the activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array, as_dtype

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 5.5, 6.0, 7.0, -3.0]


def images(dtype: str = "float32", size: int = 9) -> Array:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 4, (3, size, size, 5))
    places = rng.random(x.shape) < 0.2
    x[places] = rng.choice(SPECIAL, int(places.sum()))
    return x.astype(as_dtype(dtype).array_type)


def types_and_results(
    x: Array, build: Callable[[hr.Tensor], Any], backend: str = "numpy"
) -> tuple[list[str], Any, Any]:
    """The types of the operations that run, with the pass and without, and both results."""
    with hr.Graph().as_default() as graph:
        given = hr.placeholder(x.dtype, x.shape)
        result = build(given)
    session = hr.Session(graph, config=hr.config(verify=True, backend=backend))
    plain = hr.Session(graph, config=hr.config(passes=(), backend=backend)).run(result, feeds={given: x})
    operations = session.optimized_graph(result, {given: x}).operations
    types = [op.type for op in operations if op.type in ("Relu", "Relu6", "MaxPool")]
    return types, session.run(result, feeds={given: x}), plain


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("activation", [hr.nn.relu, hr.nn.relu6])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("window", "strides", "padding"), [(2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "VALID")])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_swapped_with_the_same_bits(
    backend: str, activation: Any, dtype: str, window: int, strides: int, padding: str
) -> None:
    if backend == "cpu":
        pytest.importorskip("headrace_cpu")

    def build(x: hr.Tensor) -> hr.Tensor:
        pooled: hr.Tensor = hr.nn.max_pool2d(activation(x), window, strides, padding=padding)
        return pooled

    types, found, plain = types_and_results(images(dtype), build, backend)
    assert types == ["MaxPool", "Relu6" if activation is hr.nn.relu6 else "Relu"]
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(plain, np.float32))


def test_an_activation_that_is_read_elsewhere_stays_before() -> None:
    def build(x: hr.Tensor) -> Any:
        y = hr.nn.relu(x)
        return hr.nn.max_pool2d(y, 2, 2), y

    assert types_and_results(images(), build)[0] == ["Relu", "MaxPool"]


def test_what_falls_or_waits_stays_before() -> None:
    def awaited(x: hr.Tensor) -> Any:
        y = hr.nn.relu(x)
        with hr.control_dependencies([y.op]):
            return hr.nn.max_pool2d(y, 2, 2), hr.identity(x)

    x = images()
    assert types_and_results(x, awaited)[0] == ["Relu", "MaxPool"]
    assert types_and_results(x, lambda t: hr.nn.avg_pool2d(hr.nn.relu(t), 2, 2))[0] == ["Relu"]


def test_training_has_the_same_gradients() -> None:
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)

    def build(t: hr.Tensor) -> Any:
        loss = hr.sum(hr.square(hr.nn.max_pool2d(hr.nn.relu(t), 2, 2)))
        return hr.gradients(loss, [t])

    _, found, plain = types_and_results(x, build)
    np.testing.assert_array_equal(found[0], plain[0])
