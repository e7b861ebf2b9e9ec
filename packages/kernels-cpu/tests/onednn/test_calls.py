"""What oneDNN computes is what the NumPy kernels compute, in float32 and from bfloat16, and it is really used."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import bfloat16, float32
from headrace_cpu.llvm.host import Host, host
from headrace_cpu.onednn import Request, capi, library_call, onednn

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
needs_bfloat16 = pytest.mark.skipif(not host().multiplies_bfloat16, reason="no instructions for bfloat16")

Array = Any
Build = Callable[..., Any]


def graph_of(build: Build, arrays: Sequence[Array]) -> tuple[hr.Graph, list[hr.Tensor], list[hr.Tensor]]:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.as_dtype(array.dtype), array.shape) for array in arrays]
        made = build(*inputs)
    return graph, inputs, list(made) if isinstance(made, (list, tuple)) else [made]


def calls(graph: hr.Graph, op_type: str) -> list[Any]:
    return [library_call(Request.of(op)) for op in graph.operations if op.type == op_type]


def test_a_constant_is_brought_into_a_layout_once() -> None:
    """Slices of a batch have the same weights: one copy of them lies in memory, and in the caches."""
    kernel = np.ones((3, 3, 64, 64), np.float32)
    images = [np.zeros((2, 14, 14, 64), np.float32) for _ in range(2)]
    graph, inputs, _ = graph_of(lambda *x: [hr.nn.conv2d(one, hr.constant(kernel)) for one in x], images)
    convolutions = [op for op in graph.operations if op.type == "Conv2D"]
    one, again = (library_call(Request.of(op, (None, kernel))) for op in convolutions)
    other = library_call(Request.of(convolutions[0], (None, kernel + 1)))
    assert one is not None
    assert again is not None
    assert other is not None
    assert len(inputs) == len(convolutions) == 2
    assert len(one.constants) == 1
    assert again.constants[0] is one.constants[0]
    assert other.constants[0] is not one.constants[0]
    assert (other.constants[0].view(np.float32) == 2).all()


def test_a_constant_that_is_read_in_two_ways_has_two_copies() -> None:
    """A square matrix and the transposed one are brought into layouts that are alike, from other ones."""
    rng = np.random.default_rng(0)
    matrix, x = rng.standard_normal((2, 96, 96)).astype(np.float32)

    def build(p: hr.Tensor) -> list[hr.Tensor]:
        c = hr.constant(matrix)
        return [hr.matmul(p, c), hr.matmul(p, c, transpose_b=True)]

    for threads in (1, 2):
        compared(build, x, threads=threads, tolerance=2e-5)


def test_copies_of_constants_end_with_what_reads_them() -> None:
    library = onednn()
    assert library is not None
    images = np.zeros((2, 14, 14, 64), np.float32)
    graph, _, _ = graph_of(lambda x: hr.nn.conv2d(x, hr.ones([3, 3, 64, 64])), [images])
    kernel = np.ones((3, 3, 64, 64), np.float32)
    call = library_call(Request.of(next(op for op in graph.operations if op.type == "Conv2D"), (None, kernel)))
    assert call is not None
    copies = [weakref.ref(array) for array in call.constants]
    assert copies
    del call
    gc.collect()
    assert all(copy() is None for copy in copies)


@needs_bfloat16
@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("channels", [1, 3, 5, 64])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (1, 2)])
def test_of_an_odd_number_of_channels_none_is_multiplied_with_one_of_the_next_pixel(
    taps: int, channels: int, strides: tuple[int, int]
) -> None:
    """Code that takes bfloat16 in pairs multiplies that one by 0, which of an infinity makes NaN in another pixel."""
    x = np.ones((1, 5, 6, channels))
    x[0, 0, 4, :], x[0, 3, 3, -1] = -np.inf, np.nan
    filters = np.ones((taps, taps, channels, 96)).astype(bfloat16.array_type)
    graph, (given,), (result,) = graph_of(
        lambda x: hr.nn.conv2d(x, hr.constant(filters), strides=strides), [x.astype(bfloat16.array_type)]
    )
    found = []
    for name in ("cpu", "numpy"):
        with hr.Session(graph, config=hr.config(backend=name)) as session:
            found.append(np.asarray(session.run(result, {given: x.astype(bfloat16.array_type)})).astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(found[1]))
    np.testing.assert_array_equal(np.isinf(found[0]), np.isinf(found[1]))


def compared(build: Build, *arrays: Array, options: Any = None, tolerance: float = 4e-6, threads: int = 2) -> None:
    """Compare all outputs with the NumPy backend, relative to the largest element of each."""
    graph, inputs, outputs = graph_of(build, arrays)
    feeds = dict(zip(inputs, arrays, strict=True))
    found = []
    for backend in ("cpu", "numpy"):
        with hr.config(backend=backend, threads=threads if backend == "cpu" else None):
            chosen = hr.config() if options is None else options()
        with hr.Session(graph, config=chosen) as session:
            step = session.make_callable(outputs, inputs)
            step(*feeds.values())
            found.append(step(*feeds.values()))
    for ours, theirs in zip(*found, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        largest = max(float(np.abs(theirs.astype(np.float64)).max(initial=0.0)), 1e-30)
        np.testing.assert_allclose(
            ours.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance * largest
        )


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 7, 9, 3), (3, 3, 3, 5), {}),
    ((2, 7, 9, 3), (3, 2, 3, 5), {"padding": "VALID"}),
    ((1, 13, 11, 16), (5, 5, 16, 32), {"strides": 2}),
    ((2, 19, 19, 3), (11, 11, 3, 8), {"strides": 4, "padding": [[2, 2], [2, 2]]}),
    ((2, 8, 8, 4), (3, 3, 4, 6), {"padding": [[0, 2], [1, 0]]}),
    ((2, 8, 8, 4), (3, 3, 4, 6), {"dilations": 2}),
    ((2, 6, 5, 8), (3, 3, 4, 6), {}),
    ((3, 8, 9, 6), (1, 1, 6, 7), {"strides": 2}),
    ((2, 10, 10, 3), (3, 3, 3, 4), {"strides": 3, "padding": "VALID"}),
]


def with_gradients(y: hr.Tensor, *sources: hr.Tensor) -> list[hr.Tensor]:
    """A result and its gradients for an uneven gradient that arrives."""
    weights = np.linspace(-1, 1, int(np.prod(y.shape.as_tuple()))).astype(np.float32).reshape(y.shape.as_tuple())
    return [y, *hr.gradients(y, list(sources), grad_ys=[hr.constant(weights)])]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("images", "filters", "options"), CONVOLUTIONS)
def test_convolutions(images: Any, filters: Any, options: Any, threads: int) -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.conv2d(x, w, **options), x, w)

    arrays = normal(*images), normal(*filters)
    compared(build, *arrays, threads=threads)
    graph = graph_of(build, arrays)[0]
    for op_type in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"):
        assert all(call is not None for call in calls(graph, op_type))


def test_convolutions_with_channels_first() -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.conv2d(x, w, strides=2, data_format="NCHW"), x, w)

    compared(build, normal(2, 5, 9, 8), normal(3, 3, 5, 6))


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("strides", [1, 2])
def test_depthwise_convolutions(multiplier: int, strides: int) -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.depthwise_conv2d(x, w, strides=strides), x, w)

    arrays = normal(2, 9, 8, 16), normal(3, 3, 16, multiplier)
    compared(build, *arrays)
    graph = graph_of(build, arrays)[0]
    names = ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
    assert all(call is not None for name in names for call in calls(graph, name))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_of_volumes(padding: str) -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.conv3d(x, w, strides=2, padding=padding), x, w)

    compared(build, normal(2, 5, 6, 7, 4), normal(3, 3, 2, 4, 6))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.1])
@pytest.mark.parametrize("shape", [(4, 5, 6, 16), (3, 7, 5, 13), (1, 1, 1, 3)])
def test_batch_normalisation(shape: tuple[int, ...], factor: float, training: bool) -> None:
    channels = shape[3]

    def build(x: hr.Tensor, scale: hr.Tensor, offset: hr.Tensor, mean: hr.Tensor, spread: hr.Tensor) -> list[hr.Tensor]:
        y, *new = hr.nn.batch_norm(x, scale, offset, mean, spread, factor=factor, training=training)
        return [*with_gradients(y, x, scale, offset), *new]

    vectors = [normal(channels), normal(channels), normal(channels), np.abs(normal(channels)) + 0.5]
    compared(build, normal(*shape) + 3.0, *vectors, tolerance=2e-5)


def test_batch_normalisation_in_training_is_native_and_gives_its_zeros() -> None:
    def build(dy: hr.Tensor, x: hr.Tensor, scale: hr.Tensor, mean: hr.Tensor, spread: hr.Tensor) -> Any:
        return hr.apply_op("FusedBatchNormGradV3", dy, x, scale, mean, spread, hr.zeros([0]))

    arrays = normal(2, 3, 4, 8), normal(3, 3, 4, 8)[:2], normal(8), normal(8), np.abs(normal(8))
    compared(build, *arrays, tolerance=2e-5)
    assert calls(graph_of(build, arrays)[0], "FusedBatchNormGradV3")[0] is not None


@pytest.mark.parametrize("version", ["", "V2"])
def test_batch_normalisation_in_earlier_forms(version: str) -> None:
    def build(x: hr.Tensor, dy: hr.Tensor, scale: hr.Tensor, offset: hr.Tensor) -> list[hr.Tensor]:
        nothing = hr.zeros([0])
        y, *rest = hr.apply_op(f"FusedBatchNorm{version}", x, scale, offset, nothing, nothing)
        return [y, *rest, *hr.apply_op(f"FusedBatchNormGrad{version}", dy, x, scale, rest[2], rest[3])]

    arrays = normal(2, 5, 4, 8), normal(3, 5, 4, 8)[:2], normal(8), normal(8)
    compared(build, *arrays, tolerance=2e-5)
    graph = graph_of(build, arrays)[0]
    for name in (f"FusedBatchNorm{version}", f"FusedBatchNormGrad{version}"):
        assert all(call is not None for call in calls(graph, name))


@needs_bfloat16
def test_batch_normalisation_between_rounded_convolutions_reads_and_gives_bfloat16() -> None:
    def build(x: hr.Tensor, k: hr.Tensor, scale: hr.Tensor, offset: hr.Tensor) -> list[hr.Tensor]:
        y, mean, _ = hr.nn.batch_norm(hr.nn.conv2d(x, k), scale, offset, scale, offset, factor=0.5)
        return [hr.nn.conv2d(y, k), mean]

    arrays = normal(2, 5, 6, 8), normal(1, 1, 8, 8), normal(8), normal(8)
    compared(build, *arrays, options=hr.mixed_precision, tolerance=2e-2)
    graph, inputs, outputs = graph_of(build, arrays)
    with hr.config(backend="cpu"):
        options = hr.mixed_precision()
    with hr.Session(graph, config=options) as session:
        found = session.optimized_graph(outputs, dict(zip(inputs, arrays, strict=True)))
        trace = hr.Trace()
        session.run(outputs, feeds=dict(zip(inputs, arrays, strict=True)), trace=trace)
    assert "FusedBatchNormV3" in {op.type for op in found.operations}
    assert not any(kernel.startswith("headrace.kernels.") for kernel in trace.steps[0].kernels)


@pytest.mark.parametrize("shape", [(2, 5, 4, 32), (1, 3, 3, 96), (2, 3, 3, 7)])
def test_normalisation_over_neighbours(shape: tuple[int, ...]) -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.local_response_normalization(x, depth_radius=2, bias=2.0, alpha=0.5, beta=0.75)
        return with_gradients(y, x)

    compared(build, normal(*shape), tolerance=1e-5)


@pytest.mark.parametrize(("images", "filters", "options"), CONVOLUTIONS[:4])
@needs_bfloat16
def test_convolutions_of_rounded_values(images: Any, filters: Any, options: Any) -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.conv2d(x, w, **options), x, w)

    compared(build, normal(*images), normal(*filters), options=hr.mixed_precision)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@needs_bfloat16
def test_products_of_rounded_values(transposed: tuple[bool, bool]) -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
        return hr.matmul(x, y, transpose_a=transposed[0], transpose_b=transposed[1])

    shapes = [(33, 17)[:: -1 if transposed[0] else 1], (17, 65)[:: -1 if transposed[1] else 1]]
    compared(build, *(normal(*shape) for shape in shapes), options=hr.mixed_precision)
    stacks = [normal(3, *shape) for shape in shapes]
    compared(build, *stacks, options=hr.mixed_precision)


@pytest.mark.parametrize(("channels", "size"), [(1, 1), (3, 1), (3, 3), (4, 3), (5, 3), (17, 3), (33, 1)])
@needs_bfloat16
def test_nan_stays_where_windows_see_it_in_bfloat16_too(channels: int, size: int) -> None:
    """Of images forward, and of the gradient that arrives by images."""
    x, dy = np.ones((1, 8, 8, channels), np.float32), np.ones((1, 8, 8, channels), np.float32)
    x[0, 4, 4, 0] = dy[0, 4, 4, 0] = np.nan

    def build(x: hr.Tensor, w: hr.Tensor, dy: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.conv2d(x, w)
        return [y, *hr.gradients(y, [x], grad_ys=[dy])]

    arrays = [x, np.ones((size, size, channels, channels), np.float32), dy]
    graph, inputs, outputs = graph_of(build, arrays)
    with hr.config(backend="cpu"):
        chosen = hr.mixed_precision()
    with hr.Session(graph, config=chosen) as session:
        for result in session.run(outputs, feeds=dict(zip(inputs, arrays, strict=True))):
            assert np.isnan(result).any(-1).sum() == size * size


@pytest.mark.parametrize(("channels", "reads_bfloat16"), [(3, False), (7, False), (8, True)])
@needs_bfloat16
def test_filters_of_few_channels_get_their_gradient_in_float32(channels: int, reads_bfloat16: bool) -> None:
    """Only where the graph widens anyway: what is bfloat16 in the graph has no other fast form."""

    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.conv2d(x, w), x, w)

    arrays = normal(2, 7, 9, channels), normal(3, 3, channels, 5)
    compared(build, *arrays, options=hr.mixed_precision)
    ops = {op.type: op for op in graph_of(build, arrays)[0].operations}

    def narrow(op_type: str) -> Any:
        op = ops[op_type]
        dtypes = (bfloat16 if tensor.dtype is float32 else tensor.dtype for tensor in op.inputs)
        return library_call(Request(op, (*dtypes, float32), (None,) * len(op.inputs)))

    assert (narrow("Conv2DBackpropFilter") is not None) is reads_bfloat16
    assert library_call(Request.of(ops["Conv2DBackpropFilter"])) is not None
    rounded = [array.astype(bfloat16.array_type) for array in arrays]
    graph, _, _ = graph_of(lambda x, w: hr.gradients(hr.sum(hr.nn.conv2d(x, w)), [w]), rounded)
    assert all(call is not None for call in calls(graph, "Conv2DBackpropFilter"))


@needs_bfloat16
def test_what_is_rounded_next_is_written_as_bfloat16() -> None:
    graph, _, _ = graph_of(lambda x, w: hr.nn.relu(x @ w), [normal(4, 8), normal(8, 8)])
    op = next(op for op in graph.operations if op.type == "MatMul")
    for result in (bfloat16, float32):
        call = library_call(Request(op, (bfloat16, bfloat16, result), (None, None)))
        assert call is not None
        assert [layout.size for _, _, layout in call.primitives[0].arguments[:3]] == [64, 128, 32 * result.size]
    assert library_call(Request(op, (bfloat16, float32, float32), (None, None))) is None


@needs_bfloat16
def test_a_network_under_the_policy_is_that_of_the_numpy_backend() -> None:
    """Rounding between products may differ where float32 sums differ, hence the tolerance of a few bfloat16 steps."""

    def build(x: hr.Tensor, k: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        h = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(x, k)), 2)
        h = hr.reshape(h, [3, 128])
        logits = hr.nn.relu(h @ w) @ hr.permute_dims(w, [1, 0])
        loss = hr.sum(hr.nn.softmax(logits) * h)
        return [loss, *hr.gradients(loss, [x, k, w])]

    compared(
        build, normal(3, 8, 8, 2), normal(3, 3, 2, 8), normal(128, 32) * 0.1, options=hr.mixed_precision, tolerance=2e-2
    )


def test_without_instructions_for_bfloat16_the_policy_multiplies_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "multiplies_bfloat16", False)

    def build(x: hr.Tensor, k: hr.Tensor) -> list[hr.Tensor]:
        y = hr.nn.relu(hr.nn.conv2d(hr.nn.conv2d(x, k), k))
        return [y, *hr.gradients(y, [x, k])]

    arrays = normal(2, 6, 5, 4), normal(3, 3, 4, 4)
    compared(build, *arrays, options=hr.mixed_precision, tolerance=2e-2)
    op = next(op for op in graph_of(build, arrays)[0].operations if op.type == "Conv2D")
    assert library_call(Request(op, (bfloat16,) * 3, (None, None))) is None
    assert library_call(Request.of(op)) is not None


@pytest.mark.parametrize("narrow", [False, True])
def test_constant_weights_are_prepared_once(narrow: bool) -> None:
    if narrow and not host().multiplies_bfloat16:
        pytest.skip("no instructions for bfloat16")
    k, w = normal(3, 3, 16, 32), normal(512, 64)

    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.reshape(hr.nn.conv2d(x, k, strides=2), [2, 512]) @ w

    compared(build, normal(2, 8, 8, 16), options=hr.mixed_precision if narrow else None)
    graph = graph_of(build, [normal(2, 8, 8, 16)])[0]
    op = next(op for op in graph.operations if op.type == "Conv2D")
    call = library_call(Request.of(op, [None, k]))
    assert call is not None
    assert len(call.primitives) == 1  # nothing is reordered in a step
    assert len(call.constants) == 1


_MADE = re.compile(
    r"dnnl_(?:(?:\w+_)?(primitive_desc|primitive|memory_desc|memory|stream|primitive_attr|post_ops))_create\w*"
)
_CLONED = "dnnl_memory_desc_clone"


class Counted:
    """The library, with how many objects there are that it has made and not destroyed."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.alive: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        made = "memory_desc" if name == _CLONED else (found := _MADE.fullmatch(name)) and found[1]
        ended = name.removeprefix("dnnl_").removesuffix("_destroy") if name.endswith("_destroy") else None

        def counted(*arguments: Any) -> Any:
            status = function(*arguments)
            if made is not None and status == 0:
                self.alive[made] += 1
            elif ended is not None:
                self.alive[ended] -= 1
            return status

        return counted if made or ended else function


