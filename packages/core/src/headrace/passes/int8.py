"""Products with constant matrices and filters in int8: the rewriting half of `hr.to_int8`. Pure; ranges are given.

A product x w becomes s_x s_w (q_x - z) q_w: x is rounded to qint8 with one scale s_x and a zero point z, w to qint8
with a scale for each output channel and no zero point. The products are summed exactly in int32, the bias is added
there as an integer, and one multiplication per channel gives float32 again; what follows stays, and fuses with that.

Scales have 12 significant bits, so that s_x s_w is exact in float32 and the sums need no scale of their own. The part
-z sum(q_w) does not depend on x and is added to the bias, unless images are padded: then it differs at the border.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.ops.uniform_quantized import CHANNELS_LAST
from headrace.passes.rewrite import drop_dead, rewrite
from headrace.types import Array, float32, int32, qint8, qint32

__all__ = ["Int8Product", "int8", "int8_products"]

_PRODUCTS = frozenset({
    "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Einsum", "MatMul",
})  # fmt: skip
"""Types that multiply and sum: those that int8 could make faster."""
_BITS = 12
_SMALLEST = 2.0**-60
"""Of a scale: products of two stay normal numbers."""
_WIDEST = (1 << 31) - 1
"""Of a sum in int32."""
_EXACT = 1 << 24
"""Sums up to here are exact in float32, in which libraries take off zero points."""
_BYTES = {"quantization_min_val": -128, "quantization_max_val": 127}
_SUMS = {"quantization_min_val": -(1 << 31), "quantization_max_val": (1 << 31) - 1}


@dataclass(frozen=True, slots=True)
class Int8Product:
    """One operation in int8.

    Attributes:
      name: of the operation.
      type: of the operation.
      low: the lowest number of its input that the integers stand for; others are taken for it.
      high: the highest one.
      scale: the number from one integer of the input to the next.
      zero_point: the integer of the input that stands for 0.
      weight_scales: the same as `scale` for each output channel of the weights.
    """

    name: str
    type: str
    low: float
    high: float
    scale: float
    zero_point: int
    weight_scales: tuple[float, ...]


def int8_products(graph: Graph) -> tuple[list[Operation], dict[Operation, str]]:
    """The products of a bounded graph that can be computed in int8, and for the others the reason why not."""
    fit: list[Operation] = []
    left: dict[Operation, str] = {}
    for op in graph.operations:
        if op.type in _PRODUCTS:
            reason = _obstacle(op)
            if reason is None:
                fit.append(op)
            else:
                left[op] = reason
    if has_tokens(graph):
        return [], dict.fromkeys((*fit, *left), "the graph has loops or branches of primitives")
    return fit, left


def _obstacle(op: Operation) -> str | None:
    """Why an operation stays in float, or None."""
    if op.type not in ("MatMul", "Conv2D"):
        return "only MatMul and Conv2D have int8 forms"
    if op.inputs[0].dtype is not float32:
        return f"it computes in {op.inputs[0].dtype}"
    if op.control_inputs:
        return "it waits for an effect"
    weights = constant_value(op.inputs[1]) if op.inputs[1].op.type == "Const" else None
    if weights is None:
        return "its weights are not constant"
    if op.inputs[0].op.type == "Const":
        return "its input is constant"
    if not weights.size or not np.isfinite(weights).all():
        return "its weights are not all finite numbers" if weights.size else "it has no weights"
    if op.type == "MatMul":
        return "it transposes its input" if op.attrs["transpose_a"] else None
    if op.attrs["data_format"] != "NHWC":
        return "its channels come first"
    channels = op.inputs[0].shape[3] if op.inputs[0].shape.rank == 4 else None
    return None if channels == weights.shape[2] else "its channels are grouped, or their number is not known"


@dataclass(frozen=True, slots=True)
class _Form:
    """The numbers of a product in int8.

    Attributes:
      integers: of the weights, as int64; output channels are the last axis.
      scales: of the weights, for each channel.
      scale: of the input.
      zero: the zero point of the input.
      padded: the input may be padded, so that the operation must know the zero point.
    """

    integers: Array
    scales: Array
    scale: float
    zero: int
    padded: bool

    @classmethod
    def of(cls, op: Operation, low: float, high: float) -> _Form:
        """From an operation that has no obstacle, and the range of its input."""
        weights = constant_value(op.inputs[1])
        assert weights is not None
        weights = weights.T if op.attrs.get("transpose_b") else weights
        scales, integers = _rounded_weights(weights)
        padded = op.type == "Conv2D" and _pads(op, weights.shape)
        form = cls(integers, scales, *_asymmetric(low, high), padded)
        if padded and int(np.abs(integers).sum(axis=form.summed).max()) * 256 > _EXACT:
            return cls(integers, scales, *_symmetric(low, high), padded)
        return form

    @property
    def summed(self) -> tuple[int, ...]:
        """The axes of the weights that are summed over."""
        return tuple(range(self.integers.ndim - 1))

    @property
    def sums(self) -> Array:
        """The scales of the sums: exact, or infinite."""
        with np.errstate(over="ignore"):
            return np.asarray(np.float32(self.scale) * self.scales)


@dataclass(slots=True)
class _Rewriting:
    """Mutable, used once. `biases`: the additions that the sums do; `rounded`: inputs as integers."""

    ranges: Mapping[Tensor, tuple[float, float]]
    readers: Counter[Tensor]
    reader: Mapping[Tensor, Operation]
    products: list[Int8Product] = field(default_factory=list)
    left: dict[Operation, str] = field(default_factory=dict)
    biases: set[Operation] = field(default_factory=set)
    rounded: dict[tuple[Tensor, float, int], Tensor] = field(default_factory=dict)

    def rule(self, op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
        if op in self.biases:
            return [inputs[1] if op.inputs[0].op.type == "Const" else inputs[0]]
        if op.type not in ("MatMul", "Conv2D") or op.inputs[0] not in self.ranges or _obstacle(op) is not None:
            return None
        form = _Form.of(op, *self.ranges[op.inputs[0]])
        if not np.isfinite(form.sums).all():
            self.left[op] = "its numbers are too large for scales in float32"
            return None
        added = self._added(op, form)
        if added is None:
            self.left[op] = "its sums are too long for int32"
            return None
        low, high = ((end - form.zero) * form.scale for end in (-128, 127))
        scales = tuple(map(float, form.scales))
        self.products.append(Int8Product(op.name, op.type, low, high, form.scale, form.zero, scales))
        return [_Writer(op, graph).product(self._input(op, inputs[0], form, graph), form, added)]

    def _added(self, op: Operation, form: _Form) -> Array | None:
        """What is added to the sums, the bias included where it fits; None if they do not fit int32."""
        room = _WIDEST - 255 * int(np.abs(form.integers).sum(axis=form.summed).max())
        zero = 0 if form.padded else form.zero
        added = -zero * form.integers.sum(axis=form.summed).astype(np.float64)
        addition, bias = self._bias(op)
        if bias is not None and addition is not None:
            with_bias = added + np.rint(bias / form.sums.astype(np.float64))
            if np.abs(with_bias).max() <= room:
                self.biases.add(addition)
                return np.asarray(with_bias)
        return added if np.abs(added).max() <= room else None

    def _input(self, op: Operation, x: Tensor, form: _Form, graph: Graph) -> Tensor:
        """The input as integers; several products share them."""
        key = (x, form.scale, form.zero)
        if key not in self.rounded:
            attrs = {"Tin": float32, "Tout": qint8, **_BYTES}
            writer = _Writer(op, graph)
            given = x, writer.constant(np.float32(form.scale)), writer.constant(np.int32(form.zero))
            self.rounded[key] = writer.made("UniformQuantize", given, attrs)
        return self.rounded[key]

    def _bias(self, op: Operation) -> tuple[Operation | None, Array | None]:
        """The addition of one constant for each channel to a product that nothing else reads, and the constants."""
        output = op.outputs[0]
        reader = self.reader.get(output) if self.readers[output] == 1 else None
        if reader is None or reader.type not in ("Add", "AddV2", "BiasAdd") or reader.control_inputs:
            return None, None
        other = next((tensor for tensor in reader.inputs if tensor is not output), None)
        bias = constant_value(other) if other is not None and other.op.type == "Const" else None
        channels = output.shape[-1] if output.shape.rank else None
        if bias is None or bias.shape != (channels,) or reader.attrs.get("data_format", "NHWC") != "NHWC":
            return None, None
        return (reader, bias) if np.isfinite(bias).all() else (None, None)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Makes operations in the place of another one."""

    op: Operation
    graph: Graph

    def made(self, op_type: str, inputs: Sequence[Tensor], attrs: Mapping[str, object]) -> Tensor:
        op = self.op
        return self.graph.create_op(
            op_type, inputs, attrs, name=f"{op.name}/{op_type}/", device=op.device, source=op.source
        ).outputs[0]

    def constant(self, value: Array | np.generic) -> Tensor:
        array = np.asarray(value)
        if array.dtype == np.int8:
            return self.made("Const", (), {"value": array.view(qint8.array_type), "dtype": qint8})
        return self.made("Const", (), {"value": array, "dtype": float32 if array.dtype.kind == "f" else int32})

    def product(self, x: Tensor, form: _Form, added: Array) -> Tensor:
        """The product of integers, what is added to it, and the float32 that it means."""
        axis = form.integers.ndim - 1
        zeros, sums = self.constant(np.zeros(len(form.scales), np.int32)), self.constant(form.sums)
        weights = self.constant(np.ascontiguousarray(form.integers.astype(np.int8)))
        zero = form.zero if form.padded else 0
        parameters = (
            *(self.constant(np.float32(form.scale)), self.constant(np.int32(zero))),
            *(self.constant(form.scales), zeros),
            *(sums, zeros),
        )
        attrs = {
            "Tin": qint8,
            "Tout": qint32,
            **_sided("lhs", -1, _BYTES),
            **_sided("rhs", axis, {**_BYTES, "quantization_min_val": -127}),
            **_sided("output", axis, _SUMS),
        }
        if self.op.type == "MatMul":
            total = self.made("UniformQuantizedDot", (x, weights, *parameters), attrs)
        else:
            total = self.made("UniformQuantizedConvolution", (x, weights, *parameters), {**attrs, **self._window()})
        if np.any(added):
            attrs = {
                "T": qint32,
                **_sided("lhs", axis, _SUMS),
                **_sided("rhs", 0, _SUMS),
                **_sided("output", axis, _SUMS),
            }
            value = added.astype(np.int32).view(qint32.array_type)
            bias = self.made("Const", (), {"value": value, "dtype": qint32})
            total = self.made("UniformQuantizedAdd", (total, bias, *(sums, zeros) * 3), attrs)
        attrs = {"Tin": qint32, "Tout": float32, "quantization_axis": axis, **_SUMS}
        return self.made("UniformDequantize", (total, sums, zeros), attrs)

    def _window(self) -> dict[str, object]:
        attrs = self.op.attrs
        explicit = attrs["padding"] == "EXPLICIT"
        return {
            "window_strides": attrs["strides"][1:3],
            "rhs_dilation": attrs["dilations"][1:3],
            "padding": attrs["padding"],
            "explicit_padding": attrs["explicit_paddings"][2:6] if explicit else (),
            "dimension_numbers": CHANNELS_LAST,
        }


