"""Cases of the image_codecs family that hold with and without Pillow: what is refused.

What is decoded is checked by tests/ops/test_image_codecs.py, against other decoders: files of one image differ by who
wrote them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase


def _text(value: bytes) -> Any:
    result = np.empty((), object)
    result[()] = value
    return result


_GREY = np.zeros((2, 2, 1), np.uint8)

CASES = [
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
