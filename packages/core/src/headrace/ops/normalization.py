"""Normalisation: over batches, layers, vectors and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Shape, bfloat16, float16, float32, float64

__all__ = ["batch_norm", "channel_axis", "l2_normalize", "layer_norm", "local_response_normalization", "moments"]

_FORMATS = attr.string("NHWC", allowed=["NHWC", "NCHW", "NDHWC", "NCDHW"])
_STATISTICS = attr.type(bfloat16, float32, float64)


def channel_axis(data_format: str, rank: int) -> int:
    """The axis of the channels in a data format."""
    return 1 if data_format.startswith("NC") else rank - 1


def _images(op: InferenceContext, index: int) -> tuple[Shape, int | None]:
    """Images of the rank that the data format asks for, and their number of channels."""
    data_format = op.attr("data_format")
    images = op.inputs[index].shape.with_rank(len(data_format))
    return images, images[channel_axis(data_format, len(data_format))]


def _channels(op: InferenceContext, known: int | None, indices: Sequence[int], *, empty: bool = False) -> Shape:
    """The vector of which the given inputs are instances, one number per channel; some may be left empty."""
    vector = Shape([known])
    for index in indices:
        given = op.inputs[index].shape.with_rank(1)
        if empty and given[0] in (0, None):
            continue
        if not vector.is_compatible_with(given):
            raise ShapeError(
                f"input '{index}' does not fit the channels",
                expected=f"one number per channel, {vector}",
                got=str(given),
                hint="data_format says which axis counts the channels: the last in 'NHWC', the second in 'NCHW'",
            )
        vector = vector.merge(given)
    return vector


_IMAGE_FORMATS = attr.string("NHWC", allowed=["NHWC", "NCHW"])


def _register_batch_norm(suffix: str, types: dict[str, AttrSpec], formats: AttrSpec, count: int) -> None:
    """Register one version of the fused operation, which has the statistics of dtype U, or T where there is no U.

    Args:
      suffix: what its name ends in.
      types: the dtype attributes.
      formats: the attribute for the data format.
      count: how many outputs are there for the gradient alone.
    """
    u = "U" if "U" in types else "T"
    reserved = {f"reserve_space_{number}": u for number in range(1, count + 1)}
    attrs: dict[str, AttrSpec] = {
        **types,
        "epsilon": attr.float(0.0001),
        "exponential_avg_factor": attr.float(1.0),
        "data_format": formats,
        "is_training": attr.bool(True),
    }

    @register_op(
        f"FusedBatchNorm{suffix}",
        inputs={"x": "T", "scale": u, "offset": u, "mean": u, "variance": u},
        outputs={"y": "T", "batch_mean": u, "batch_variance": u, **reserved},
        attrs=attrs,
    )
    def fused_batch_norm_shape(op: InferenceContext) -> list[Shape]:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset per channel, and the statistics.

        In training the mean and variance are those of the batch; the second and third output are the running ones,
        moved towards the batch's by `exponential_avg_factor` (the variance with Bessel's correction, N / (N - 1)); the
        fourth and fifth are the batch's own, for the gradient. Otherwise all of them are the inputs.
        """
        images, channels = _images(op, 0)
        running = op.attr("is_training") and op.attr("exponential_avg_factor") == 1.0
        vector = _channels(op, channels, [1, 2])
        vector = _channels(op, vector[0], [3, 4], empty=running)
        if vector[0] is not None:
            axis = channel_axis(op.attr("data_format"), len(images))
            images = Shape([vector[0] if place == axis else size for place, size in enumerate(images)])
        return [images, vector, vector, vector, vector, *[Shape([0])] * (count - 2)]


def _register_batch_norm_grad(suffix: str, types: dict[str, AttrSpec], formats: AttrSpec, count: int) -> None:
    """Register the gradient of one version, which takes so many of its reserved outputs."""
    u = "U" if "U" in types else "T"
    attrs: dict[str, AttrSpec] = {
        **types,
        "epsilon": attr.float(0.0001),
        "data_format": formats,
        "is_training": attr.bool(True),
    }
    reserved = {f"reserve_space_{number}": u for number in range(1, count + 1)}
    zeros = {f"reserve_space_{number}": u for number in range(count + 1, count + 3)}

    @register_op(
        f"FusedBatchNormGrad{suffix}",
        inputs={"y_backprop": "T", "x": "T", "scale": u, **reserved},
        outputs={"x_backprop": "T", "scale_backprop": u, "offset_backprop": u, **zeros},
        attrs=attrs,
    )
    def fused_batch_norm_grad_shape(op: InferenceContext) -> list[Shape]:
        """The gradients of the fused operation by x, scale and offset, from the mean and variance used; two zeros."""
        gradient, channels = _images(op, 0)
        images, others = _images(op, 1)
        if not images.is_compatible_with(gradient):
            raise ShapeError(
                "the gradient does not fit x",
                expected=str(images),
                got=str(gradient),
                hint="pass the gradient by y, in the data_format of x",
            )
        vector = _channels(op, channels if channels is not None else others, [2, 3, 4])
        return [images.merge(gradient), vector, vector, Shape([]), Shape([])]


