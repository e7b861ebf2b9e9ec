"""Cases of the pooling of volumes. What must come out is found window by window, from the definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16


def _numbers(*shape: int, dtype: Any = np.float32) -> Array:
    """Distinct multiples of 1/8 around 0, so that no two values of a window are equal."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size)
    return np.asarray((order - size // 2) / 8, dtype).reshape(shape)


def _windows(
    shape: tuple[int, ...], taps: tuple[int, ...], strides: tuple[int, ...], padding: str
) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Each output and the inputs of its window, in order; both with channels last."""
    spans = []
    for size, count, stride in zip(shape[1:4], taps, strides, strict=True):
        outputs = -(-size // stride) if padding == "SAME" else (size - count) // stride + 1
        before = max((outputs - 1) * stride + count - size, 0) // 2 if padding == "SAME" else 0
        spans.append([(max(0, o * stride - before), min(size, o * stride - before + count)) for o in range(outputs)])
    for n, i, j, k, c in np.ndindex(shape[0], *(len(span) for span in spans), shape[4]):
        inside = (range(*span[at]) for span, at in zip(spans, (i, j, k), strict=True))
        yield (n, i, j, k, c), [(n, *place, c) for place in _product(*inside)]


def _product(depth: range, rows: range, columns: range) -> Iterator[tuple[int, int, int]]:
    for plane in depth:
        for row in rows:
            for column in columns:
                yield plane, row, column


def _first_largest(x: Array, window: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The first NaN if there is one, else the first of the largest values."""
    return next((place for place in window if x[place] != x[place]), max(window, key=lambda place: x[place]))


def _all(
    label: str, x: Array, taps: tuple[int, ...], strides: tuple[int, ...], padding: str = "VALID", **options: Any
) -> Iterator[OpCase]:
    """The five operations on one configuration, channels last."""
    windows = list(_windows(x.shape, taps, strides, padding))
    shape = tuple(
        -(-size // stride) if padding == "SAME" else (size - count) // stride + 1
        for size, count, stride in zip(x.shape[1:4], taps, strides, strict=True)
    )
    shape = (x.shape[0], *shape, x.shape[4])
    largest, mean = np.zeros(shape, x.dtype), np.zeros(shape)
    g, back = _numbers(*shape, dtype=x.dtype), _numbers(*x.shape, dtype=x.dtype)
    by_largest, by_mean, taken = np.zeros(x.shape), np.zeros(x.shape), np.zeros(shape)
    for output, window in windows:
        place = _first_largest(x, window)
        largest[output] = x[place]
        by_largest[place] += float(g[output])
        taken[output] = float(back[place])
        mean[output] = sum(float(x[item]) for item in window) / len(window)
        for item in window:
            by_mean[item] += float(g[output]) / len(window)
    attrs = {"ksize": [1, *taps, 1], "strides": [1, *strides, 1], "padding": padding}
    sizes = np.array(x.shape, np.int32)
    only = {**options, "differentiate": options.get("differentiate", (2,))}
    yield OpCase(f"MaxPool3D/{label}", "MaxPool3D", [x], attrs, expected=largest, exact=True, **options)
    yield OpCase(f"MaxPool3DGrad/{label}", "MaxPool3DGrad", [x, largest, g], attrs, expected=by_largest, **only)
    yield OpCase(f"MaxPool3DGradGrad/{label}", "MaxPool3DGradGrad", [x, largest, back], attrs, expected=taken, **only)
    if not np.isnan(x).any():
        yield OpCase(f"AvgPool3D/{label}", "AvgPool3D", [x], attrs, expected=mean)
        yield OpCase(f"AvgPool3DGrad/{label}", "AvgPool3DGrad", [sizes, g], attrs, expected=by_mean)


def _first(case: OpCase) -> OpCase:
    """The same case with channels first, which TensorFlow computes on no CPU."""

    def turned(value: Any) -> Any:
        if np.ndim(value) == 1:
            return np.asarray(value)[[0, 4, 1, 2, 3]]
        return np.ascontiguousarray(np.moveaxis(value, -1, 1))

    attrs = {name: [1, 1, *value[1:4]] for name, value in case.attrs.items() if name in ("ksize", "strides")}
    return replace(
        case,
        id=f"{case.id}, NCDHW",
        inputs=[turned(value) for value in case.inputs],
        attrs={**case.attrs, **attrs, "data_format": "NCDHW"},
        expected=turned(case.expected),
        oracle=False,
    )


_WHOLE = _numbers(1, 3, 4, 3, 2)
_NAN_VOLUME = np.array([1, np.nan, 2, 5, np.inf, 7, -np.inf, 3], np.float32).reshape(1, 2, 2, 2, 1)
_KEEPS_NAN = "TensorFlow drops a NaN that is not the first of its window; relu, maximum and max keep it there and here"
_GIVES_TWICE = "TensorFlow gives each of equal values the whole gradient of the window; its MaxPoolGrad gives it once"
_PLAIN = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}


def _wrong(label: str, raises: str, x: Array = _WHOLE, **changes: Any) -> list[OpCase]:
    return [
        OpCase(f"{name}/{label}", name, [x], {**_PLAIN, **changes}, raises=raises)
        for name in ("MaxPool3D", "AvgPool3D")
    ]


_CONFIGURATIONS = [
    *_all("2 by 2 by 2", _numbers(2, 4, 2, 4, 2), (2, 2, 2), (2, 2, 2)),
    *_all("odd size, SAME", _numbers(1, 3, 5, 3, 2), (2, 2, 2), (2, 2, 2), "SAME"),
    *_all("overlapping", _numbers(1, 3, 4, 3, 2), (2, 3, 2), (1, 1, 1)),
    *_all("overlapping, SAME", _numbers(1, 3, 4, 3, 1), (3, 2, 3), (1, 2, 1), "SAME"),
    *_all("stride beyond the window", _numbers(1, 4, 5, 4, 1), (1, 2, 1), (2, 3, 3)),
    *_all("no volume", _numbers(0, 2, 2, 2, 1), (2, 2, 2), (2, 2, 2)),
]

CASES = [
    *_CONFIGURATIONS,
    *(_first(case) for case in _all("overlapping, SAME", _numbers(2, 3, 4, 2, 3), (3, 2, 1), (1, 2, 1), "SAME")),
    *(
        case
        for dtype in ("float64", "float16")
        for case in _all(dtype, _numbers(1, 2, 3, 2, 2, dtype=dtype), (2, 2, 2), (1, 1, 1))
    ),
    *_all("bfloat16", _numbers(1, 2, 3, 2, 2, dtype=bfloat16.array_type), (2, 2, 2), (1, 1, 1), "SAME"),
    # Ties and NaN are kinks: there is no derivative to compare with.
    *(
        replace(case, differentiate=(), deviation=_GIVES_TWICE if case.op == "MaxPool3DGrad" else None)
        if "MaxPool" in case.op
        else case
        for case in _all("G05 ties", np.ones((1, 2, 3, 2, 1), np.float32), (2, 2, 2), (1, 1, 1))
    ),
    *_all("C01 NaN", _NAN_VOLUME, (2, 2, 2), (1, 1, 1), "SAME", differentiate=(), deviation=_KEEPS_NAN),
    *_wrong("O39 window 0", "attr 'ksize' is not right", np.ones((1, 1, 1, 1, 1), np.float32), ksize=[1, 0, 1, 1, 1]),
    *_wrong("O39 stride 0", "attr 'strides' is not right", strides=[1, 0, 2, 2, 1]),
    *_wrong("four sizes", "attr 'ksize' is too short", ksize=[1, 2, 2, 1]),
    *_wrong("window over channels", "attr 'ksize' reaches over volumes or channels", ksize=[1, 2, 2, 2, 2]),
    *_wrong("window does not fit", "the window does not fit", ksize=[1, 9, 2, 2, 1]),
    *_wrong("rank 4", "rank is wrong", _WHOLE[0]),
    OpCase(
        "MaxPool3DGrad/wrong gradient",
        "MaxPool3DGrad",
        [_WHOLE, _WHOLE[:, :1, :2, :1], _WHOLE[:, :1, :1, :1]],
        _PLAIN,
        raises="grad does not fit the pooling",
    ),
    OpCase(
        "MaxPool3DGrad/wrong output",
        "MaxPool3DGrad",
        [_WHOLE, _WHOLE[:, :1, :1, :1], _WHOLE[:, :1, :2, :1]],
        _PLAIN,
        raises="orig_output does not fit the pooling",
    ),
    OpCase(
        "MaxPool3DGradGrad/wrong gradient",
        "MaxPool3DGradGrad",
        [_WHOLE, _WHOLE[:, :1, :2, :1], _WHOLE[:, :1, :2, :1]],
        _PLAIN,
        raises="grad does not fit",
    ),
    OpCase(
        "AvgPool3DGrad/negative size",
        "AvgPool3DGrad",
        [np.array([1, 3, -4, 3, 2], np.int32), _WHOLE[:, :1, :2, :1]],
        _PLAIN,
        raises="orig_input_shape has a negative size",
    ),
    OpCase(
        "AvgPool3DGrad/wrong gradient",
        "AvgPool3DGrad",
        [np.array([1, 3, 4, 3, 2], np.int32), _WHOLE[:, :1, :1, :1]],
        _PLAIN,
        raises="grad does not fit the pooling",
        deviation="TensorFlow computes with a gradient that belongs to volumes of another size",
    ),
]