def networks() -> list[tuple[Build, list[Array]]]:
    """Steps that together use whatever the library makes: chosen layouts, constants, sums, hints, what follows."""
    k, w = normal(3, 3, 16, 32), normal(512, 64)

    def convolved(x: hr.Tensor, filters: hr.Tensor) -> list[hr.Tensor]:
        return with_gradients(hr.nn.relu(hr.nn.conv2d(x, filters)), x, filters)

    def constant(x: hr.Tensor) -> hr.Tensor:
        return hr.reshape(hr.nn.conv2d(x, k, strides=2), [2, 512]) @ w + np.ones(64, np.float32)

    def normalised(x: hr.Tensor, scale: hr.Tensor) -> list[hr.Tensor]:
        y, *_ = hr.nn.batch_norm(x, scale, scale, scale, scale, factor=0.5, training=True)
        return with_gradients(hr.nn.local_response_normalization(y), x)

    return [
        (lambda a, b: a @ b @ b + a @ b, [normal(64, 64), normal(64, 64)]),
        (convolved, [normal(2, 8, 8, 16), normal(3, 3, 16, 16)]),
        (constant, [normal(2, 8, 8, 16)]),
        (normalised, [normal(2, 8, 8, 16), np.abs(normal(16)) + 0.5]),
    ]