_WIDE = attr.type(float32, float64)
_register_batch_norm("", {"T": _WIDE}, _IMAGE_FORMATS, 2)
_register_batch_norm("V2", {"T": attr.floating, "U": _WIDE}, _IMAGE_FORMATS, 2)
_register_batch_norm("V3", {"T": attr.floating, "U": _STATISTICS}, _FORMATS, 3)
_register_batch_norm_grad("", {"T": _WIDE}, _IMAGE_FORMATS, 2)
_register_batch_norm_grad("V2", {"T": attr.floating, "U": _WIDE}, _IMAGE_FORMATS, 2)
_register_batch_norm_grad("V3", {"T": attr.floating, "U": _WIDE}, _FORMATS, 3)


_NEIGHBOURS = {
    "depth_radius": attr.int(5, minimum=0),
    "bias": attr.float(1.0),
    "alpha": attr.float(1.0),
    "beta": attr.float(0.5),
    "T": AttrSpec("type", default=float32, allowed=attr.floating.allowed),
}


@register_op("LRN", inputs={"input": "T"}, outputs={"output": "T"}, attrs=_NEIGHBOURS)
def _lrn_shape(op: InferenceContext) -> list[Shape]:
    """x / (bias + alpha * s)**beta, where s is the sum of squares over the channels at most depth_radius away."""
    return [op.inputs[0].shape.with_rank(4)]


@register_op(
    "LRNGrad",
    inputs={"input_grads": "T", "input_image": "T", "output_image": "T"},
    outputs={"output": "T"},
    attrs=_NEIGHBOURS,
)
def _lrn_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of LRN, from its input and output."""
    shape = Shape([None] * 4)
    for item in op.inputs:
        shape = shape.merge(item.shape)
    return [shape]


_EPSILON = {"T": attr.floating, "epsilon": attr.float(1e-5)}


def _features(op: InferenceContext, rows: Shape, indices: Sequence[int]) -> Shape:
    """The vector of which the given inputs are instances: one number per feature, the last axis of the rows."""
    if rows.rank == 0:
        raise ShapeError(
            "there is no axis of features",
            expected="rank >= 1",
            got=str(rows),
            hint="hr.expand_dims(x, 0) gives a scalar an axis",
        )
    vector = Shape([None if rows.dims is None else rows.dims[-1]])
    for index in indices:
        given = op.inputs[index].shape.with_rank(1)
        if not vector.is_compatible_with(given):
            raise ShapeError(
                "scale or offset does not fit the features",
                expected=f"one number per feature, {vector}",
                got=str(given),
                hint="the features are the last axis; hr.permute_dims moves another one there",
            )
        vector = vector.merge(given)
    return vector


@register_op(
    "LayerNorm",
    inputs={"x": "T", "scale": "T", "offset": "T"},
    outputs={"y": "T"},
    attrs=_EPSILON,
)
def _layer_norm_shape(op: InferenceContext) -> list[Shape]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset over the last axis, in one piece."""
    _features(op, op.inputs[0].shape, [1, 2])
    return [op.inputs[0].shape]


@register_op(
    "LayerNormGrad",
    inputs={"y_backprop": "T", "x": "T", "scale": "T"},
    outputs={"x_backprop": "T", "scale_backprop": "T", "offset_backprop": "T"},
    attrs=_EPSILON,
)
def _layer_norm_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of LayerNorm by x, scale and offset."""
    rows = op.inputs[0].shape.merge(op.inputs[1].shape)
    vector = _features(op, rows, [2])
    return [rows, vector, vector]


def batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    *,
    epsilon: float = 1e-3,
    factor: float = 1.0,
    training: bool = True,
    data_format: str = "NHWC",
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each channel over a batch of images: (x - mean) / sqrt(variance + epsilon) * scale + offset.

    Args:
      x: floating `[batch, rows, columns, channels]`, or as `data_format` says.
      scale: float32 (float64 with float64 `x`) `[channels]`.
      offset: the same dtype `[channels]`.
      mean: the running mean `[channels]`.
      variance: the running variance `[channels]`.
      epsilon: keeps the root away from 0.
      factor: how far the running statistics move towards those of the batch, 0 to 1.
      training: normalise by the statistics of this batch instead of the running ones.
      data_format: `"NHWC"`, `"NCHW"`, `"NDHWC"` or `"NCDHW"`.
      name: the operation's name.
    Returns:
      The normalised images, of the dtype and shape of `x`, and the new running mean and variance `[channels]`, to be
      assigned; without `training` these two are as given. The batch's variance enters with the factor N / (N - 1).
    Source: Ioffe, Szegedy, "Batch Normalization", 2015.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.constant([1.0, 3.0], shape=[2, 1, 1, 1])
      ...     y, mean, variance = hr.nn.batch_norm(x, [1.0], [0.0], [0.0], [1.0], epsilon=0.0)
      >>> print(hr.Session(graph).run([mean, variance]))
      [array([2.], dtype=float32), array([2.], dtype=float32)]
    """
    outputs = apply_op(
        "FusedBatchNormV3",
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        exponential_avg_factor=factor,
        is_training=training,
        data_format=data_format,
        name=name,
    )
    return outputs[0], outputs[1], outputs[2]


