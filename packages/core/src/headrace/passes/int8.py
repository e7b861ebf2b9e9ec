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

from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.ops.uniform_quantized import CHANNELS_LAST
from headrace.passes.constant_products import ConstantProduct
from headrace.passes.rewrite import drop_dead, rewrite
from headrace.types import Array, float32, int32, qint8, qint32

__all__ = ["Int8Product", "int8"]

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


@dataclass(frozen=True, slots=True)
class _Form:
    """The numbers of a product in int8.

    Attributes:
      product: the product.
      integers: of the weights, as int64; output channels are the last axis.
      scales: of the weights, for each channel.
      scale: of the input.
      zero: the zero point of the input.
      padded: the input may be padded, so that the operation must know the zero point.
    """

    product: ConstantProduct
    integers: Array
    scales: Array
    scale: float
    zero: int
    padded: bool

    @classmethod
    def of(cls, op: Operation, product: ConstantProduct, low: float, high: float) -> _Form:
        """From an operation and the range of its input."""
        scales, integers = _rounded_weights(product.weights)
        padded = product.is_convolution and _pads(op, integers.shape)
        form = cls(product, integers, scales, *_asymmetric(low, high), padded)
        if padded and int(np.abs(integers).sum(axis=form.summed).max()) * 256 > _EXACT:
            return cls(product, integers, scales, *_symmetric(low, high), padded)
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

    fit: Mapping[Operation, ConstantProduct]
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
        if op not in self.fit:
            return None
        form = _Form.of(op, self.fit[op], *self.ranges[op.inputs[0]])
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
        addition, bias = self._bias(op, form.product)
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

    def _bias(self, op: Operation, product: ConstantProduct) -> tuple[Operation | None, Array | None]:
        """The addition of one constant for each channel to a product that nothing else reads, and the constants."""
        output = op.outputs[0]
        reader = self.reader.get(output) if self.readers[output] == 1 else None
        if reader is None or reader.type not in ("Add", "AddV2", "BiasAdd") or reader.control_inputs:
            return None, None
        other = next((tensor for tensor in reader.inputs if tensor is not output), None)
        bias = constant_value(other) if other is not None and other.op.type == "Const" else None
        if bias is None or bias.shape != product.outputs or reader.attrs.get("data_format", "NHWC") != "NHWC":
            return None, None
        return (reader, bias.reshape(-1)) if np.isfinite(bias).all() else (None, None)


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
        """The product of integers, what is added to it, and the float32 that it means.

        Sums have the shape of the result before these follow, so that loops go on to what comes next; where channels
        are on several axes, of which scales have only one, they have it after these.
        """
        zeros, sums = self.constant(np.zeros(len(form.scales), np.int32)), self.constant(form.sums)
        sizes, is_one_axis = self._sizes(x, form.product), len(form.product.outputs) == 1
        axis = form.product.rows if is_one_axis else 1
        total = self._total(x, form, sums, zeros)
        if sizes is not None and is_one_axis:
            total = self._reshaped(total, sizes)
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
        result = self.made("UniformDequantize", (total, sums, zeros), attrs)
        return result if sizes is None or is_one_axis else self._reshaped(result, sizes)

    def _total(self, x: Tensor, form: _Form, sums: Tensor, zeros: Tensor) -> Tensor:
        """The sums of products."""
        axis = form.integers.ndim - 1
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
        if form.product.is_convolution:
            attrs |= self._window(form.product.groups)
            return self.made("UniformQuantizedConvolution", (x, weights, *parameters), attrs)
        if not form.product.is_plain(x):
            x = self._reshaped(x, self.constant(np.array([-1, len(form.integers)], np.int32)))
        return self.made("UniformQuantizedDot", (x, weights, *parameters), attrs)

    def _reshaped(self, x: Tensor, sizes: Tensor) -> Tensor:
        return self.made("Reshape", (x, sizes), {"T": x.dtype, "Tshape": int32})

    def _sizes(self, x: Tensor, product: ConstantProduct) -> Tensor | None:
        """The shape of the result, or None if the sums have it."""
        if product.is_plain(x):
            return None
        known = [-1 if size is None else size for size in self.op.outputs[0].shape]
        if known.count(-1) < 2:
            return self.constant(np.array(known, np.int32))
        given = self.made("Shape", (x,), {"T": x.dtype, "out_type": int32})
        start, count = (self.constant(np.array([number], np.int32)) for number in (0, product.rows))
        rows = self.made("Slice", (given, start, count), {"T": int32, "Index": int32})
        outputs, axis = self.constant(np.array(product.outputs, np.int32)), self.constant(np.int32(0))
        return self.made("ConcatV2", (rows, outputs, axis), {"N": 2, "T": int32, "Tidx": int32})

    def _window(self, groups: int) -> dict[str, object]:
        attrs = self.op.attrs
        explicit = attrs["padding"] == "EXPLICIT"
        return {
            "window_strides": attrs["strides"][1:3],
            "rhs_dilation": attrs["dilations"][1:3],
            "padding": attrs["padding"],
            "explicit_padding": attrs["explicit_paddings"][2:6] if explicit else (),
            "feature_group_count": groups,
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
    graph: Graph, fit: Mapping[Operation, ConstantProduct], ranges: Mapping[Tensor, tuple[float, float]]
) -> tuple[Graph, Sequence[Int8Product], Mapping[Operation, str]]:
    """Let products compute in int8.

    Args:
      graph: a bounded graph.
      fit: the products, as `constant_products` finds them.
      ranges: for the inputs of these the lowest and the highest number, with 0 between them.
    Returns:
      The new graph, what was done, and for products that stay in float nevertheless the reason.
    """
    readers = Counter(tensor for op in graph.operations for tensor in op.inputs)
    reader = {tensor: op for op in graph.operations for tensor in op.inputs}
    work = _Rewriting(fit, ranges, readers, reader)
    return drop_dead(rewrite(graph, work.rule)), work.products, work.left
