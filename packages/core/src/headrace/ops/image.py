"""Images (`hr.image`): resizing, cropping, boxes, colours. Images are `[batch, rows, columns, channels]`.

Half of its length is the users' documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.image_codecs import decode_jpeg, decode_png, encode_jpeg, encode_png
from headrace.ops.shapes import check_scalar, checked_sizes
from headrace.types import Array, Shape

__all__ = [
    "adjust_contrast",
    "crop_and_resize",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_patches",
    "hsv_to_rgb",
    "non_max_suppression",
    "resize",
    "rgb_to_hsv",
]

_SIZE_HINT = "pass [rows, columns] in pixels; batch and channels stay as they are"
_BOX_HINT = "boxes are rows of [y1, x1, y2, x2]"

_SAMPLING = {"align_corners": attr.bool(False), "half_pixel_centers": attr.bool(False)}
_METHODS = {"nearest": "ResizeNearestNeighbor", "bilinear": "ResizeBilinear", "bicubic": "ResizeBicubic"}


def sampled_size(size: Array) -> tuple[int, int]:
    """The rows and columns of a resized image.

    Raises:
      InvalidArgumentError: it is not a vector of two positive numbers.
    """
    if np.shape(size) != (2,) or int(np.min(size)) <= 0:
        raise InvalidArgumentError(
            "an image has rows and columns", expected="two sizes > 0", got=f"{np.asarray(size)}", hint=_SIZE_HINT
        )
    rows, columns = (int(item) for item in size)
    return rows, columns


def check_sampled(images: Shape, rows: int | None, columns: int | None) -> Shape:
    """The shape of images after resizing.

    Raises:
      ShapeError: they are not images, or have no rows or columns to sample.
    """
    batch, height, width, channels = images.with_rank(4)
    if 0 in (height, width):
        raise ShapeError(
            "there is nothing to sample",
            expected="rows and columns",
            got=str(images),
            hint="leave empty images out, or hr.pad them to one pixel at least",
        )
    if None not in (batch, rows, columns, channels):
        checked_sizes([batch or 0, rows or 0, columns or 0, channels or 0])
    return Shape([batch, rows, columns, channels])


def _check_sampling(op: InferenceContext) -> None:
    if op.attr("align_corners") and op.attr("half_pixel_centers"):
        raise InvalidArgumentError(
            "pixels are sampled in one way",
            expected="align_corners or half_pixel_centers",
            got="both",
            hint="leave out half_pixel_centers where align_corners=True",
        )


def _resized(op: InferenceContext) -> list[Shape]:
    _check_sampling(op)
    known = op.constant(1)
    if known is None and not op.inputs[1].shape.is_compatible_with(Shape([2])):
        raise InvalidArgumentError(
            "an image has rows and columns",
            expected="two sizes > 0",
            got=f"shape {op.inputs[1].shape}",
            hint=_SIZE_HINT,
        )
    rows, columns = (None, None) if known is None else sampled_size(known)
    return [check_sampled(op.inputs[0].shape, rows, columns)]


@register_op(
    "ResizeNearestNeighbor",
    inputs={"images": "T", "size": "int32"},
    outputs={"resized_images": "T"},
    attrs={"T": attr.ordered, **_SAMPLING},
)
def _nearest_shape(op: InferenceContext) -> list[Shape]:
    """Images of another size; each pixel is the nearest one of the input."""
    return _resized(op)


@register_op(
    "ResizeNearestNeighborGrad",
    inputs={"grads": "T", "size": "int32"},
    outputs={"output": "T"},
    attrs={"T": attr.ordered, **_SAMPLING},
)
def _nearest_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of `ResizeNearestNeighbor`: each pixel gets the sum of those it went to."""
    return _resized(op)


@register_op(
    "ResizeBilinear",
    inputs={"images": "T", "size": "int32"},
    outputs={"resized_images": "float32"},
    attrs={"T": attr.ordered, **_SAMPLING},
)
def _bilinear_shape(op: InferenceContext) -> list[Shape]:
    """Images of another size; each pixel is a mean of the four around its place, weighted by nearness."""
    return _resized(op)


@register_op(
    "ResizeBicubic",
    inputs={"images": "T", "size": "int32"},
    outputs={"resized_images": "float32"},
    attrs={"T": attr.ordered, **_SAMPLING},
)
def _bicubic_shape(op: InferenceContext) -> list[Shape]:
    """Images of another size by Keys' cubic kernel over 4 x 4 pixels: a = -1/2 with half-pixel centres, else -3/4."""
    return _resized(op)


