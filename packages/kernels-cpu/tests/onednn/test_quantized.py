"""int8 by oneDNN: the very sums of the NumPy kernels, at the extremes too, or left to these."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.ops.uniform_quantized import CHANNELS_LAST
from headrace.types import qint8
from headrace_cpu.onednn import Request, library_call, onednn
from headrace_cpu.onednn.quantized import sums_exactly

pytestmark = pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")

Array = Any
LOW, HIGH = -(2**31), 2**31 - 1


def exact() -> bool:
    library = onednn()
    return library is not None and sums_exactly(library)


needs_bytes = pytest.mark.skipif(not exact(), reason="no instructions that multiply bytes")


def integers(values: Array) -> Array:
    return np.ascontiguousarray(np.asarray(values, np.int8)).view(qint8.array_type)


def product(
    x: hr.Tensor, weights: Array, zero: int = 0, *, op_type: str = "UniformQuantizedDot", **attrs: Any
) -> hr.Tensor:
    """A product whose sums nothing changes; attributes may say otherwise."""
    channels, axis = weights.shape[-1], weights.ndim - 1
    scales, zeros = np.full(channels, 0.5, np.float32), np.zeros(channels, np.int32)
    bytes_, sums = {"min_val": -128, "max_val": 127, "axis": -1}, {"min_val": LOW, "max_val": HIGH, "axis": axis}
    sides = {"lhs": bytes_, "rhs": {**bytes_, "axis": axis}, "output": sums}
    ranges = {f"{side}_quantization_{name}": value for side, given in sides.items() for name, value in given.items()}
    given = integers(weights), np.float32(0.25), np.int32(zero), scales, zeros, scales / 4, zeros
    return hr.apply_op(op_type, x, *given, Tout="qint32", **{**ranges, **attrs})


def convolution(x: hr.Tensor, weights: Array, zero: int = 0, **attrs: Any) -> hr.Tensor:
    given = {"padding": "SAME", "dimension_numbers": CHANNELS_LAST, **attrs}
    return product(x, weights, zero, op_type="UniformQuantizedConvolution", **given)


def sums(build: Any, x: Array, backend: str) -> tuple[Array, Any]:
    """The sums as int32, and what oneDNN does for the product."""
    with hr.Graph().as_default() as graph, hr.config(backend=backend):
        given = hr.placeholder(qint8, x.shape)
        made = build(given)
        constants = [tensor.op.attrs.get("value") for tensor in made.op.inputs]
        with hr.Session(graph) as session:
            found = session.run(made, feeds={given: integers(x)})
    return found.view(np.int32), library_call(Request.of(made.op, constants))


def compared(build: Any, x: Array) -> Any:
    """Compare with the NumPy kernel, bit for bit; gives what oneDNN did."""
    ours, call = sums(build, x, "cpu")
    theirs, _ = sums(build, x, "numpy")
    np.testing.assert_array_equal(ours, theirs)
    return call


def extremes(rows: int, columns: int, channels: int) -> tuple[Array, Array]:
    """Rows of the lowest, the highest and of mixed integers; columns of 127, of -127 and of both by turns."""
    x, w = np.full((rows, columns), 127), np.full((columns, channels), 127)
    x[0] = -128
    x[1] = np.random.default_rng(columns).integers(-128, 128, columns)
    w[:, 1::3] = -127
    w[::2, 2::3] = -127
    return x, w


@needs_bytes
@pytest.mark.parametrize(
    ("rows", "columns", "channels"), [(3, 1, 1), (5, 7, 3), (17, 64, 33), (4, 1000, 16), (3, 5000, 5)]
)
def test_products_are_exact_at_the_extremes(rows: int, columns: int, channels: int) -> None:
    x, w = extremes(rows, columns, channels)
    assert compared(lambda given: product(given, w), x) is not None


@needs_bytes
@pytest.mark.parametrize("zero", [-128, 5, 127])
def test_a_zero_point_is_taken_off_exactly_or_by_numpy(zero: int) -> None:
    """oneDNN takes it off in float32, which holds sums of 516 products of 127 for certain: 516 * 127 * 256 < 2**24."""
    for columns, by_library in ((516, True), (517, False), (5000, False)):
        x, w = extremes(4, columns, 7)
        call = compared(lambda given, w=w: product(given, w, zero), x)
        assert (call is not None) is by_library
    small = np.where(w > 0, 3, -3)
    assert compared(lambda given: product(given, small, zero), x) is not None


@needs_bytes
@pytest.mark.parametrize("zero", [0, -128, 9])
@pytest.mark.parametrize(
    ("taps", "attrs"),
    [
        (3, {}),
        (3, {"window_strides": [2, 1]}),
        (2, {"padding": "VALID", "rhs_dilation": [2, 3]}),
        (3, {"padding": "EXPLICIT", "explicit_padding": [2, 0, 1, 3]}),
        (1, {}),
    ],
)
def test_convolutions_are_exact_at_the_extremes(taps: int, attrs: dict[str, Any], zero: int) -> None:
    for depth, count in ((3, 5), (32, 17)):
        x = np.full((3, 7, 9, depth), 127)
        x[0] = -128
        x[1] = np.random.default_rng(depth).integers(-128, 128, x[1].shape)
        w = np.full((taps, taps, depth, count), 127)
        w[..., 1::3] = -127
        assert compared(lambda given, w=w: convolution(given, w, zero, **attrs), x) is not None


def grouped(groups: int, depth: int, count: int, taps: int = 3) -> tuple[Array, Array]:
    """Images of the extremes and of other integers, and filters of as many groups with so many channels each."""
    random = np.random.default_rng(groups)
    x = np.full((3, 7, 9, groups * depth), 127)
    x[0] = -128
    x[1] = random.integers(-128, 128, x[1].shape)
    w = np.full((taps, taps, depth, groups * count), 127)
    w[..., 1::3] = -127
    w[..., 2::3] = random.integers(-127, 128, w[..., 2::3].shape)
    return x, w


@needs_bytes
@pytest.mark.parametrize("zero", [0, -128, 9])
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"window_strides": [2, 1]},
        {"padding": "VALID", "rhs_dilation": [2, 3]},
        {"padding": "EXPLICIT", "explicit_padding": [2, 0, 1, 3]},
    ],
)
def test_groups_and_single_channels_are_exact_at_the_extremes(attrs: dict[str, Any], zero: int) -> None:
    for groups, depth, count in ((2, 16, 16), (3, 5, 7), (4, 4, 4), (16, 1, 1), (33, 1, 1), (5, 1, 3)):
        x, w = grouped(groups, depth, count)
        given = {**attrs, "feature_group_count": groups}
        assert compared(lambda images, w=w, given=given: convolution(images, w, zero, **given), x) is not None


@needs_bytes
def test_long_convolutions_with_a_zero_point_are_left_to_numpy() -> None:
    x, w = np.full((1, 3, 3, 58), 127), np.full((3, 3, 58, 2), 127)
    assert compared(lambda given: convolution(given, w, 1), x) is None
    assert compared(lambda given: convolution(given, w, 0), x) is not None


@needs_bytes
@pytest.mark.parametrize(
    "attrs",
    [
        {"output_quantization_max_val": 1000},
        {"rhs_quantization_axis": 3, "dimension_numbers": ""},
    ],
)
def test_forms_that_the_library_does_not_have_are_left_to_numpy(attrs: dict[str, Any]) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (2, 4, 4, 4))
    w = np.random.default_rng(2).integers(-127, 128, (2, 2, 4, 4))
    if "dimension_numbers" in attrs:
        attrs = {"rhs_quantization_axis": 0, "output_quantization_axis": 1, "dimension_numbers": ""}
        w = np.random.default_rng(2).integers(-127, 128, (4, 4, 2, 4))
    assert compared(lambda given: convolution(given, w, **attrs), x) is None


def test_scales_that_change_sums_are_left_to_numpy() -> None:
    x, w = extremes(3, 8, 4)

    def build(given: hr.Tensor) -> hr.Tensor:
        made = product(given, w)
        inputs = [*made.op.inputs[:6], hr.constant(np.full(4, 0.3, np.float32)), made.op.inputs[7]]
        return hr.apply_op(
            "UniformQuantizedDot",
            *inputs,
            **{k: made.op.attrs[k] for k in made.op.attrs if "T" not in k},
            Tout="qint32",
        )

    assert compared(build, x) is None


@needs_bytes
@pytest.mark.parametrize(("rank", "groups"), [(2, 1), (4, 1), (4, 5), (4, 40)])
def test_weights_that_come_with_the_step_are_multiplied_too(rank: int, groups: int) -> None:
    x, w = extremes(36, 40, 6)
    if groups > 1:
        x, w = grouped(groups, 40 // groups, 2)
    elif rank == 4:
        x, w = x.reshape(2, 6, 3, 40), np.stack([w, -w, w, w]).reshape(2, 2, 40, 6)
    found = []
    for backend in ("cpu", "numpy"):
        with hr.Graph().as_default() as graph, hr.config(backend=backend):
            left, right = hr.placeholder(qint8, x.shape), hr.placeholder(qint8, w.shape)
            attrs = {"feature_group_count": groups} if groups > 1 else {}
            made = (product if rank == 2 else convolution)(left, w, **attrs).op
            attrs = {name: value for name, value in made.attrs.items() if name != "Tin"}
            out = hr.apply_op(made.type, left, right, *made.inputs[2:], **attrs)
            constants = [tensor.op.attrs.get("value") for tensor in out.op.inputs]
            assert library_call(Request.of(out.op, constants)) is not None
            with hr.Session(graph) as session:
                found.append(session.run(out, feeds={left: integers(x), right: integers(w)}))
    np.testing.assert_array_equal(*found)


@needs_bytes
def test_models_are_native_as_a_whole_and_give_the_numbers_of_numpy() -> None:
    """A depthwise convolution between others, then products of stacks, after `hr.to_int8`."""
    random = np.random.default_rng(4)

    def numbers(*shape: int) -> Array:
        return random.normal(scale=0.3, size=shape).astype(np.float32)

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 12, 12, 3])
        y = hr.nn.relu6(hr.nn.conv2d(x, numbers(3, 3, 3, 8), strides=2) + numbers(8))
        y = hr.nn.relu6(hr.nn.depthwise_conv2d(y, numbers(3, 3, 8, 2), padding="SAME") + numbers(16))
        y = hr.nn.relu6(hr.nn.conv2d(y, numbers(3, 3, 4, 12), padding="SAME") + numbers(12))
        y = hr.nn.relu(hr.matmul(y, numbers(12, 10)) + numbers(10))
        y = hr.einsum("brcd,dhk->brchk", y, numbers(10, 2, 6))
    images = random.standard_normal((5, 12, 12, 3)).astype(np.float32)
    model = hr.to_int8(hr.Session(graph), y, [{x: images}])
    assert len(model.report.products) == 5
    found = []
    for backend in ("cpu", "numpy"):
        with hr.config(backend=backend), hr.Session(model.graph) as session:
            feeds = {model.inputs[x]: images}
            found.append(session.run(model.outputs, feeds=feeds))
            if backend == "cpu":
                kernels = {item.kernel for item in session.explain(model.outputs, feeds).work}
    assert kernels == {"headrace_cpu.loops", "onednn"}
    np.testing.assert_array_equal(*found)


SCRIPT = """
import numpy as np
from headrace_cpu.onednn import onednn
from headrace_cpu.onednn.quantized import sums_exactly
from test_quantized import compared, convolution, extremes, grouped, product

assert not sums_exactly(onednn())
for columns, zero, by_library in ((64, 0, True), (516, 0, True), (516, 127, True), (516, -128, True), (517, 0, False)):
    x, w = extremes(4, columns, 6)
    assert (compared(lambda given: product(given, w, zero), x) is not None) is by_library, (columns, zero)
x, w = np.full((2, 7, 5, 9), 127), np.full((3, 2, 9, 7), -127)
x[0] = -128
explicit = {"padding": "EXPLICIT", "explicit_padding": [2, 0, 1, 3]}
for zero in (0, -128, 9):
    for attrs in ({}, {"padding": "VALID", "window_strides": [2, 1]}, explicit):
        assert compared(lambda given: convolution(given, w, zero, **attrs), x) is not None
for groups, depth, count in ((2, 16, 16), (8, 4, 4), (16, 1, 1), (5, 1, 3)):
    x, w = grouped(groups, depth, count)
    for zero in (0, -128, 9):
        made = compared(lambda given: convolution(given, w, zero, feature_group_count=groups), x)
        assert made is not None, (groups, depth, count)
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="instruction sets of another machine")
def test_instructions_that_saturate_are_not_used() -> None:
    """Products of the same integers in float32 take their place where no sum can leave what that holds."""
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
