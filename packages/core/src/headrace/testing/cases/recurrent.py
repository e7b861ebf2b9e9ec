"""Cases of the recurrent cells. What must come out is computed number by number in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers
from headrace.types import Array

_FEATURES, _CELLS, _BATCH = 3, 2, 2


def _sigmoid(x: Any) -> float:
    return 1 / (1 + math.exp(-float(x)))


def _numbers(*shape: int, seed: int, dtype: str = "float32") -> Array:
    return numbers(dtype, *shape, low=-0.8, high=0.8, seed=seed)


def _weights(dtype: str = "float32") -> list[Array]:
    shapes = ((_FEATURES + _CELLS, 4 * _CELLS), (_CELLS,), (_CELLS,), (_CELLS,), (4 * _CELLS,))
    return [_numbers(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def _state(dtype: str = "float32") -> list[Array]:
    return [_numbers(_BATCH, _CELLS, seed=seed, dtype=dtype) for seed in (11, 12)]


def _lstm(order: str, forget_bias: float = 1.0, clip: float = 3.0, peephole: bool = False) -> Callable[..., Any]:
    """One step, by definition: every gate of every cell of every example on its own."""

    def step(x: Array, cs_prev: Array, h_prev: Array, *weights: Array) -> tuple[Array, ...]:
        x, cs_prev, h_prev, w, wci, wcf, wco, b = (
            np.asarray(item, np.float64) for item in (x, cs_prev, h_prev, *weights)
        )
        cells = cs_prev.shape[1]
        results = [np.zeros(cs_prev.shape) for _ in range(7)]
        for n, k in np.ndindex(cs_prev.shape):
            gate = {
                name: float(np.concatenate([x[n], h_prev[n]]) @ w[:, place * cells + k] + b[place * cells + k])
                for place, name in enumerate(order)
            }
            old = float(cs_prev[n, k])
            i = _sigmoid(gate["i"] + (old * wci[k] if peephole else 0))
            f = _sigmoid(gate["f"] + (old * wcf[k] if peephole else 0) + forget_bias)
            c = math.tanh(gate["c"])
            cs = c * i + old * f
            cs = min(max(cs, -clip), clip) if clip > 0 else cs
            o = _sigmoid(gate["o"] + (cs * wco[k] if peephole else 0))
            for result, value in zip(results, (i, cs, f, o, c, math.tanh(cs), math.tanh(cs) * o), strict=True):
                result[n, k] = value
        return tuple(results)

    return step


def _sequence(order: str, **options: Any) -> Callable[..., Any]:
    step = _lstm(order, **options)

    def run(length: Array, x: Array, cs: Array, h: Array, *weights: Array) -> tuple[Array, ...]:
        results = [np.zeros((len(x), *cs.shape)) for _ in range(7)]
        for time in range(int(length)):
            found = step(x[time], cs, h, *weights)
            for result, item in zip(results, found, strict=True):
                result[time] = item
            cs, h = found[1], found[6]
        return tuple(results)

    return run


def _slope(function: Callable[..., Sequence[Array]], inputs: Sequence[Array], position: int, g: Sequence[Any]) -> Array:
    """The derivative of sum(g * function) by one input, by central differences."""
    given = np.asarray(inputs[position], np.float64)
    slope = np.zeros(given.shape)
    for place in np.ndindex(given.shape):
        change = np.zeros(given.shape)
        change[place] = 1e-5
        high, low = (
            sum(
                float((weight * value).sum())
                for weight, value in zip(
                    g,
                    function(*inputs[:position], given + sign * change, *inputs[position + 1 :]),
                    strict=True,
                )
                if weight is not None
            )
            for sign in (1, -1)
        )
        slope[place] = (high - low) / 2e-5
    return slope


def _block_gradient_case(op: str, forward: Callable[..., Any], length: int, peephole: bool) -> OpCase:
    x = _numbers(3, _BATCH, _FEATURES, seed=10)
    inputs = [x, *_state(), *_weights()]
    outputs = forward(np.int64(length), *inputs)
    arrived = [_numbers(3, _BATCH, _CELLS, seed=seed) for seed in (21, 22)]
    for item in arrived:
        item[length:] = 0

    def expected(seq_len: Array, *given: Array) -> tuple[Array, ...]:
        g = [None, arrived[0], None, None, None, None, arrived[1]]
        return tuple(_slope(lambda *items: forward(seq_len, *items), given[:8], place, g) for place in range(8))

    return OpCase(
        f"{op}/{'peephole' if peephole else 'plain'}",
        op,
        [np.int64(length), *inputs, *(np.asarray(item, np.float32) for item in outputs), *arrived],
        {"use_peephole": peephole},
        expected=expected,
    )


def _cell_gradient_case(peephole: bool) -> OpCase:
    """By the state and the peepholes from differences; by the gates from those of the bias, one example at a time."""
    forward = _lstm("icfo", peephole=peephole)
    inputs = [_numbers(_BATCH, _FEATURES, seed=10), *_state(), *_weights()]
    outputs = forward(*inputs)
    arrived = [_numbers(_BATCH, _CELLS, seed=seed) for seed in (21, 22)]

    def expected(*given: Array) -> tuple[Array, ...]:
        g = [None, arrived[0], None, None, None, None, arrived[1]]
        by_gates = np.zeros((_BATCH, 4 * _CELLS))
        for n in range(_BATCH):
            one = [item[n : n + 1] for item in given[:3]]
            part = [None if item is None else item[n : n + 1] for item in g]
            by_gates[n] = _slope(forward, [*one, *given[3:8]], 7, part)
        return (
            _slope(forward, given[:8], 1, g),
            by_gates,
            *(_slope(forward, given[:8], place, g) for place in (4, 5, 6)),
        )

    return OpCase(
        f"LSTMBlockCellGrad/{'peephole' if peephole else 'plain'}",
        "LSTMBlockCellGrad",
        [*inputs, *(np.asarray(item, np.float32) for item in outputs[:6]), *arrived],
        {"use_peephole": peephole},
        expected=expected,
    )


_GRU = [
    _numbers(*shape, seed=seed + 30)
    for seed, shape in enumerate(
        (
            (_BATCH, _FEATURES),
            (_BATCH, _CELLS),
            (_FEATURES + _CELLS, 2 * _CELLS),
            (_FEATURES + _CELLS, _CELLS),
            (2 * _CELLS,),
            (_CELLS,),
        )
    )
]


def _gru(x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array) -> tuple[Array, ...]:
    x, h_prev, w_ru, w_c, b_ru, b_c = (np.asarray(item, np.float64) for item in (x, h_prev, w_ru, w_c, b_ru, b_c))
    results = [np.zeros(h_prev.shape) for _ in range(4)]
    cells = h_prev.shape[1]
    for n in range(len(x)):
        gates = [_sigmoid(float(value)) for value in np.concatenate([x[n], h_prev[n]]) @ w_ru + b_ru]
        kept = h_prev[n] * gates[:cells]
        for k in range(cells):
            c = math.tanh(float(np.concatenate([x[n], kept]) @ w_c[:, k] + b_c[k]))
            u = gates[cells + k]
            for result, value in zip(results, (gates[k], u, c, u * h_prev[n, k] + (1 - u) * c), strict=True):
                result[n, k] = value
    return tuple(results)


def _gru_gradient_case() -> OpCase:
    r, u, c, _ = (np.asarray(item, np.float32) for item in _gru(*_GRU))
    arrived = _numbers(_BATCH, _CELLS, seed=41)

    def expected(*given: Array) -> tuple[Array, ...]:
        g = [None, None, None, arrived]
        by_content, by_gates = np.zeros((_BATCH, _CELLS)), np.zeros((_BATCH, 2 * _CELLS))
        for n in range(_BATCH):
            one = [item[n : n + 1] for item in given[:2]]
            part = [None, None, None, arrived[n : n + 1]]
            by_content[n] = _slope(_gru, [*one, *given[2:6]], 5, part)
            by_gates[n] = _slope(_gru, [*one, *given[2:6]], 4, part)
        return _slope(_gru, given[:6], 0, g), _slope(_gru, given[:6], 1, g), by_content, by_gates

    return OpCase("GRUBlockCellGrad/float32", "GRUBlockCellGrad", [*_GRU, r, u, c, arrived], expected=expected)


_X = _numbers(_BATCH, _FEATURES, seed=10)
_SEQUENCE = _numbers(3, _BATCH, _FEATURES, seed=10)

CASES = [
    *(
        OpCase(
            f"LSTMBlockCell/{dtype}{' peephole' if peephole else ''}",
            "LSTMBlockCell",
            [_X.astype(dtype), *_state(dtype), *_weights(dtype)],
            {"use_peephole": peephole},
            expected=_lstm("icfo", peephole=peephole),
        )
        for dtype in ("float16", "float32")
        for peephole in (False, True)
    ),
    OpCase(
        "LSTMBlockCell/clip and no bias",
        "LSTMBlockCell",
        [_X, *_state(), *_weights()],
        {"cell_clip": 0.25, "forget_bias": 0.0},
        expected=_lstm("icfo", forget_bias=0.0, clip=0.25),
        differentiate=(),  # what the limit cuts off counts as not cut
    ),
    OpCase(
        "LSTMBlockCell/no batch",
        "LSTMBlockCell",
        [_X[:0], *(item[:0] for item in _state()), *_weights()],
        expected=(np.zeros((0, _CELLS)),) * 7,
        oracle=False,  # TensorFlow leaves its matrix product without shape there
    ),
    OpCase(
        "LSTMBlockCell/w of another size",
        "LSTMBlockCell",
        [_X, *_state(), _weights()[0][:4], *_weights()[1:]],
        raises="w does not fit the cell",
    ),
    OpCase(
        "LSTMBlockCell/states differ",
        "LSTMBlockCell",
        [_X, _state()[0], _state()[1][:1], *_weights()],
        raises="shapes contradict",
    ),
    _cell_gradient_case(False),
    _cell_gradient_case(True),
    # Their gradient is checked by tests/ops/test_recurrent.py: it takes gradients by cs and h only.
    *(
        OpCase(
            f"{op}/{label}",
            op,
            [np.int64(length), _SEQUENCE, *_state(), *_weights()],
            {"use_peephole": peephole, **attrs},
            expected=_sequence(order, peephole=peephole, **options),
            differentiate=(),
            deviation="TensorFlow leaves what was in memory after seq_len_max" if length < 3 else None,
        )
        for op, order, attrs, options in (
            ("BlockLSTM", "icfo", {}, {}),
            ("BlockLSTM", "icfo", {"cell_clip": 0.25, "forget_bias": 0.5}, {"clip": 0.25, "forget_bias": 0.5}),
            ("BlockLSTMV2", "ifco", {}, {"clip": 0.0, "forget_bias": 0.0}),
        )
        for label, length, peephole in (
            (f"all of the time {len(attrs)}", 3, False),
            (f"part of the time {len(attrs)}", 2, False),
            (f"peephole {len(attrs)}", 3, True),
        )
    ),
    OpCase(
        "BlockLSTMV2/x of rank 2",
        "BlockLSTMV2",
        [np.int64(3), _X, *_state(), *_weights()],
        raises="rank is wrong",
    ),
    *(
        _block_gradient_case(op, _sequence(order, peephole=peephole, **options), length, peephole)
        for op, order, options in (
            ("BlockLSTMGrad", "icfo", {}),
            ("BlockLSTMGradV2", "ifco", {"clip": 0.0, "forget_bias": 0.0}),
        )
        for length, peephole in ((3, True), (2, False))
    ),
    OpCase("GRUBlockCell/float32", "GRUBlockCell", _GRU, expected=_gru),
    OpCase("GRUBlockCell/bias of another size", "GRUBlockCell", [*_GRU[:5], _GRU[5][:1]], raises="b_c does not fit"),
    _gru_gradient_case(),
]
