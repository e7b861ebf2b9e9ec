"""Cases of the random family: what the operations refuse; what they give depends on what went before (tests/ops)."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase

CASES = [
    *(
        OpCase(f"{op}/negative size", op, [np.array([2, -1], np.int32)], {"dtype": "float32"}, raises="a negative size")
        for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
    ),
    OpCase(
        "RandomUniform/shape is a matrix",
        "RandomUniform",
        [np.array([[2, 3]], np.int32)],
        {"dtype": "float32"},
        raises="takes its shape in another shape",
    ),
    OpCase(
        "RandomUniformInt/nothing between the bounds",
        "RandomUniformInt",
        [np.array([5], np.int32), np.int32(4), np.int32(-4)],
        raises=r"has no integer to draw[\s\S]*minval < maxval[\s\S]*4 and -4",
    ),
    OpCase(
        "Multinomial/no classes",
        "Multinomial",
        [np.zeros((2, 0), np.float32), np.int32(1)],
        raises=r"cannot draw classes from these inputs[\s\S]*logits \[2, 0\]",
    ),
]