@pytest.mark.parametrize("number", range(4))
def test_what_a_step_has_made_in_the_library_goes_with_it(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that loaded a model of two layers again and again grew by 30 kB each time: by their descriptions."""
    build, arrays = networks()[number]
    graph, inputs, outputs = graph_of(build, arrays)
    with hr.config(backend="cpu"):
        chosen = hr.config()
    gc.collect()
    library = onednn()
    assert library is not None
    counted = Counted(library.library)
    monkeypatch.setattr(library, "library", counted)
    with hr.Session(graph, config=chosen) as session:
        session.run(outputs, feeds=dict(zip(inputs, arrays, strict=True)))
        for kind in ("primitive", "memory", "stream", "memory_desc"):
            assert counted.alive[kind] > 0, kind  # the library is really used, and what it makes is counted
    gc.collect()
    assert {kind: count for kind, count in counted.alive.items() if count} == {}


@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 0, 4, 3)])
def test_what_is_empty_is_left_to_numpy(shape: tuple[int, ...]) -> None:
    graph, _, _ = graph_of(lambda x: hr.nn.local_response_normalization(x), [np.zeros(shape, np.float32)])
    assert calls(graph, "LRN") == [None]


def test_what_has_gaps_or_lies_anywhere_is_copied_first() -> None:
    graph, (x, w), (y,) = graph_of(lambda x, w: hr.nn.conv2d(x, w), [normal(2, 6, 5, 4), normal(3, 3, 4, 4)])
    wide = normal(2, 6, 5, 8)
    raw = np.zeros(3 * 3 * 4 * 4 * 4 + 1, np.uint8)
    filters = raw[1:].view(np.float32).reshape(3, 3, 4, 4)
    filters[...] = normal(3, 3, 4, 4)
    found = []
    for backend in ("cpu", "numpy"):
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            found.append(session.run(y, feeds={x: wide[..., ::2], w: filters}))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_steps_of_several_threads_work_in_memory_of_their_own() -> None:
    # the library's own memory is that of the thread that made a primitive: now and then a gradient was wrong
    random = np.random.default_rng(0)
    filters = (random.standard_normal((3, 3, 3, 8)) * 0.2).astype(np.float32)

    def build(x: hr.Tensor) -> Any:
        return hr.gradients([hr.sum(hr.square(hr.nn.conv2d(x, hr.constant(filters))))], [x])

    graph, (x,), outputs = graph_of(build, [np.zeros((3, 8, 8, 3), np.float32)])
    (call,) = calls(graph, "Conv2DBackpropInput")
    assert capi.SCRATCHPAD in {number for primitive in call.primitives for number, _, _ in primitive.arguments}
    images = [random.standard_normal((3, 8, 8, 3)).astype(np.float32) for _ in range(4)]
    wrong: list[int] = []
    with hr.Session(graph, config=hr.config(backend="cpu", threads=1)) as session:
        wanted = [session.run(outputs[0], feeds={x: image}).tobytes() for image in images]

        def run(number: int) -> None:
            for _ in range(100):
                if session.run(outputs[0], feeds={x: images[number]}).tobytes() != wanted[number]:
                    wrong.append(number)

        workers = [threading.Thread(target=run, args=(number,)) for number in range(len(images))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not wrong
