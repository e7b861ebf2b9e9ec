"""Products that read views and write views: the same numbers as without, and what lies between is not written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_out import needs_avx512

import headrace as hr
from headrace.interfaces import Functions
from headrace.passes import optimize, prune
from headrace.plan import Program
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import onednn, products
from headrace_cpu.primitives.choice import primitive_call
from headrace_cpu.scheduling.absorbing import Absorbed, Call
from headrace_cpu.scheduling.lists import ListUse
from headrace_cpu.scheduling.placing import place
from headrace_cpu.scheduling.requests import Requests
from headrace_cpu.scheduling.schedule import Schedule
from headrace_cpu.scheduling.scheduler import schedule

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
needs_bfloat16 = pytest.mark.skipif(not host().multiplies_bfloat16, reason="no instructions for bfloat16")

Build = Callable[..., Any]
Array = Any

MOVES = {"ConcatV2", "Pack", "Slice", "Split", "StridedSlice", "Transpose", "Unpack"}


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def graph_of(build: Build, arrays: Sequence[Array]) -> tuple[hr.Graph, list[hr.Tensor], list[hr.Tensor]]:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.float32, array.shape) for array in arrays]
        made = build(*inputs)
    return graph, inputs, made if isinstance(made, list) else [made]


def scheduled(build: Build, *arrays: Array, options: hr.Config | None = None) -> Schedule:
    graph, inputs, outputs = graph_of(build, arrays)
    bounded = optimize(prune(graph, outputs, [], inputs), options or hr.config())
    functions: Functions = None  # type: ignore[assignment]  # no operation here calls one
    with hr.Session(graph) as session:
        program = Program.of(bounded, session.resources, functions)
    return schedule(program, primitive_call, lambda line: None, ListUse())


def written(build: Build, *arrays: Array, options: hr.Config | None = None) -> list[str]:
    """The types of the lines that only move elements and run as such."""
    made = scheduled(build, *arrays, options=options)
    types = [made.program.lines[line].op.type for item, line in enumerate(made.lines) if item not in made.library]
    return [op_type for op_type in types if op_type in MOVES]


def placed(made: Schedule) -> list[Call]:
    """The calls that read or write views."""
    found = Absorbed()
    place(made.program, found, primitive_call, Requests(made.program))
    return list(found.calls.values())


def compared(build: Build, *arrays: Array, options: Any = None, tolerance: float = 5e-6, repeat: int = 2) -> None:
    graph, inputs, outputs = graph_of(build, arrays)
    found = []
    for backend in ("cpu", "numpy"):
        with hr.config(backend=backend):
            chosen = hr.config() if options is None else options()
        with hr.Session(graph, config=chosen) as session:
            step = session.make_callable(outputs, inputs)
            for _ in range(repeat):
                values = step(*arrays)
        found.append(values)
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * float(np.abs(theirs).max(initial=1)))


def attention(batch: int, heads: int) -> Build:
    """Self-attention of `[batch * length, 3 * width]`."""

    def build(qkv: hr.Tensor) -> hr.Tensor:
        rows, width = qkv.shape.as_tuple()
        shape = [batch, rows // batch, heads, width // 3 // heads]
        q, k, v = (hr.permute_dims(hr.reshape(x, shape), (0, 2, 1, 3)) for x in hr.split(qkv, 3, axis=1))
        weights = hr.nn.softmax(hr.matmul(q, k, transpose_b=True) * 0.25)
        return hr.reshape(hr.permute_dims(weights @ v, (0, 2, 1, 3)), [rows, width // 3])

    return build


def with_gradient(build: Build) -> Build:
    def both(*inputs: hr.Tensor) -> list[hr.Tensor]:
        y = build(*inputs)
        return [y, *hr.gradients(hr.sum(hr.square(y)), list(inputs))]

    return both


def projected(build: Build, width: int) -> Build:
    """Of a product of the input, so that what is read in place is a value of the step."""
    weights = normal(width, 3 * width) * width**-0.5
    return lambda x: build(x @ hr.constant(weights))


def test_attention_copies_nothing() -> None:
    build = with_gradient(projected(attention(8, 4), 256))
    assert written(build, normal(1024, 256)) == []
    compared(build, normal(1024, 256), tolerance=2e-5)


@pytest.mark.parametrize(
    ("batch", "length", "heads", "depth"), [(2, 16, 4, 8), (1, 7, 3, 5), (3, 1, 2, 4), (2, 5, 1, 1)]
)
def test_attention_of_any_size_is_right(batch: int, length: int, heads: int, depth: int) -> None:
    build = with_gradient(projected(attention(batch, heads), heads * depth))
    compared(build, normal(batch * length, heads * depth), tolerance=2e-5)


@pytest.mark.skipif(host().lanes < 16, reason="elsewhere oneDNN may have one implementation for all strides")
def test_where_a_gap_makes_products_slow_only_transposes_go() -> None:
    build = with_gradient(projected(attention(2, 4), 32))
    assert written(build, normal(32, 32)) == ["Split", "ConcatV2"]


@needs_bfloat16
def test_attention_in_bfloat16() -> None:
    build = with_gradient(projected(attention(8, 4), 256))
    assert "Transpose" not in written(build, normal(1024, 256), options=hr.mixed_precision())
    compared(build, normal(1024, 256), options=hr.mixed_precision, tolerance=4e-2)


def test_a_matrix_that_is_transposed_before_and_after() -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> hr.Tensor:
        return hr.permute_dims(hr.permute_dims(x, (1, 0)), (1, 0)) @ hr.permute_dims(w, (1, 0))

    assert written(build, normal(40, 24), normal(32, 24)) == []
    compared(build, normal(40, 24), normal(32, 24))


def test_einsum_of_heads() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
        return hr.einsum("bthd,bshd->bhts", x, y)

    arrays = normal(2, 24, 4, 16), normal(2, 24, 4, 16)
    assert written(build, *arrays) == []
    compared(build, *arrays)


def test_what_something_else_reads_is_written() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        turned = hr.permute_dims(x, (0, 2, 1, 3))
        made = hr.permute_dims(turned @ y, (0, 2, 1, 3))
        return [made, hr.exp(turned), made + 1.0]

    arrays = normal(2, 24, 4, 16), normal(2, 4, 16, 24)
    assert written(build, *arrays) == ["Transpose"]  # the other one goes: its readers find it in memory
    compared(build, *arrays)


def test_what_is_a_result_is_written() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        turned = hr.permute_dims(x, (0, 2, 1, 3))
        product = turned @ y
        return [turned, product, hr.permute_dims(product, (0, 2, 1, 3))]

    arrays = normal(2, 24, 4, 16), normal(2, 4, 16, 24)
    assert written(build, *arrays) == ["Transpose", "Transpose"]
    compared(build, *arrays)


def test_several_products_may_read_one_view() -> None:
    def build(x: hr.Tensor, y: hr.Tensor, z: hr.Tensor) -> list[hr.Tensor]:
        turned = hr.permute_dims(x, (0, 2, 1, 3))
        return [turned @ y, turned @ z]

    arrays = normal(2, 24, 4, 16), normal(2, 4, 16, 24), normal(2, 4, 16, 8)
    assert written(build, *arrays) == []
    compared(build, *arrays)


def test_another_shape_alone_is_no_reason() -> None:
    made = scheduled(lambda x, y: hr.reshape(x, [8, 6]) @ hr.reshape(y, [6, 4]), normal(4, 12), normal(24))
    assert [call.request.places for call in placed(made)] == []
    made = scheduled(lambda x, y: hr.permute_dims(x, (1, 0)) @ hr.reshape(y, [4, 6]), normal(4, 12), normal(24))
    (call,) = placed(made)
    assert [view is not None for view in call.request.places] == [True, False, False]


@needs_avx512
def test_products_with_a_packed_weight_are_left_alone() -> None:
    def build(x: hr.Tensor, w: hr.Tensor) -> list[hr.Tensor]:
        first = hr.tanh(hr.permute_dims(x, (1, 0)) @ w)
        return [hr.permute_dims(first @ w, (1, 0)), first]

    assert written(build, normal(64, 16), normal(64, 64)) == ["Transpose", "Transpose"]
    compared(build, normal(64, 16), normal(64, 64))


def test_a_small_part_does_not_keep_a_large_value() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
        return hr.tanh(x)[:, 2:4] @ y

    assert written(build, normal(24, 64), normal(2, 16)) == ["StridedSlice"]
    compared(build, normal(24, 64), normal(2, 16))


def test_backward_and_strided_slices_are_right() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        return [x[::-1] @ y, x[::2] @ y, x[:, ::-1] @ y, x[1:, :] @ y, hr.permute_dims(x, (1, 0))[::2] @ x]

    compared(build, normal(24, 16), normal(16, 8))


@pytest.mark.parametrize("width", [16, 17])
def test_each_second_column_is_right_also_where_the_last_one_reaches_into_the_next_row(width: int) -> None:
    """oneDNN counts 2 elements for each of 9 columns, which are more than a row of 17 has."""

    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        even = x[:, ::2]
        return [even @ y, hr.matmul(even, even, transpose_b=True), hr.permute_dims(x, (1, 0))[::2] @ x]

    compared(build, normal(24, width), normal((width + 1) // 2, 8))


def test_empty_products_are_right() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
        return [hr.permute_dims(x, (1, 0)) @ y, hr.permute_dims(hr.permute_dims(x, (1, 0)) @ y, (1, 0))]

    compared(build, normal(0, 4), normal(0, 3))
    compared(build, normal(4, 0), normal(4, 3))


def test_a_variable_is_read_as_it_was() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [8, 8])
        w = hr.Variable(np.eye(8, dtype=np.float32))
        before = w.value
        turned = hr.permute_dims(before, (1, 0))
        with hr.control_dependencies([before]):
            changed = w.assign_add(np.ones([8, 8], np.float32))
        assert changed is not None
        with hr.control_dependencies([changed]):
            y = hr.matmul(x, turned)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        for number in range(3):
            np.testing.assert_array_equal(session.run(y, feeds={x: np.eye(8)}), np.eye(8) + number)


@pytest.mark.parametrize("axis", [1, 3])
def test_parts_that_are_joined_are_written_where_they_go(axis: int) -> None:
    def build(x: hr.Tensor, y: hr.Tensor, z: hr.Tensor) -> hr.Tensor:
        parts = [hr.permute_dims(left @ right, (0, 2, 1, 3)) for left, right in ((x, y), (y, z), (z, x))]
        return hr.tanh(hr.concat(parts, axis))

    arrays = [normal(4, 2, 128, 128) * scale for scale in (0.1, 0.2, 0.3)]
    assert written(build, *arrays) == []
    compared(build, *arrays)


def test_parts_that_are_stacked_beside_what_is_no_product_are_written() -> None:
    def build(x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
        return hr.stack([x @ y, x + y], 0)

    assert "Pack" in written(build, normal(128, 128), normal(128, 128))
    compared(build, normal(128, 128), normal(128, 128))


KERNELS = [normal(3, 3, 16, 16), normal(1, 1, 16, 16) * 2]


@pytest.mark.parametrize("biased", [False, True])
def test_convolutions_read_and_write_some_images_of_a_batch_in_place(biased: bool) -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        parts = []
        for half in hr.split(x, 2, axis=0):
            y = hr.nn.conv2d(half, hr.constant(KERNELS[0]))
            parts.append(hr.nn.conv2d(y, hr.constant(KERNELS[1])) + (y if biased else hr.ones([16])))
        return hr.tanh(hr.concat(parts, 0) * 0.01)

    assert written(build, normal(4, 12, 12, 16)) == []
    compared(build, normal(4, 12, 12, 16))


@pytest.mark.parametrize("axis", [1, 2])
def test_convolutions_of_parts_of_images_copy_these(axis: int) -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.concat([hr.nn.conv2d(half, hr.constant(KERNELS[0])) for half in hr.split(x, 2, axis=axis)], axis)

    assert sorted(written(build, normal(4, 12, 12, 16))) == ["ConcatV2", "Split"]
    compared(build, normal(4, 12, 12, 16))


def test_convolutions_of_one_channel_after_the_other_copy_them() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.nn.conv2d(hr.permute_dims(x, (0, 2, 3, 1)), hr.constant(KERNELS[0]))

    assert written(build, normal(4, 16, 12, 12)) == ["Transpose"]
    compared(build, normal(4, 16, 12, 12))


def test_filters_that_are_made_by_moving_are_copied() -> None:
    def build(x: hr.Tensor, kernel: hr.Tensor) -> hr.Tensor:
        return hr.nn.conv2d(x, hr.permute_dims(kernel, (2, 3, 0, 1)))

    assert written(build, normal(2, 12, 12, 16), normal(16, 16, 3, 3)) == ["Transpose"]
    compared(build, normal(2, 12, 12, 16), normal(16, 16, 3, 3))


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_VIEWS", "off")
    assert written(attention(8, 4), normal(1024, 768)) == ["Split"] + ["Transpose"] * 4


def moved(data: st.DataObject, x: hr.Tensor, *, shorten: bool) -> hr.Tensor:
    """Something that only moves elements of a value, or some of them."""
    shape = x.shape.as_tuple()
    kinds = ["transpose", "reshape", "split", "slice"]
    kind = data.draw(st.sampled_from(kinds if shorten else kinds[:2]))
    if kind == "transpose":
        return hr.permute_dims(x, data.draw(st.permutations(range(len(shape)))))
    axis = data.draw(st.integers(0, len(shape) - 1))
    if kind == "reshape":
        size = data.draw(st.sampled_from([item for item in range(1, shape[axis] + 1) if shape[axis] % item == 0]))
        split = [*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]]
        joined = data.draw(st.integers(0, len(split) - 2))
        return hr.reshape(x, [*split[:joined], split[joined] * split[joined + 1], *split[joined + 2 :]])
    if kind == "split":
        count = data.draw(st.sampled_from([item for item in range(1, shape[axis] + 1) if shape[axis] % item == 0]))
        return data.draw(st.sampled_from(hr.split(x, count, axis=axis)))
    step = data.draw(st.sampled_from([-1, 1, 1, 2]))
    start = data.draw(st.integers(0, shape[axis] - 1))
    return x[(slice(None),) * axis + (slice(start, None, step),)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_moves_before_and_after_a_product_are_right(data: st.DataObject) -> None:
    arrays = [normal(*(data.draw(st.sampled_from([1, 2, 4, 6])) for _ in range(data.draw(st.integers(2, 4)))))]

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        base = x * 0.5
        factors = []
        for _ in range(2):
            value = base
            for _ in range(data.draw(st.integers(0, 3))):
                value = moved(data, value, shorten=True)
            factors.append(value)
        rows = hr.reshape(factors[0], [-1, factors[0].shape.as_tuple()[-1]])
        products = [hr.matmul(rows, rows, transpose_b=True), hr.matmul(factors[1], factors[1], transpose_a=True)]
        results = []
        for product in products:
            value = product
            for _ in range(data.draw(st.integers(0, 3))):
                value = moved(data, value, shorten=False)
            results.append(value)
        whole = hr.concat([hr.reshape(result, [1, -1]) for result in results], 1)
        return [whole, *results[: data.draw(st.integers(0, 2))]]

    graph, inputs, outputs = graph_of(build, arrays)
    found = []
    for backend in ("cpu", "numpy"):
        with pytest.MonkeyPatch.context() as patch, hr.Session(graph, config=hr.config(backend=backend)) as session:
            if data.draw(st.booleans()):  # also where it would cost more than it saves
                patch.setattr(products, "LARGE_PRODUCT", 0)
                patch.setattr(products, "FEW_MULTIPLICATIONS", 1 << 40)
            found.append(session.make_callable(outputs, inputs)(*arrays))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=5e-6, atol=5e-6 * float(np.abs(theirs).max(initial=1)))
