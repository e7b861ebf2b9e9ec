"""Cases of the control family."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase

_MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)

CASES = [
    OpCase("Identity/matrix", "Identity", [_MATRIX], expected=lambda x: x, exact=True),
    OpCase("Identity/strings", "Identity", [np.array([b"", b"\x00\xff", b"a\x00"], object)], expected=lambda x: x),
    OpCase("Identity/scalar", "Identity", [np.float64(-0.0)], expected=lambda x: x, exact=True),
    OpCase("StopGradient/matrix", "StopGradient", [_MATRIX], expected=lambda x: x, exact=True),
    OpCase("PreventGradient/matrix", "PreventGradient", [_MATRIX], expected=lambda x: x, exact=True, differentiate=()),
]
