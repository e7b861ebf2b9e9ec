"""Cases of attention. What must come out is computed one query after the other in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers
from headrace.types import Array

_TRUE = np.array(True)


def _attention(scale: float | None = None, causal: bool = False) -> Callable[..., Array]:
    def reference(query: Array, key: Array, value: Array, mask: Array) -> Array:
        q, k, v = (np.asarray(item, np.float64) for item in (query, key, value))
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        allowed = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
        result = np.zeros((*q.shape[:-1], v.shape[-1]))
        for place in np.ndindex(q.shape[:-2]):
            for row in range(q.shape[-2]):
                last = row + k.shape[-2] - q.shape[-2] if causal else k.shape[-2]
                chosen = [n for n in range(k.shape[-2]) if allowed[(*place, row, n)] and n <= last]
                if not chosen:
                    result[(*place, row)] = np.nan if k.shape[-2] else 0
                    continue
                scores = np.exp(factor * k[place][chosen] @ q[place][row])
                result[(*place, row)] = scores @ v[place][chosen] / scores.sum()
        return result

    return reference


def _gradients(**options: Any) -> Callable[..., tuple[Array, ...]]:
    """By central differences of the definition."""

    def reference(query: Array, key: Array, value: Array, mask: Array, gradient: Array) -> tuple[Array, ...]:
        forward = _attention(**options)
        inputs = [np.asarray(item, np.float64) for item in (query, key, value)]
        found = []
        for position, given in enumerate(inputs):
            slope = np.zeros(given.shape)
            for place in np.ndindex(given.shape):
                change = np.zeros(given.shape)
                change[place] = 1e-5
                high, low = (
                    forward(*(item + sign * change if n == position else item for n, item in enumerate(inputs)), mask)
                    for sign in (1, -1)
                )
                slope[place] = ((high - low) * gradient).sum() / 2e-5
            found.append(slope)
        return tuple(found)

    return reference


def _inputs(dtype: str = "float32", batch: tuple[int, ...] = (2,), queries: int = 3, keys: int = 4) -> list[Array]:
    shapes = ((*batch, queries, 2), (*batch, keys, 2), (*batch, keys, 3))
    return [numbers(dtype, *shape, low=-2, high=2, seed=seed) for seed, shape in enumerate(shapes)]


_MASK = np.array([[True, False, True, True], [False, True, False, False], [True, True, True, False]])

CASES = [
    *(
        OpCase(f"Attention/{dtype}", "Attention", [*_inputs(dtype), _TRUE], expected=_attention())
        for dtype in ("float16", "float32", "float64")
    ),
    OpCase("Attention/mask", "Attention", [*_inputs(), _MASK], expected=_attention()),
    OpCase(
        "Attention/mask and scale", "Attention", [*_inputs(), _MASK], {"scale": 0.25}, expected=_attention(scale=0.25)
    ),
    OpCase("Attention/causal", "Attention", [*_inputs(), _TRUE], {"causal": True}, expected=_attention(causal=True)),
    OpCase(
        "Attention/O27 nothing to look at",
        "Attention",
        [*_inputs(), np.array([[True], [False], [True]])],
        expected=_attention(),
        differentiate=(),  # NaN
    ),
    OpCase("Attention/no batch axes", "Attention", [*_inputs(batch=()), _TRUE], expected=_attention()),
    OpCase("Attention/two batch axes", "Attention", [*_inputs(batch=(2, 2)), _TRUE], expected=_attention()),
    OpCase("Attention/no queries", "Attention", [*_inputs(queries=0), _TRUE], expected=np.zeros((2, 0, 3))),
    OpCase("Attention/no keys", "Attention", [*_inputs(keys=0), _TRUE], expected=np.zeros((2, 3, 3))),
    OpCase("Attention/rank 1", "Attention", [np.ones(2, np.float32)] * 3 + [_TRUE], raises="vectors in rows"),
    OpCase(
        "Attention/depths differ",
        "Attention",
        [np.ones((2, n), np.float32) for n in (2, 3, 2)] + [_TRUE],
        raises="do not fit each other",
    ),
    OpCase("Attention/wrong mask", "Attention", [*_inputs(), np.ones((5, 3, 4), bool)], raises="mask|broadcast"),
    *(
        OpCase(
            f"AttentionGrad/{label}",
            "AttentionGrad",
            [*_inputs(), mask, numbers("float32", 2, 3, 3, low=-1, high=1, seed=9)],
            attrs,
            expected=_gradients(**attrs),
        )
        for label, mask, attrs in (
            ("plain", _TRUE, {}),
            ("mask and scale", _MASK, {"scale": 0.25}),
            ("causal", _TRUE, {"causal": True}),
        )
    ),
]