def _sided(side: str, axis: int, bounds: Mapping[str, int]) -> dict[str, int]:
    return {f"{side}_quantization_axis": axis, **{f"{side}_{name}": value for name, value in bounds.items()}}


def _pads(op: Operation, filters: Sequence[int]) -> bool:
    """True if a convolution may see padding: one of single pixels never needs any of its own."""
    if op.attrs["padding"] == "EXPLICIT":
        return any(op.attrs["explicit_paddings"])
    return op.attrs["padding"] == "SAME" and tuple(filters[:2]) != (1, 1)


def _rounded_up(number: float) -> float:
    """The next number of few significant bits."""
    fraction, exponent = math.frexp(max(number, _SMALLEST))
    return math.ldexp(math.ceil(math.ldexp(fraction, _BITS)), exponent - _BITS)


def _asymmetric(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point for which -128 to 127 stand for a range that has 0 in it."""
    if low == high:
        return 1.0, 0
    scale = _rounded_up((high - low) / 255)
    return scale, min(max(round(-128 - low / scale), -128), 127)


def _symmetric(low: float, high: float) -> tuple[float, int]:
    return (_rounded_up(max(-low, high) / 127) if low != high else 1.0), 0


def _rounded_weights(weights: Array) -> tuple[Array, Array]:
    """Scales of the channels, the last axis, and the integers nearest to weights over these, as int64."""
    largest = np.abs(weights.astype(np.float64)).max(axis=tuple(range(weights.ndim - 1)))
    scales = np.array([_rounded_up(number / 127) if number else 1.0 for number in largest], np.float32)
    return scales, np.clip(np.rint(weights / scales.astype(np.float64)), -127, 127).astype(np.int64)


def int8(
    graph: Graph, ranges: Mapping[Tensor, tuple[float, float]]
) -> tuple[Graph, Sequence[Int8Product], Mapping[Operation, str]]:
    """Let products compute in int8.

    Args:
      graph: a bounded graph.
      ranges: for the inputs of products the lowest and the highest number, with 0 between them. Products whose input is
        not among these stay as they are.
    Returns:
      The new graph, what was done, and for products that stay in float although their input has a range the reason.
    """
    readers = Counter(tensor for op in graph.operations for tensor in op.inputs)
    reader = {tensor: op for op in graph.operations for tensor in op.inputs}
    work = _Rewriting(ranges, readers, reader)
    return drop_dead(rewrite(graph, work.rule)), work.products, work.left
