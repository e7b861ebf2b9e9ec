"""Files of images have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("DecodePng", "DecodeJpeg", "DecodeBmp", "DecodeImage", "ExtractJpegShape"):
    no_gradient(_name, "its input is a string")
for _name in ("EncodePng", "EncodeJpeg"):
    no_gradient(_name, "its output is a string")