def local_response_normalization(
    x: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """x / (bias + alpha * s)**beta, where s is the sum of squares over neighbouring channels.

    Args:
      x: floating `[batch, rows, columns, channels]`.
      depth_radius: how many channels on each side count as neighbours.
      bias: added to the sum.
      alpha: multiplies the sum.
      beta: the exponent.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section 3.3.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.local_response_normalization([[[[1.0, 1.0, 1.0]]]], depth_radius=1, bias=2.0, beta=1.0)
      >>> print(hr.Session(graph).run(y))
      [[[[0.25 0.2  0.25]]]]
    """
    result: Tensor = apply_op("LRN", x, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)
    return result


def moments(
    x: TensorLike, axes: int | Sequence[int], *, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The mean and the variance (of the population, divided by N) over some axes.

    Args:
      x: floating, any shape. float16 and bfloat16 are computed in float32.
      axes: the axes to reduce.
      keepdims: keep them with size 1.
      name: the operation's name.
    Returns:
      Mean and variance, of the dtype of `x`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     mean, variance = hr.nn.moments([1.0, 3.0], 0)
      >>> [float(value) for value in hr.Session(graph).run([mean, variance])]
      [2.0, 1.0]
    """
    tensor = convert_to_tensor(x)
    wide = _wide(tensor)
    over = [axes] if isinstance(axes, int) else list(axes)
    mean = apply_op("Mean", wide, over, keep_dims=True)
    variance = apply_op("Mean", apply_op("SquaredDifference", wide, mean), over, keep_dims=keepdims)
    if not keepdims:
        mean = apply_op("Squeeze", mean, squeeze_dims=over) if over else mean
    return _narrow(mean, tensor, name), _narrow(variance, tensor, name)


def _wide(x: Tensor) -> Tensor:
    if x.dtype not in (float16, bfloat16):
        return x
    result: Tensor = apply_op("Cast", x, DstT=float32)
    return result


def _narrow(x: Tensor, like: Tensor, name: str | None = None) -> Tensor:
    if x.dtype is like.dtype:
        return x
    result: Tensor = apply_op("Cast", x, DstT=like.dtype, name=name)
    return result


def layer_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Tensor:
    """Normalise each example over its features: (x - mean) / sqrt(variance + epsilon) * scale + offset.

    Args:
      x: floating `[..., features]`.
      scale: the same dtype `[features]`, or None for 1.
      offset: the same dtype `[features]`, or None for 0.
      axis: the axis or axes of the features.
      epsilon: keeps the root away from 0.
      name: the operation's name.
    Returns:
      The same dtype and shape; float16 and bfloat16 are computed in float32.
    Source: Ba, Kiros, Hinton, "Layer Normalization", 2016.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.layer_norm([[1.0, 3.0]], epsilon=0.0)
      >>> print(hr.Session(graph).run(y))
      [[-1.  1.]]
    """
    tensor = convert_to_tensor(x)
    wide = _wide(tensor)
    mean, variance = moments(wide, axis, keepdims=True)
    inverse = apply_op("Rsqrt", apply_op("AddV2", variance, epsilon))
    y = apply_op("Mul", apply_op("Sub", wide, mean), inverse)
    if scale is not None:
        y = apply_op("Mul", y, _wide(convert_to_tensor(scale, tensor.dtype)))
    if offset is not None:
        y = apply_op("AddV2", y, _wide(convert_to_tensor(offset, tensor.dtype)))
    return _narrow(y, tensor, name)


def l2_normalize(
    x: TensorLike, axis: int | Sequence[int] = -1, *, epsilon: float = 1e-12, name: str | None = None
) -> Tensor:
    """x / sqrt(max(sum(x**2), epsilon)): vectors of length 1, except those shorter than the root of epsilon.

    Args:
      x: floating, any shape.
      axis: the axis or axes along which a vector lies.
      epsilon: the least squared length.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.l2_normalize([3.0, 4.0])
      >>> print(hr.Session(graph).run(y))
      [0.6 0.8]
    """
    tensor = convert_to_tensor(x)
    over = [axis] if isinstance(axis, int) else list(axis)
    squared = apply_op("Sum", apply_op("Square", tensor), over, keep_dims=True)
    inverse = apply_op("Rsqrt", apply_op("Maximum", squared, epsilon))
    result: Tensor = apply_op("Mul", tensor, inverse, name=name)
    return result
