"""Cases of the incomplete gamma and beta functions; the expected values come from 40-digit arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase

_INF, _NAN = np.inf, np.nan
_A = [0.125, 0.5, 1, 2.5, 10, 40, 3]
_X = [0.25, 0.75, 3, 2, 12, 35, 0.5]
_LOWER = [
    0.86966465455028636, 0.77932863808015321, 0.95021293163213606, 0.45058404864721977, 0.75760783832948765,
    0.21980955482531797, 0.014387677966970687,
]  # fmt: skip
_UPPER = [
    0.13033534544971364, 0.22067136191984679, 0.049787068367863943, 0.54941595135278023, 0.24239216167051235,
    0.78019044517468203, 0.98561232203302931,
]  # fmt: skip
_SLOPE = [
    -1.0324540049850996, -0.50499326470352037, -0.096482941991346353, -0.27455132194588155, -0.097177972037179651,
    -0.048001196414801838, -0.028520235878828942,
]  # fmt: skip
_QUANTILE_SLOPE = [
    2.9693684562343128, 1.641012976380872, 1.937911693824961, 0.9534627029186165, 1.1123294430180884,
    0.93862102027777458, 0.37617535631048192,
]  # fmt: skip
_BETA = [[0.5, 2, 5, 0.75, 3, 20], [0.25, 2, 5, 0.75, 3.5, 4], [0.125, 0.5, 0.875, 0.9375, 0.25, 0.75]]
_BETA_VALUES = [
    0.13935328411910122, 0.5, 0.99751771986484528, 0.90096265152909517, 0.13513747212396331, 0.13695671561271183,
]  # fmt: skip


def _arrays(dtype: str, *values: Any) -> list[Any]:
    return [np.array(item, dtype) for item in values]


CASES = [
    # The gradient is checked by x only: by a there is no second one. tests/ops/test_incomplete.py checks the first.
    *(
        OpCase(f"{op}/{dtype}", op, _arrays(dtype, _A, _X), expected=np.array(values), differentiate=differentiate)
        for op, values, narrow, differentiate in (
            ("Igamma", _LOWER, True, (1,)),
            ("Igammac", _UPPER, True, (1,)),
            ("IgammaGradA", _SLOPE, False, None),
            ("RandomGammaGrad", _QUANTILE_SLOPE, False, None),
        )
        for dtype in (("float16", "float32", "float64") if narrow else ("float32", "float64"))
    ),
    *(
        OpCase(
            f"{op}/edges",
            op,
            _arrays("float64", [0, -1, 1, 1, 1, _INF, 2, _NAN], [1, 1, -1, 0, _INF, 1, _NAN, 1]),
            expected=np.array(values),
            differentiate=(),  # of infinities and edges
        )
        for op, values in (
            ("Igamma", [_NAN, _NAN, _NAN, 0, 1, 0, _NAN, _NAN]),
            ("Igammac", [_NAN, _NAN, _NAN, 1, 0, 1, _NAN, _NAN]),
        )
    ),
    *(
        OpCase(
            f"{op}/both infinite",
            op,
            _arrays("float64", [_INF], [_INF]),
            expected=np.array([_NAN]),
            differentiate=(),
            deviation="TensorFlow gives 0 for both, though they add up to 1",
        )
        for op in ("Igamma", "Igammac")
    ),
    OpCase(
        "Igamma/broadcasts",
        "Igamma",
        _arrays("float64", [[1], [1]], [0.5, 2]),
        expected=lambda a, x: 1 - np.exp(-x) + 0 * a,
        differentiate=(1,),
    ),
    OpCase("Igamma/empty", "Igamma", _arrays("float32", [], []), expected=np.zeros(0, np.float32)),
    OpCase(
        "Igammac/far out",
        "Igammac",
        _arrays("float64", [1, 2], [300, 300]),
        expected=lambda a, x: np.exp(-x) * np.array([1, 301]),
        differentiate=(),  # numbers of 1e-130
    ),
    *(
        OpCase(
            f"Betainc/{dtype}", "Betainc", _arrays(dtype, *_BETA), expected=np.array(_BETA_VALUES), differentiate=(2,)
        )
        for dtype in ("float32", "float64")
    ),
    OpCase(
        "Betainc/edges",
        "Betainc",
        _arrays("float64", [1, 1, 1, 1, 0, 1, 1], [2, 2, 2, 2, 1, -1, 1], [0, 1, -0.5, 1.5, 0.5, 0.5, _NAN]),
        expected=np.array([0, 1, _NAN, _NAN, _NAN, _NAN, _NAN]),
        differentiate=(),
    ),
    OpCase(
        "Betainc/scalar shapes",
        "Betainc",
        _arrays("float64", 1, 1, [0.25, 0.5]),
        expected=np.array([0.25, 0.5]),
        differentiate=(2,),
    ),
    OpCase(
        "Betainc/shapes differ",
        "Betainc",
        _arrays("float32", [1, 2], [1, 2, 3], 0.5),
        raises="parameters differ in shape",
    ),
]
