"""Gradient rules of normalisation.

Those of second order differentiate a composition of plain operations that computes the same as the fused gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.grad.backprop import gradients
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.normalization import channel_axis, layer_norm
from headrace.types import DType, float32

__all__: list[str] = []


def _is_zero(gradient: Tensor) -> bool:
    """True if no gradient arrived at an output (see `grad.losses`)."""
    return gradient.op.type == "ZerosLike"


def _cast(x: Tensor, dtype: DType) -> Tensor:
    if x.dtype is dtype:
        return x
    result: Tensor = apply_op("Cast", x, DstT=dtype)
    return result


def _moved(op: Operation, images: Tensor, *, back: bool = False) -> Tensor:
    """Images with their channels last, or such images in the operation's data format again."""
    data_format = op.attrs["data_format"]
    rank = len(data_format)
    axis = channel_axis(data_format, rank)
    if axis == rank - 1:
        return images
    order = [0, *range(2, rank), 1] if not back else [0, rank - 1, *range(1, rank - 1)]
    result: Tensor = apply_op("Transpose", images, order)
    return result


def _count(x: Tensor, vector: Tensor) -> Tensor:
    """How many pixels there are per channel, in the dtype of the statistics."""
    return _cast(apply_op("FloorDiv", apply_op("Size", x), apply_op("Size", vector)), vector.dtype)


@register_gradient("FusedBatchNorm")
@register_gradient("FusedBatchNormV2")
@register_gradient("FusedBatchNormV3")
def _fused_batch_norm(op: Operation, g: Tensor, *statistics: Tensor) -> list[Tensor | None]:
    """By x, scale and offset from the fused gradient; by the statistics where a gradient arrived at one of them."""
    x, scale, _, mean, variance = op.inputs
    training = op.attrs["is_training"]
    used = op.outputs[3:5] if training else (mean, variance)
    attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
    kept = (*used, *op.outputs[5:])
    name = op.type.replace("Norm", "NormGrad")
    dx, dscale, doffset, _, _ = apply_op(name, g, x, _not_narrow(scale), *map(_not_narrow, kept), **attrs)
    dmean, dvariance = (None, None) if training else _by_statistics(op, dscale, doffset)
    if not all(_is_zero(item) for item in statistics[:4]):
        by_x, more_mean, more_variance = _through_statistics(op, statistics)
        dx = dx if by_x is None else apply_op("AddV2", dx, by_x)
        dmean = _sum(dmean, more_mean)
        dvariance = _sum(dvariance, more_variance)
    return [dx, _cast(dscale, scale.dtype), _cast(doffset, scale.dtype), dmean, dvariance]


def _not_narrow(vector: Tensor) -> Tensor:
    """The fused gradient has no statistics narrower than float32."""
    return _cast(vector, vector.dtype if vector.dtype.size > 2 else float32)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    result: Tensor = apply_op("AddV2", a, b)
    return result


def _by_statistics(op: Operation, dscale: Tensor, doffset: Tensor) -> tuple[Tensor, Tensor]:
    """y = (x - m) r scale + offset with r = (v + epsilon)**-1/2: dm = -doffset scale r, dv = -dscale scale r**2 / 2."""
    scale, variance = op.inputs[1], op.inputs[4]
    inverse = apply_op("Rsqrt", apply_op("AddV2", variance, op.attrs["epsilon"]))
    by_mean = apply_op("Neg", apply_op("Mul", apply_op("Mul", _cast(doffset, scale.dtype), scale), inverse))
    product = apply_op("Mul", apply_op("Mul", _cast(dscale, scale.dtype), scale), apply_op("Square", inverse))
    return by_mean, apply_op("Mul", product, -0.5)