def _sampling_gradient(op: InferenceContext) -> list[Shape]:
    _check_sampling(op)
    grads, images = op.inputs[0].shape.with_rank(4), op.inputs[1].shape.with_rank(4)
    wanted = check_sampled(images, grads[1], grads[2])
    if not wanted.is_compatible_with(grads):
        raise ShapeError(
            "the gradient does not fit the images",
            expected=str(wanted),
            got=str(grads),
            hint="hr.gradients passes gradients of the right shape; hr.reshape one made by hand",
        )
    return [images]


@register_op(
    "ResizeBilinearGrad",
    inputs={"grads": "float32", "original_image": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, **_SAMPLING},
)
def _bilinear_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of `ResizeBilinear`."""
    return _sampling_gradient(op)


@register_op(
    "ResizeBicubicGrad",
    inputs={"grads": "float32", "original_image": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, **_SAMPLING},
)
def _bicubic_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of `ResizeBicubic`."""
    return _sampling_gradient(op)


@register_op(
    "CropAndResize",
    inputs={"image": "T", "boxes": "float32", "box_ind": "int32", "crop_size": "int32"},
    outputs={"crops": "float32"},
    attrs={
        "T": attr.ordered,
        "method": attr.string("bilinear", allowed=["bilinear", "nearest"]),
        "extrapolation_value": attr.float(0.0),
    },
)
def _crop_shape(op: InferenceContext) -> list[Shape]:
    """Boxes `[top, left, bottom, right]` of images, as fractions of their size, resized to one size."""
    image, boxes, numbers = (spec.shape for spec in op.inputs[:3])
    known = op.constant(3)
    rows, columns = (None, None) if known is None else sampled_size(known)
    _, _, _, channels = check_sampled(image, None, None)
    count, four = boxes.with_rank(2)
    if four not in (None, 4) or not numbers.is_compatible_with(Shape([count])):
        raise ShapeError(
            "boxes do not fit",
            expected="boxes [n, 4], box_ind [n]",
            got=f"{boxes}, {numbers}",
            hint=_BOX_HINT + ", box_indices the image of each",
        )
    return [Shape([numbers[0] if numbers.rank and count is None else count, rows, columns, channels])]


_COLOURS = {"T": attr.type("bfloat16", "float16", "float32", "float64", default="float32")}


def _colours(op: InferenceContext) -> list[Shape]:
    images = op.inputs[0].shape
    if images.dims is not None and (not images.dims or images.dims[-1] not in (None, 3)):
        raise ShapeError(
            "a colour has three parts",
            expected="[..., 3]",
            got=str(images),
            hint="hr.moveaxis(images, -3, -1) puts the channels last",
        )
    return [images]


@register_op("RGBToHSV", inputs={"images": "T"}, outputs={"output": "T"}, attrs=_COLOURS)
def _to_hsv_shape(op: InferenceContext) -> list[Shape]:
    """Red, green, blue in [0, 1] as hue, saturation, value."""
    return _colours(op)


def _adjusted(op: InferenceContext, name: str) -> list[Shape]:
    check_scalar(op.inputs[1].shape, name)
    if op.inputs[0].shape.rank is not None and op.inputs[0].shape.rank < 3:
        raise ShapeError(
            "an image has rows, columns and colours",
            expected="[..., rows, columns, 3]",
            got=str(op.inputs[0].shape),
            hint="hr.expand_dims adds an axis",
        )
    return _colours(op)


_HALF_OR_SINGLE = {"T": attr.type("float16", "float32", default="float32")}


@register_op("AdjustHue", inputs={"images": "T", "delta": "float32"}, outputs={"output": "T"}, attrs=_HALF_OR_SINGLE)
def _hue_shape(op: InferenceContext) -> list[Shape]:
    """Images whose hue is moved by `delta` turns of the circle of colours."""
    return _adjusted(op, "delta")


@register_op(
    "AdjustSaturation", inputs={"images": "T", "scale": "float32"}, outputs={"output": "T"}, attrs=_HALF_OR_SINGLE
)
def _saturation_shape(op: InferenceContext) -> list[Shape]:
    """Images whose saturation is multiplied by `scale` and kept in [0, 1]."""
    return _adjusted(op, "scale")


@register_op("HSVToRGB", inputs={"images": "T"}, outputs={"output": "T"}, attrs=_COLOURS)
def _to_rgb_shape(op: InferenceContext) -> list[Shape]:
    """Hue, saturation, value in [0, 1] as red, green, blue."""
    return _colours(op)


@register_op(
    "AdjustContrastv2",
    inputs={"images": "T", "contrast_factor": "float32"},
    outputs={"output": "T"},
    attrs={"T": attr.type("float16", "float32", default="float32")},
)
def _contrast_shape(op: InferenceContext) -> list[Shape]:
    """The difference from the mean of each channel of an image times a factor."""
    images = op.inputs[0].shape
    if images.rank is not None and images.rank < 3:
        raise ShapeError(
            "these are no images",
            expected="[..., rows, columns, channels]",
            got=str(images),
            hint="hr.expand_dims(images, axis=-1) adds a single channel",
        )
    check_scalar(op.inputs[1].shape, "contrast_factor")
    return [images]


