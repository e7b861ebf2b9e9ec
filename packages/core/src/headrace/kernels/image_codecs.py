"""Kernels of the image_codecs family: PNG is written here, everything else is Pillow's work.

Source: Portable Network Graphics Specification (Third Edition), W3C 2025, for the frame of a PNG file.
"""

from __future__ import annotations

import importlib
import io
import struct
import zlib
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.image_codecs import check_pixels
from headrace.types import Array, Shape

__all__: list[str] = []

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG's number for grey, grey with opacity, colours, colours with opacity, by the number of channels."""
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise UnavailableError(
            "images are decoded by Pillow, which is not installed",
            expected="the package Pillow",
            got="none",
            hint='pip install "headrace[images]"',
        ) from error


def _opened(contents: Array) -> tuple[Any, bytes]:
    data = np.asarray(contents).item()
    if not data.startswith((_PNG, _JPEG)):
        raise InvalidArgumentError(
            "the bytes are no PNG or JPEG file",
            expected="the contents of such a file",
            got=f"{len(data)} bytes that begin with {data[:8]!r}",
            hint="hr.files.read gives the contents of a file",
        )
    library = _pillow()
    try:
        return library.open(io.BytesIO(data), formats=("PNG", "JPEG")), data
    except (OSError, ValueError, SyntaxError, library.DecompressionBombError) as error:
        raise _damaged(data, error) from error


def _damaged(data: bytes, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        "an image file is damaged",
        expected="a whole PNG or JPEG file of reasonable size",
        got=f"{len(data)} bytes: {error}",
        hint="copy the file again; a file that was cut off cannot be read",
    )


def _pixels(image: Any, data: bytes, channels: int) -> Array:
    """`[rows, columns, channels]` of uint8, or of uint16 for a grey image of 16 bits."""
    library = _pillow()
    try:
        if image.mode in ("I;16", "I") and channels in (0, 1):
            return np.asarray(image).astype(np.uint16)[..., None]
        mode = _MODES[channels] if channels else _natural_mode(image)
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, ValueError, SyntaxError, library.DecompressionBombError) as error:
        raise _damaged(data, error) from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _natural_mode(image: Any) -> str:
    """The mode with the channels that the file has: palettes stand for colours."""
    mode = str(image.mode)
    if mode in _MODES.values():
        return mode
    return "RGBA" if mode == "P" and "transparency" in image.info else "L" if mode in ("1", "I", "I;16") else "RGB"


@register_kernel("DecodePng")
def _decode_png(op: OpContext, contents: Array) -> Array:
    image, data = _opened(contents)
    wide = op.attr("dtype").size == 2
    if wide and data.startswith(_PNG) and data[24] == 16 and data[25] != 0:
        raise UnimplementedError(
            "colours of 16 bits are not supported",
            expected="a grey image of 16 bits, or dtype uint8",
            got="a PNG file with colours of 16 bits",
            hint="hr.image.decode_png(..., dtype=hr.uint8) takes the upper 8 bits",
        )
    pixels = _pixels(image, data, op.attr("channels"))
    if wide:
        return pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * np.uint16(257)
    return np.ascontiguousarray((pixels >> 8).astype(np.uint8) if pixels.dtype == np.uint16 else pixels)


@register_kernel("DecodeJpeg")
def _decode_jpeg(op: OpContext, contents: Array) -> Array:
    image, data = _opened(contents)
    channels, ratio = op.attr("channels"), op.attr("ratio")
    if data.startswith(_JPEG):
        size = tuple(max(side // ratio, 1) for side in image.size)  # rounded up by the decoder
        image.draft(_MODES[channels] if channels else None, size)
    pixels = _pixels(image, data, channels)
    return np.ascontiguousarray((pixels >> 8).astype(np.uint8) if pixels.dtype == np.uint16 else pixels)


@register_kernel("EncodePng")
def _encode_png(op: OpContext, image: Array) -> Array:
    check_pixels(op, Shape(image.shape), (1, 2, 3, 4))
    result = np.empty(image.shape[:-3], object)
    for place in np.ndindex(result.shape):
        result[place] = _png(image[place], op.attr("compression"))
    return result


def _png(pixels: Array, compression: int) -> bytes:
    """A PNG file: a header, the rows compressed, each after a byte that says that it is not filtered, and an end."""
    rows, columns, channels = pixels.shape
    if not rows or not columns:
        raise InvalidArgumentError(
            "an image without pixels cannot be encoded",
            expected="at least one row and one column",
            got=str(list(pixels.shape)),
            hint="leave empty images out",
        )
    depth = 8 * pixels.dtype.itemsize
    lines = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">"))).reshape(rows, -1).view(np.uint8)
    marked = np.concatenate([np.zeros((rows, 1), np.uint8), lines], axis=1)
    header = struct.pack(">IIBBBBB", columns, rows, depth, _COLOR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(marked.tobytes(), compression)), (b"IEND", b""))
    return _PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


@register_kernel("EncodeJpeg")
def _encode_jpeg(op: OpContext, image: Array) -> Array:
    check_pixels(op, Shape(image.shape), {"": (1, 3), "grayscale": (1,), "rgb": (3,)}[op.attr("format")])
    if not image.size:
        raise InvalidArgumentError(
            "an image without pixels cannot be encoded",
            expected="at least one row and one column",
            got=str(list(image.shape)),
            hint="leave empty images out",
        )
    picture = _pillow().fromarray(image[..., 0] if image.shape[-1] == 1 else np.ascontiguousarray(image))
    scale = 1 if op.attr("density_unit") == "in" else 2.54
    target = io.BytesIO()
    metadata = op.attr("xmp_metadata")
    picture.save(
        target,
        "JPEG",
        quality=max(op.attr("quality"), 1),
        progressive=op.attr("progressive"),
        optimize=op.attr("optimize_size"),
        subsampling=2 if op.attr("chroma_downsampling") else 0,
        dpi=(round(op.attr("x_density") * scale), round(op.attr("y_density") * scale)),
        **({"xmp": metadata if isinstance(metadata, bytes) else metadata.encode()} if metadata else {}),
    )
    result = np.empty((), object)
    result[()] = target.getvalue()
    return result
