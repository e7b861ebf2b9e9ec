"""Cases of the floating family."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase

_TINY = float(np.nextafter(np.float32(0), np.float32(1)))

CASES = [
    OpCase(
        "NextAfter/float32",
        "NextAfter",
        [np.array([1, 1, -1, 0, 3], np.float32), np.array([2, 0, np.inf, -1, 3], np.float32)],
        expected=np.array([1 + 2**-23, 1 - 2**-24, -1 + 2**-24, -_TINY, 3], np.float32),
        exact=True,
        differentiate=(),  # beyond an equal y the other neighbour is the next one
    ),
    OpCase(
        "NextAfter/float64",
        "NextAfter",
        [np.array([1.0, -1.0]), np.array([2.0, -2.0])],
        expected=np.array([1 + 2**-52, -1 - 2**-52]),
        exact=True,
    ),
    OpCase(
        "NextAfter/zeros, infinities, NaN",
        "NextAfter",
        [
            np.array([0.0, -0.0, np.inf, np.finfo(np.float64).max, np.nan, 1]),
            np.array([-0.0, 0.0, 0, np.inf, 1, np.nan]),
        ],
        expected=np.array([-0.0, 0.0, np.finfo(np.float64).max, np.inf, np.nan, np.nan]),
        differentiate=(),  # not finite
    ),
    OpCase(
        "NextAfter/broadcast",
        "NextAfter",
        [np.array([[1.0], [2.0]]), np.array([3.0, 1.5, 0.5])],
        expected=lambda x, y: np.array([[1 + 2**-52, 1 + 2**-52, 1 - 2**-53], [2 + 2**-51, 2 - 2**-52, 2 - 2**-52]]),
        exact=True,
    ),
    OpCase("NextAfter/scalar", "NextAfter", [np.float64(0), np.float64(1)], expected=np.float64(5e-324), exact=True),
    OpCase("NextAfter/empty", "NextAfter", [np.zeros([0, 1]), np.zeros(3)], expected=np.zeros([0, 3])),
    OpCase("NextAfter/shapes", "NextAfter", [np.zeros(2), np.zeros(3)], raises="do not broadcast"),
]