def patch_sizes(
    op: HasAttrs, images: Sequence[int | None]
) -> tuple[tuple[int, int], list[tuple[int | None, int, int, int]]]:
    """How patches are taken.

    Returns:
      The rows and columns of a patch, and for both axes the number of patches, the stride, the rate and the padding
      before the first pixel.
    Raises:
      InvalidArgumentError: an attribute is not positive, or speaks of batch or channels.
    """
    lists = {name: op.attr(name) for name in ("ksizes", "strides", "rates")}
    for name, given in lists.items():
        if len(given) != 4 or given[0] != 1 or given[3] != 1 or not all(0 < item < 2**31 for item in given):
            raise InvalidArgumentError(
                f"'{name}' is wrong",
                expected="[1, rows, columns, 1], > 0",
                got=str(given),
                hint="hr.image.extract_patches takes rows and columns and adds the ones itself",
            )
    axes: list[tuple[int | None, int, int, int]] = []
    for axis in (1, 2):
        taps, stride, rate = (lists[name][axis] for name in ("ksizes", "strides", "rates"))
        size, reach = images[axis], (taps - 1) * rate + 1
        if size is None:
            axes.append((None, stride, rate, 0))
        elif op.attr("padding") == "SAME":
            count = -(-size // stride)
            axes.append((count, stride, rate, max((count - 1) * stride + reach - size, 0) // 2))
        else:
            axes.append((max(-(-(size - reach + 1) // stride), 0), stride, rate, 0))
    return (lists["ksizes"][1], lists["ksizes"][2]), axes


@register_op(
    "ExtractImagePatches",
    inputs={"images": "T"},
    outputs={"patches": "T"},
    attrs={
        "ksizes": attr.list_of(attr.int(), minimum=4),
        "strides": attr.list_of(attr.int(), minimum=4),
        "rates": attr.list_of(attr.int(), minimum=4),
        "T": attr.any_type,
        "padding": attr.string(allowed=["SAME", "VALID"]),
    },
)
def _patches_shape(op: InferenceContext) -> list[Shape]:
    """The pixels of each window of an image, one after the other along the channels."""
    images = op.inputs[0].shape.with_rank(4)
    batch, _, _, channels = images
    taps, axes = patch_sizes(op, tuple(images))
    sizes = [batch, axes[0][0], axes[1][0], None if channels is None else taps[0] * taps[1] * channels]
    checked_sizes([size or 1 for size in sizes])
    return [Shape(sizes)]


def resize(
    images: TensorLike,
    size: TensorLike,
    *,
    method: str = "bilinear",
    align_corners: bool = False,
    half_pixel_centers: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Images of another size.

    Args:
      images: any real dtype `[batch, rows, columns, channels]`.
      size: int32 `[2]`, the new rows and columns.
      method: "nearest", "bilinear" or "bicubic".
      align_corners: the centres of the corner pixels stay where they are.
      half_pixel_centers: pixel i of n has its centre at (i + 1/2) / n, else at i / n; by default unless align_corners.
      name: the operation's name.
    Returns:
      `[batch, new rows, new columns, channels]`, of the images' dtype for "nearest", else float32.
    Raises:
      InvalidArgumentError: a size is not positive, or the method is not known.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.image.resize(hr.reshape([1.0, 2.0, 3.0], [1, 1, 3, 1]), [1, 6])
      >>> print(hr.Session(graph).run(y).ravel())
      [1.   1.25 1.75 2.25 2.75 3.  ]
    """
    if method not in _METHODS:
        raise InvalidArgumentError(
            "the method is not known",
            expected=" or ".join(_METHODS),
            got=repr(method),
            hint="leave out method for smooth images; 'nearest' keeps class numbers intact",
        )
    centers = not align_corners if half_pixel_centers is None else half_pixel_centers
    attrs = {"align_corners": align_corners, "half_pixel_centers": centers}
    result: Tensor = apply_op(_METHODS[method], convert_to_tensor(images), size, **attrs, name=name)
    return result


def crop_and_resize(
    images: TensorLike,
    boxes: TensorLike,
    box_indices: TensorLike,
    size: TensorLike,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Boxes of images, all resized to one size.

    Args:
      images: any real dtype `[batch, rows, columns, channels]`.
      boxes: float32 `[n, 4]`, top, left, bottom, right as fractions of rows - 1 and columns - 1; top > bottom flips.
      box_indices: int32 `[n]`, which image each box is of.
      size: int32 `[2]`, rows and columns of the crops.
      method: "bilinear" or "nearest".
      extrapolation_value: what lies outside the image.
      name: the operation's name.
    Returns:
      float32 `[n, *size, channels]`.
    Raises:
      OutOfRangeError: there is no such image.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.reshape([0.0, 1.0, 2.0, 3.0], [1, 2, 2, 1])
      ...     y = hr.image.crop_and_resize(x, [[0.0, 0.0, 1.0, 0.5]], [0], [2, 2])
      >>> print(hr.Session(graph).run(y)[0, :, :, 0].tolist())
      [[0.0, 0.5], [2.0, 2.5]]
    """
    result: Tensor = apply_op(
        "CropAndResize", convert_to_tensor(images), boxes, box_indices, size, method=method,
        extrapolation_value=extrapolation_value, name=name,
    )  # fmt: skip
    return result


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    *,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = -np.inf,
    name: str | None = None,
) -> Tensor:
    """Which boxes stay when each, from the best score down, removes the worse ones that overlap it too much.

    Args:
      boxes: float16 or float32 `[n, 4]`, two opposite corners, each row before column.
      scores: the same dtype `[n]`; NaN never stays.
      max_output_size: int32 scalar, how many stay at most.
      iou_threshold: scalar in [0, 1], the overlap (area in common over area of both) that is allowed.
      score_threshold: scalar; boxes whose score is not above it do not stay.
      name: the operation's name.
    Returns:
      int32 `[m]`, their numbers, best first.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [2.0, 2.0, 3.0, 3.0]]
      ...     y = hr.image.non_max_suppression(boxes, [0.5, 0.9, 0.1], 3)
      >>> print(hr.Session(graph).run(y))
      [1 2]
    """
    thresholds = [convert_to_tensor(value) for value in (iou_threshold, score_threshold)]
    result: Tensor = apply_op("NonMaxSuppressionV3", boxes, scores, max_output_size, *thresholds, name=name)
    return result


def rgb_to_hsv(images: TensorLike, *, name: str | None = None) -> Tensor:
    """Red, green, blue in [0, 1] as hue, saturation, value.

    Args:
      images: floating `[..., 3]`.
      name: the operation's name.
    Returns:
      The same dtype and shape; a grey has hue 0, black also saturation 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.image.rgb_to_hsv([0.0, 0.5, 0.0])
      >>> print(hr.Session(graph).run(y))
      [0.33333334 1.         0.5       ]
    """
    result: Tensor = apply_op("RGBToHSV", images, name=name)
    return result


def hsv_to_rgb(images: TensorLike, *, name: str | None = None) -> Tensor:
    """Hue, saturation, value in [0, 1] as red, green, blue; the inverse of `rgb_to_hsv`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.image.hsv_to_rgb([0.5, 1.0, 0.5])
      >>> print(hr.Session(graph).run(y))
      [0.  0.5 0.5]
    """
    result: Tensor = apply_op("HSVToRGB", images, name=name)
    return result


def adjust_contrast(images: TensorLike, factor: TensorLike, *, name: str | None = None) -> Tensor:
    """Images with the difference from the mean of each channel multiplied.

    Args:
      images: float16 or float32 `[..., rows, columns, channels]`.
      factor: float32 scalar; 1 changes nothing, 0 leaves the mean.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.image.adjust_contrast([[[1.0], [3.0]]], 2.0)
      >>> print(hr.Session(graph).run(y).ravel())
      [0. 4.]
    """
    result: Tensor = apply_op("AdjustContrastv2", images, factor, name=name)
    return result


def extract_patches(
    images: TensorLike,
    sizes: Sequence[int],
    strides: Sequence[int] = (1, 1),
    *,
    rates: Sequence[int] = (1, 1),
    padding: str = "VALID",
    name: str | None = None,
) -> Tensor:
    """The pixels of each window of an image, one after the other along the channels.

    Args:
      images: `[batch, rows, columns, channels]`.
      sizes: rows and columns of a patch.
      strides: pixels from one patch to the next.
      rates: pixels from one pixel of a patch to the next.
      padding: "VALID", or "SAME" for ceil(size / stride) patches with zeros outside.
      name: the operation's name.
    Returns:
      `[batch, patches down, patches across, sizes[0] * sizes[1] * channels]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.image.extract_patches(hr.reshape(hr.arange(6), [1, 2, 3, 1]), [2, 2])
      >>> print(hr.Session(graph).run(y)[0, 0].tolist())
      [[0, 1, 3, 4], [1, 2, 4, 5]]
    """
    lists = {"ksizes": sizes, "strides": strides, "rates": rates}
    attrs = {key: [1, *given, 1] for key, given in lists.items()}
    result: Tensor = apply_op("ExtractImagePatches", convert_to_tensor(images), **attrs, padding=padding, name=name)
    return result
