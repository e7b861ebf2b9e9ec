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
_GIF, _BMP = b"GIF8", b"BM"
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
        expected="a whole file of reasonable size",
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


@register_kernel("DecodeBmp")
def _decode_bmp(op: OpContext, contents: Array) -> Array:
    return _bitmap(np.asarray(contents).item(), op.attr("channels"))


def _bitmap(data: bytes, channels: int) -> Array:
    """The pixels of an uncompressed BMP file. Not by Pillow, which leaves opacity out.

    Source: Microsoft, "Bitmap storage": the structures BITMAPFILEHEADER and BITMAPINFOHEADER.
    """
    if not data.startswith(_BMP) or len(data) < 30:
        raise InvalidArgumentError(
            "the bytes are no BMP file",
            expected="the contents of such a file",
            got=f"{len(data)} bytes that begin with {data[:8]!r}",
            hint="hr.files.read gives the contents of a file",
        )
    (start,) = struct.unpack_from("<I", data, 10)
    columns, rows, _, bits = struct.unpack_from("<iiHH", data, 18)
    depth, height = bits // 8, abs(rows)
    if bits not in (8, 24, 32) or (channels not in (0, depth) and depth == 1):
        raise UnimplementedError(
            "BMP files of this kind are not supported",
            expected="8, 24 or 32 bits for a pixel, and channels=0 for grey",
            got=f"{bits} bits and channels={channels}",
            hint="write the image as a PNG file",
        )
    pitch = -(-columns * depth // 4) * 4
    if columns < 1 or not height or start + pitch * height > len(data) + pitch - columns * depth:
        raise _damaged(data, ValueError(f"{columns} columns and {rows} rows of {bits} bits do not fit"))
    padded = np.frombuffer(data[start : start + pitch * height].ljust(pitch * height, b"\0"), np.uint8)
    pixels = padded.reshape(height, pitch)[:, : columns * depth].reshape(height, columns, depth)
    pixels = pixels if rows < 0 else pixels[::-1]  # from the lowest row up, unless the height is negative
    if depth > 1:
        pixels = pixels[..., [2, 1, 0, 3][:depth]]
    if channels == 4 and depth == 3:
        return np.pad(pixels, ((0, 0), (0, 0), (0, 1)), constant_values=255)
    return np.ascontiguousarray(pixels[..., : channels or depth])


@register_kernel("DecodeImage")
def _decode_image(op: OpContext, contents: Array) -> Array:
    data, channels, dtype = np.asarray(contents).item(), op.attr("channels"), op.attr("dtype")
    if data.startswith(_GIF):
        raise UnimplementedError(
            "GIF files are not decoded",
            expected="a PNG, JPEG or BMP file",
            got=f"{len(data)} bytes that begin with {data[:6]!r}",
            hint="write the first image of the file as a PNG file",
        )
    if data.startswith(_PNG) and dtype.size == 2:
        return _decode_png(op, contents)
    if data.startswith(_BMP):
        _check_channels(channels, (0, 3, 4), "a BMP file")
        pixels = _bitmap(data, channels)
    else:
        image, _ = _opened(contents)
        _check_channels(channels, (0, 1, 3, 4) if data.startswith(_PNG) else (0, 1, 3), "a JPEG file")
        pixels = _pixels(image, data, channels)
    if dtype.size == 4:
        return np.ascontiguousarray(pixels / np.float32(np.iinfo(pixels.dtype).max), np.float32)
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return np.ascontiguousarray(pixels) if dtype.size == 1 else pixels.astype(np.uint16) * np.uint16(256)


def _check_channels(channels: int, allowed: tuple[int, ...], kind: str) -> None:
    if channels not in allowed:
        raise InvalidArgumentError(
            f"{kind} has another number of channels",
            expected=", ".join(map(str, allowed)),
            got=str(channels),
            hint="0 stands for as many as the file has",
        )


@register_kernel("ExtractJpegShape")
def _jpeg_shape(op: OpContext, contents: Array) -> Array:
    data = np.asarray(contents).item()
    image, _ = _opened(contents)
    if not data.startswith(_JPEG):
        raise InvalidArgumentError(
            "the bytes are no JPEG file",
            expected="the contents of such a file",
            got=f"{len(data)} bytes that begin with {data[:8]!r}",
            hint="decode it, and take hr.shape of the image",
        )
    columns, rows = image.size
    return np.array([rows, columns, len(image.getbands())], op.attr("output_type").array_type)


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
