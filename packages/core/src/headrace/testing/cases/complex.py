"""Cases of the complex family."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

_PARTS: dict[str, Callable[[complex], float]] = {
    "Real": lambda z: z.real,
    "Imag": lambda z: z.imag,
    "ComplexAbs": abs,
    "Angle": lambda z: math.atan2(z.imag, z.real),
}
_WIDTHS = (("complex64", "float32"), ("complex128", "float64"))


def _each(function: Callable[[complex], Any], dtype: str) -> Callable[..., Any]:
    def expected(z: Any) -> Any:
        return np.array([function(item) for item in z.reshape(-1).tolist()], dtype).reshape(z.shape)

    return expected


CASES = [
    *(
        OpCase(f"{op}/{dtype} {what}", op, [z.astype(dtype)], attrs={"Tout": part}, expected=_each(function, part))
        for op, function in _PARTS.items()
        for dtype, part in _WIDTHS
        for what, z in (
            ("matrix", numbers("complex128", 3, 5)),
            ("odd size", numbers("complex128", 17)),
            ("scalar", np.array(3 - 4j)),
            ("empty", np.zeros([0, 2], np.complex128)),
            ("zero and axes", np.array([0, 1, -1, 1j, -1j])),
        )
    ),
    OpCase(
        "ComplexAbs/no overflow",
        "ComplexAbs",
        [np.array([3e30 + 4e30j], np.complex64)],
        expected=np.array([5e30], np.float32),
    ),
    OpCase(
        "ComplexAbs/NaN and infinity",
        "ComplexAbs",
        [np.array([complex(np.nan, 1), complex(np.inf, np.nan)], np.complex64)],
        expected=np.array([np.nan, np.inf], np.float32),
    ),
    *(
        OpCase(f"Conj/{dtype}", "Conj", [numbers(dtype, 3, 5)], expected=_each(lambda z: z.conjugate(), dtype))
        for dtype, _ in _WIDTHS
    ),
    OpCase("Conj/scalar", "Conj", [np.array(1 - 2j)], expected=np.array(1 + 2j)),
    *(
        OpCase(
            f"Complex/{dtype}",
            "Complex",
            [numbers(part, 3, 1), numbers(part, 4, seed=1)],
            attrs={"Tout": dtype},
            expected=lambda a, b, dtype=dtype: (a + 1j * b.astype(np.float64)).astype(dtype),
            differentiate=(),
        )
        for dtype, part in _WIDTHS
    ),
    OpCase(
        "Complex/NaN in one part",
        "Complex",
        [np.float32(np.inf), np.float32(np.nan)],
        expected=np.array(complex(np.inf, np.nan), np.complex64),
        differentiate=(),
    ),
]