def _through_statistics(
    op: Operation, statistics: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients by x, mean and variance of what arrived at the outputs that are statistics.

    In training m = sum(x) / n and v = sum((x - m)**2) / n give dx = (g_m + 2 (x - m) g_v) / n, and the running ones
    keep the share 1 - factor of the inputs.
    """
    new_mean, new_variance, used_mean, used_variance = statistics[:4]
    if not op.attrs["is_training"]:
        return None, apply_op("AddV2", new_mean, used_mean), apply_op("AddV2", new_variance, used_variance)
    x, mean = op.inputs[0], op.outputs[3]
    factor = op.attrs["exponential_avg_factor"]
    count = _count(x, op.inputs[1])
    bessel = apply_op("RealDiv", count, apply_op("Maximum", apply_op("Sub", count, 1.0), 1.0))
    g_mean = apply_op("AddV2", apply_op("Mul", new_mean, factor), used_mean)
    g_variance = apply_op("AddV2", apply_op("Mul", apply_op("Mul", new_variance, factor), bessel), used_variance)
    centred = apply_op("Sub", _cast(_moved(op, x), mean.dtype), mean)
    bent = apply_op("Mul", apply_op("Mul", centred, g_variance), 2.0)
    by_x = _cast(apply_op("RealDiv", apply_op("AddV2", bent, g_mean), count), x.dtype)
    if factor == 1.0:
        return _moved(op, by_x, back=True), None, None
    kept = 1.0 - factor
    return _moved(op, by_x, back=True), apply_op("Mul", new_mean, kept), apply_op("Mul", new_variance, kept)


@register_gradient("FusedBatchNormGrad")
@register_gradient("FusedBatchNormGradV2")
@register_gradient("FusedBatchNormGradV3")
def _fused_batch_norm_grad(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The derivative of `_plain_batch_norm_grad`, which computes the same; mean and variance are inputs like others."""
    found = _by_composition(op.inputs[:5], arrived[:3], lambda inputs: _plain_batch_norm_grad(op, *inputs))
    return [*found, *[None] * (len(op.inputs) - 5)]


def _by_composition(
    inputs: Sequence[Tensor], arrived: Sequence[Tensor], compose: Callable[[Sequence[Tensor]], Sequence[Tensor]]
) -> list[Tensor | None]:
    """Differentiate a composition by its own inputs only, not by what those were computed from."""
    own = [apply_op("Identity", tensor) for tensor in inputs]
    found: list[Tensor | None] = gradients(compose(own), own, grad_ys=arrived)
    return found


def _plain_batch_norm_grad(
    op: Operation, g: Tensor, x: Tensor, scale: Tensor, mean: Tensor, variance: Tensor
) -> list[Tensor]:
    """What FusedBatchNormGradV3 computes, from plain operations."""
    axes = list(range(len(op.attrs["data_format"]) - 1))
    rows, gradient = _cast(_moved(op, x), mean.dtype), _cast(_moved(op, g), mean.dtype)
    inverse = apply_op("Rsqrt", apply_op("AddV2", variance, op.attrs["epsilon"]))
    normal = apply_op("Mul", apply_op("Sub", rows, mean), inverse)
    doffset = apply_op("Sum", gradient, axes)
    dscale = apply_op("Sum", apply_op("Mul", gradient, normal), axes)
    if op.attrs["is_training"]:
        shared = apply_op("RealDiv", apply_op("AddV2", apply_op("Mul", normal, dscale), doffset), _count(x, mean))
        gradient = apply_op("Sub", gradient, shared)
    dx = apply_op("Mul", gradient, apply_op("Mul", scale, inverse))
    return [_moved(op, _cast(dx, x.dtype), back=True), dscale, doffset]


@register_gradient("LayerNorm")
def _layer_norm(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[..., features]`."""
    x, scale, _ = op.inputs
    return list(apply_op("LayerNormGrad", g, x, scale, epsilon=op.attrs["epsilon"]))


@register_gradient("LayerNormGrad")
def _layer_norm_grad(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The derivative of the gradients of a composition that computes the same."""
    epsilon = op.attrs["epsilon"]

    def compose(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        dy, x, scale = inputs
        offset = apply_op("ZerosLike", scale)
        y = layer_norm(x, scale, offset, epsilon=epsilon)
        found: list[Tensor] = gradients([y], [x, scale, offset], grad_ys=[dy])
        return found

    return _by_composition(op.inputs, arrived, compose)


_NEIGHBOURS = ("depth_radius", "bias", "alpha", "beta")


@register_gradient("LRN")
def _lrn(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[batch, rows, columns, channels]`."""
    attrs = {name: op.attrs[name] for name in _NEIGHBOURS}
    return [apply_op("LRNGrad", g, op.inputs[0], op.outputs[0], **attrs)]


@register_gradient("LRNGrad")
def _lrn_grad(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The derivative of `_plain_lrn_grad`, which computes the same."""
    return _by_composition(op.inputs, [g], lambda inputs: [_plain_lrn_grad(op, *inputs)])


def _plain_lrn_grad(op: Operation, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    alpha, beta = op.attrs["alpha"], op.attrs["beta"]
    squares = _neighbour_sums(op, apply_op("Square", x))
    norm = apply_op("AddV2", apply_op("Mul", squares, alpha), op.attrs["bias"])
    shared = _neighbour_sums(op, apply_op("RealDiv", apply_op("Mul", g, y), norm))
    own = apply_op("Mul", g, apply_op("Pow", norm, -beta))
    result: Tensor = apply_op("Sub", own, apply_op("Mul", apply_op("Mul", x, shared), 2 * alpha * beta))
    return result


def _neighbour_sums(op: Operation, images: Tensor) -> Tensor:
    """Sums over neighbouring channels, as a convolution by ones along the channels."""
    shape = apply_op("Shape", images)
    channels = apply_op("StridedSlice", shape, [3], [4], [1])
    lines = apply_op("Reshape", images, apply_op("ConcatV2", [[-1, 1], channels, [1]], 0))
    ones = apply_op("Fill", [1, 2 * op.attrs["depth_radius"] + 1, 1, 1], apply_op("Cast", 1.0, DstT=images.dtype))
    sums = apply_op("Conv2D", lines, ones, strides=[1, 1, 1, 1], padding="SAME")
    result: Tensor = apply_op("Reshape", sums, shape)
    return result
