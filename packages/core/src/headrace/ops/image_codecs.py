"""Images as files hold them (`hr.image`): PNG and JPEG, to and from arrays of pixels.

Decoding, and encoding of JPEG, ask for the package Pillow: `pip install "headrace[images]"`.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import DTypeLike, Shape, as_dtype, float32, int32, int64, uint8, uint16

__all__ = ["check_pixels", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png"]

_DEPTH = AttrSpec("type", default=uint8, allowed=(uint8, uint16))
_PNG_CHANNELS, _JPEG_CHANNELS = (0, 1, 3, 4), (0, 1, 3)


def _decoded(op: InferenceContext, allowed: tuple[int, ...]) -> list[Shape]:
    check_scalar(op.inputs[0].shape, "contents")
    channels = int(op.attr("channels"))
    if channels not in allowed:
        raise InvalidArgumentError(
            "images have another number of channels",
            expected=", ".join(map(str, allowed)) + "; 0 for as many as the file has",
            got=str(channels),
            hint="1 is grey, 3 is red, green and blue, 4 these and opacity",
        )
    return [Shape([None, None, channels or None])]


@register_op(
    "DecodePng",
    inputs={"contents": "string"},
    outputs={"image": "dtype"},
    attrs={"channels": attr.int(0), "dtype": _DEPTH},
)
def _decode_png_shape(op: InferenceContext) -> list[Shape]:
    """The pixels of a PNG or JPEG file: `[rows, columns, channels]`; 0 channels stands for those that it has."""
    return _decoded(op, _PNG_CHANNELS)


@register_op("DecodeBmp", inputs={"contents": "string"}, outputs={"image": "uint8"}, attrs={"channels": attr.int(0)})
def _decode_bmp_shape(op: InferenceContext) -> list[Shape]:
    """The pixels of a BMP file: `[rows, columns, channels]`; 0 channels stands for those that it has."""
    return _decoded(op, _PNG_CHANNELS)


@register_op(
    "DecodeImage",
    inputs={"contents": "string"},
    outputs={"image": "dtype"},
    attrs={
        "channels": attr.int(0),
        "dtype": AttrSpec("type", default=uint8, allowed=(uint8, uint16, float32)),
        "expand_animations": attr.bool(True),
    },
)
def _decode_image_shape(op: InferenceContext) -> list[Shape]:
    """The pixels of a PNG, JPEG or BMP file; floats are in [0, 1]. With `expand_animations` the rank is not known."""
    shapes = _decoded(op, _PNG_CHANNELS)
    return [Shape()] if op.attr("expand_animations") else shapes


@register_op(
    "ExtractJpegShape",
    inputs={"contents": "string"},
    outputs={"image_shape": "output_type"},
    attrs={"output_type": attr.type(int32, int64, default=int32)},
)
def _jpeg_shape_shape(op: InferenceContext) -> list[Shape]:
    """Rows, columns and channels of a JPEG file, of which only the head is read."""
    check_scalar(op.inputs[0].shape, "contents")
    return [Shape([3])]


@register_op(
    "DecodeJpeg",
    inputs={"contents": "string"},
    outputs={"image": "uint8"},
    attrs={
        "channels": attr.int(0),
        "ratio": attr.int(1),
        "fancy_upscaling": attr.bool(True),
        "try_recover_truncated": attr.bool(False),
        "acceptable_fraction": attr.float(1.0),
        "dct_method": attr.string(""),
    },
)
def _decode_jpeg_shape(op: InferenceContext) -> list[Shape]:
    """The pixels of a JPEG or PNG file; a JPEG is decoded at 1, 1/2, 1/4 or 1/8 of its size by `ratio`."""
    if op.attr("ratio") not in (1, 2, 4, 8):
        raise InvalidArgumentError(
            "the ratio is not right", expected="1, 2, 4 or 8", got=str(op.attr("ratio")), hint="hr.image.resize later"
        )
    return _decoded(op, _JPEG_CHANNELS)


def check_pixels(op: HasAttrs, image: Shape, allowed: tuple[int, ...]) -> None:
    """Raise ShapeError unless an image is `[..., rows, columns, channels]` with a number of channels that exists."""
    if image.rank is None:
        return
    channels = image.dims[-1] if image.dims else 0
    if image.rank < 3 or (channels is not None and channels not in allowed):
        raise ShapeError(
            "these are no pixels of an image",
            expected=f"[rows, columns, channels] with {', '.join(map(str, allowed))} channels",
            got=str(image),
            hint="hr.expand_dims(image, -1) gives a grey image its axis of channels",
        )


@register_op(
    "EncodePng",
    inputs={"image": "T"},
    outputs={"contents": "string"},
    attrs={"compression": attr.int(-1, minimum=-1), "T": _DEPTH},
)
def _encode_png_shape(op: InferenceContext) -> list[Shape]:
    """Pixels `[..., rows, columns, channels]` as the bytes of PNG files, with 1 to 4 channels of 8 or 16 bits."""
    image = op.inputs[0].shape
    check_pixels(op, image, (1, 2, 3, 4))
    if op.attr("compression") > 9:
        raise InvalidArgumentError(
            "the compression is not right", expected="-1 to 9", got=str(op.attr("compression")), hint="9 takes longest"
        )
    return [Shape() if image.dims is None else Shape(image.dims[:-3])]


@register_op(
    "EncodeJpeg",
    inputs={"image": "uint8"},
    outputs={"contents": "string"},
    attrs={
        "format": attr.string("", allowed=["", "grayscale", "rgb"]),
        "quality": attr.int(95),
        "progressive": attr.bool(False),
        "optimize_size": attr.bool(False),
        "chroma_downsampling": attr.bool(True),
        "density_unit": attr.string("in", allowed=["in", "cm"]),
        "x_density": attr.int(300),
        "y_density": attr.int(300),
        "xmp_metadata": attr.string(""),
    },
)
def _encode_jpeg_shape(op: InferenceContext) -> list[Shape]:
    """Pixels `[rows, columns, channels]` as the bytes of a JPEG file, grey or in colours."""
    wanted = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}[str(op.attr("format"))]
    check_pixels(op, op.inputs[0].shape.with_rank(3), wanted)
    if not 0 <= op.attr("quality") <= 100:
        raise InvalidArgumentError(
            "the quality is not right", expected="0 to 100", got=str(op.attr("quality")), hint="95 is usual"
        )
    return [Shape([])]


def decode_png(contents: TensorLike, channels: int = 0, dtype: DTypeLike = uint8, *, name: str | None = None) -> Tensor:
    """The pixels of a PNG file; JPEG files are taken too.

    Args:
      contents: string scalar, the bytes of the file.
      channels: 1 for grey, 3 for colours, 4 for colours and opacity, or 0 for what the file has.
      dtype: uint8 or uint16.
      name: the operation's name.
    Returns:
      `[rows, columns, channels]`.
    Raises:
      InvalidArgumentError: in the step, if the bytes are no image.
      UnavailableError: in the step, if Pillow is not installed.
    """
    result: Tensor = apply_op("DecodePng", contents, channels=channels, dtype=as_dtype(dtype), name=name)
    return result


def decode_jpeg(contents: TensorLike, channels: int = 0, *, ratio: int = 1, name: str | None = None) -> Tensor:
    """The pixels of a JPEG file; PNG files are taken too.

    Args:
      contents: string scalar, the bytes of the file.
      channels: 1 for grey, 3 for colours, or 0 for what the file has.
      ratio: 1, 2, 4 or 8: decode it at a fraction of its size, which is faster.
      name: the operation's name.
    Returns:
      uint8 `[rows, columns, channels]`. Decoders round differently: pixels differ by a few units from TensorFlow's.
    Raises:
      InvalidArgumentError: in the step, if the bytes are no image.
      UnavailableError: in the step, if Pillow is not installed.
    """
    result: Tensor = apply_op("DecodeJpeg", contents, channels=channels, ratio=ratio, name=name)
    return result


def encode_png(image: TensorLike, *, compression: int = -1, name: str | None = None) -> Tensor:
    """Pixels as the bytes of PNG files.

    Args:
      image: uint8 or uint16 `[..., rows, columns, channels]` with 1 to 4 channels: grey, colours, each with opacity or
        without.
      compression: 0 for none to 9 for the smallest files; -1 for what is usual.
      name: the operation's name.
    Returns:
      string `[...]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     png = hr.image.encode_png(hr.zeros([2, 2, 3], hr.uint8))
      >>> hr.Session(graph).run(png).item()[1:4]
      b'PNG'
    """
    result: Tensor = apply_op("EncodePng", image, compression=compression, name=name)
    return result


def encode_jpeg(image: TensorLike, *, quality: int = 95, progressive: bool = False, name: str | None = None) -> Tensor:
    """Pixels as the bytes of a JPEG file.

    Args:
      image: uint8 `[rows, columns, channels]` with 1 or 3 channels.
      quality: 0 to 100.
      progressive: a file that shows the whole image early.
      name: the operation's name.
    Returns:
      string scalar.
    Raises:
      UnavailableError: in the step, if Pillow is not installed.
    """
    result: Tensor = apply_op("EncodeJpeg", image, quality=quality, progressive=progressive, name=name)
    return result
