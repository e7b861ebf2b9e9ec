"""Cases of the image_codecs family that hold with and without Pillow: what is refused.

What is decoded is checked by tests/ops/test_image_codecs.py, against other decoders: files of one image differ by who
wrote them.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase


def _text(value: bytes) -> Any:
    result = np.empty((), object)
    result[()] = value
    return result


_GREY = np.zeros((2, 2, 1), np.uint8)

_COLOURS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4) * np.uint8(9)


def _bitmap(pixels: np.ndarray, *, downward: bool = False) -> bytes:
    """A BMP file of `[rows, columns, channels]`."""
    rows, columns, depth = pixels.shape
    stored = pixels[..., [2, 1, 0, 3][:depth]] if depth > 2 else pixels
    lines = [line.tobytes().ljust(-(-columns * depth // 4) * 4, b"\0") for line in stored]
    content = b"".join(lines if downward else lines[::-1])
    head = b"BM" + struct.pack("<IHHI", 54 + len(content), 0, 0, 54)
    sizes = (40, columns, -rows if downward else rows, 1, 8 * depth, 0, len(content), 0, 0, 0, 0)
    return head + struct.pack("<IiiHHIIiiII", *sizes) + content


def _bmp(what: str, pixels: np.ndarray, expected: Any, *, downward: bool = False, **attrs: Any) -> OpCase:
    op = "DecodeImage" if "dtype" in attrs else "DecodeBmp"
    contents = _text(_bitmap(pixels, downward=downward))
    if isinstance(expected, str):
        return OpCase(f"{op}/{what}", op, [contents], attrs, raises=expected)
    return OpCase(f"{op}/{what}", op, [contents], attrs, expected)


_RGB, _OPAQUE = _COLOURS[..., :3], np.concatenate([_COLOURS[..., :3], np.full((2, 3, 1), 255, np.uint8)], axis=2)
_BITMAPS = [
    _bmp("colours", _RGB, _RGB),
    _bmp("opacity", _COLOURS, _COLOURS),
    _bmp("grey", _COLOURS[..., :1], _COLOURS[..., :1]),
    _bmp("downward", _RGB, _RGB, downward=True),
    _bmp("without opacity", _COLOURS, _RGB, channels=3),
    _bmp("colours, uint8", _RGB, _RGB, dtype="uint8"),
    _bmp("colours, uint16", _RGB, _RGB.astype(np.uint16) * np.uint16(256), dtype="uint16"),
    _bmp("colours, float32", _RGB, _RGB / np.float32(255), dtype="float32", expand_animations=False),
    _bmp("opaque", _RGB, _OPAQUE, dtype="uint8", channels=4),
    _bmp("grey asked for", _RGB, "a BMP file has another number of channels", dtype="uint8", channels=1),
    OpCase("DecodeBmp/cut off", "DecodeBmp", [_text(_bitmap(_RGB)[:60])], raises="an image file is damaged"),
    OpCase("DecodeBmp/no image", "DecodeBmp", [_text(b"nonsense")], raises="no BMP file"),
    OpCase(
        "DecodeBmp/16 bits",
        "DecodeBmp",
        [_text(_bitmap(_COLOURS[..., :2]))],
        raises="BMP files of this kind are not supported",
    ),
    OpCase(
        "DecodeImage/animation",
        "DecodeImage",
        [_text(b"GIF89a")],
        raises="GIF files are not decoded",
    ),
    OpCase("DecodeImage/no image", "DecodeImage", [_text(b"nonsense")], raises="no PNG or JPEG file"),
    OpCase(
        "DecodeImage/two channels", "DecodeImage", [_text(b"a")], {"channels": 2}, raises="another number of channels"
    ),
    OpCase("ExtractJpegShape/no image", "ExtractJpegShape", [_text(b"nonsense")], raises="no PNG or JPEG file"),
    OpCase("ExtractJpegShape/two files", "ExtractJpegShape", [np.array([b"a"], object)], raises="must be a scalar"),
]

CASES = [
    *_BITMAPS,
    *(
        OpCase(f"{op}/{label}", op, [contents], attrs, raises=text)
        for op in ("DecodePng", "DecodeJpeg")
        for label, contents, attrs, text in (
            ("no image", _text(b"GIF89a"), {}, "no PNG or JPEG file"),
            ("nothing", _text(b""), {}, "no PNG or JPEG file"),
            ("two files", np.array([b"a", b"b"], object), {}, "contents must be a scalar"),
            ("two channels", _text(b"a"), {"channels": 2}, "another number of channels"),
        )
    ),
    OpCase("DecodeJpeg/ratio", "DecodeJpeg", [_text(b"a")], {"ratio": 3}, raises="ratio is not right"),
    *(
        OpCase(f"EncodePng/{label}", "EncodePng", [image], attrs, raises=text)
        for label, image, attrs, text in (
            ("a matrix", _GREY[..., 0], {}, "no pixels of an image"),
            ("five channels", np.zeros((2, 2, 5), np.uint8), {}, "no pixels of an image"),
            ("no rows", _GREY[:0], {}, "without pixels"),
            ("compression", _GREY, {"compression": 10}, "compression is not right"),
        )
    ),
    *(
        OpCase(f"EncodeJpeg/{label}", "EncodeJpeg", [image], attrs, raises=text)
        for label, image, attrs, text in (
            ("opacity", np.zeros((2, 2, 4), np.uint8), {}, "no pixels of an image"),
            ("colours asked for", _GREY, {"format": "rgb"}, "no pixels of an image"),
            ("no rows", _GREY[:0], {}, "without pixels"),
            ("quality", _GREY, {"quality": 101}, "quality is not right"),
        )
    ),
]
