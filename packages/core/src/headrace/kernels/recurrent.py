"""NumPy kernels of the recurrent cells; narrow floats are computed in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.recurrent import LSTM_OUTPUTS, check_gru, check_lstm
from headrace.types import Array, Shape

__all__: list[str] = []

_ICFO, _IFCO = (0, 1, 2, 3), (0, 2, 1, 3)
"""Where in [i, ci, f, o] each quarter of the gates belongs."""


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)  # exp(-x) would overflow


def _stored(op: OpContext, results: Any) -> tuple[Array, ...]:
    return tuple(stored(item, spec.dtype.array_type, None) for item, spec in zip(results, op.outputs, strict=True))


def _check_same(shape: tuple[int, ...], arrays: Sequence[Array]) -> None:
    for item in arrays:
        Shape(shape).merge(Shape(item.shape))


class _Cell:
    """The weights of an LSTM, split by gate."""

    def __init__(self, op: OpContext, x: Shape, state: list[Array], order: tuple[int, ...]) -> None:
        self.peephole = bool(op.attr("use_peephole"))
        check_lstm(x, [Shape(item.shape) for item in state], peephole=self.peephole)
        self.w, self.wci, self.wcf, self.wco, self.b = state[2:]
        self.order = order
        self.op = op

    def step(self, x: Array, cs_prev: Array, h_prev: Array, forget_bias: float, clip: float) -> tuple[Array, ...]:
        gates = np.concatenate([x, h_prev], axis=1) @ self.w + self.b
        parts = np.split(gates, 4, axis=1)
        i, ci, f, o = (parts[self.order.index(place)] for place in range(4))
        if self.peephole:
            i, f = i + cs_prev * self.wci, f + cs_prev * self.wcf
        i, f, ci = _sigmoid(i), _sigmoid(f + gates.dtype.type(forget_bias)), np.tanh(ci)
        cs = ci * i + cs_prev * f
        if clip > 0:
            cs = np.clip(cs, -clip, clip)
        o = _sigmoid(o + cs * self.wco if self.peephole else o)
        co = np.tanh(cs)
        return i, cs, f, o, ci, co, co * o

    def back(self, cs_prev: Array, values: dict[str, Array], cs_grad: Array, h_grad: Array) -> tuple[Array, ...]:
        """By cs_prev, by the gates before their functions in the order of w, and by the peepholes."""
        i, cs, f, o, ci, co = (values[name] for name in LSTM_OUTPUTS[:-1])
        by_o = o * (1 - o) * h_grad * co
        by_cs = (1 - co * co) * h_grad * o + cs_grad
        if self.peephole:
            by_cs = by_cs + by_o * self.wco
        by_ci = (1 - ci * ci) * by_cs * i
        by_f = f * (1 - f) * by_cs * cs_prev
        by_i = i * (1 - i) * by_cs * ci
        by_cs_prev = by_cs * f
        if self.peephole:
            by_cs_prev = by_cs_prev + by_i * self.wci + by_f * self.wcf
            peepholes = [(by_i * cs_prev).sum(0), (by_f * cs_prev).sum(0), (by_o * cs).sum(0)]
        else:
            peepholes = [np.zeros_like(item) for item in (self.wci, self.wcf, self.wco)]
        parts = (by_i, by_ci, by_f, by_o)
        return by_cs_prev, np.concatenate([parts[place] for place in self.order], axis=1), *peepholes


@register_kernel("LSTMBlockCell")
def _lstm_block_cell(op: OpContext, x: Array, *state: Array) -> tuple[Array, ...]:
    x, *rest = (widened(item) for item in (x, *state))
    cell = _Cell(op, Shape(x.shape), rest, _ICFO)
    return _stored(op, cell.step(x, rest[0], rest[1], op.attr("forget_bias"), op.attr("cell_clip")))


@register_kernel("LSTMBlockCellGrad")
def _lstm_block_cell_grad(op: OpContext, x: Array, *given: Array) -> tuple[Array, ...]:
    x, *rest = (widened(item) for item in (x, *given))
    cell = _Cell(op, Shape(x.shape), rest[:7], _ICFO)
    _check_same(rest[0].shape, rest[7:])
    values = dict(zip(LSTM_OUTPUTS, rest[7:13], strict=False))
    return _stored(op, cell.back(rest[0], values, rest[13], rest[14]))


def _register_block(name: str, gradient: str, order: tuple[int, ...], *, bias: bool) -> None:
    @register_kernel(name)
    def block(op: OpContext, seq_len_max: Array, x: Array, *state: Array) -> tuple[Array, ...]:
        x, *rest = (widened(item) for item in (x, *state))
        cell = _Cell(op, Shape(x.shape[1:]), rest, order)
        forget_bias = op.attr("forget_bias") if bias else 0.0
        results = [np.zeros((len(x), *rest[0].shape), x.dtype) for _ in LSTM_OUTPUTS]
        cs, h = rest[:2]
        for time in range(min(int(seq_len_max), len(x))):
            found = cell.step(x[time], cs, h, forget_bias, op.attr("cell_clip"))
            for result, item in zip(results, found, strict=True):
                result[time] = item
            cs, h = found[1], found[6]
        return _stored(op, results)

    @register_kernel(gradient)
    def back(op: OpContext, seq_len_max: Array, x: Array, *given: Array) -> tuple[Array, ...]:
        x, *rest = (widened(item) for item in (x, *given))
        cell = _Cell(op, Shape(x.shape[1:]), rest[:7], order)
        _check_same((len(x), *rest[0].shape), rest[7:])
        outputs = dict(zip(LSTM_OUTPUTS, rest[7:14], strict=True))
        cs_grad, h_grad = rest[14:]
        by_x, by_cs, by_h = np.zeros_like(x), np.zeros_like(rest[0]), np.zeros_like(rest[1])
        by_weights = [np.zeros_like(item) for item in rest[2:7]]
        features = x.shape[2]
        for time in reversed(range(min(int(seq_len_max), len(x)))):
            values = {key: item[time] for key, item in outputs.items()}
            cs_prev, h_prev = (outputs["cs"][time - 1], outputs["h"][time - 1]) if time else (rest[0], rest[1])
            by_cs, gates, *peepholes = cell.back(cs_prev, values, cs_grad[time] + by_cs, h_grad[time] + by_h)
            by_both = gates @ cell.w.T
            by_x[time], by_h = by_both[:, :features], by_both[:, features:]
            by_weights[0] += np.concatenate([x[time], h_prev], axis=1).T @ gates
            for total, item in zip(by_weights[1:], (*peepholes, gates.sum(0)), strict=True):
                total += item
        return _stored(op, [by_x, by_cs, by_h, *by_weights])


_register_block("BlockLSTM", "BlockLSTMGrad", _ICFO, bias=True)
_register_block("BlockLSTMV2", "BlockLSTMGradV2", _IFCO, bias=False)


@register_kernel("GRUBlockCell")
def _gru_block_cell(op: OpContext, *inputs: Array) -> tuple[Array, ...]:
    x, h_prev, w_ru, w_c, b_ru, b_c = (widened(item) for item in inputs)
    check_gru(Shape(x.shape), Shape(h_prev.shape), [Shape(item.shape) for item in (w_ru, w_c, b_ru, b_c)])
    r, u = np.split(_sigmoid(np.concatenate([x, h_prev], axis=1) @ w_ru + b_ru), 2, axis=1)
    c = np.tanh(np.concatenate([x, h_prev * r], axis=1) @ w_c + b_c)
    return _stored(op, [r, u, c, u * h_prev + (1 - u) * c])


@register_kernel("GRUBlockCellGrad")
def _gru_block_cell_grad(op: OpContext, *inputs: Array) -> tuple[Array, ...]:
    x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, g = (widened(item) for item in inputs)
    check_gru(Shape(x.shape), Shape(h_prev.shape), [Shape(item.shape) for item in (w_ru, w_c, b_ru, b_c)])
    _check_same(h_prev.shape, [r, u, c, g])
    features = x.shape[1]
    by_c = g * (1 - u) * (1 - c * c)
    by_u = g * (h_prev - c) * u * (1 - u)
    through_content = by_c @ w_c.T
    by_reset = through_content[:, features:]
    by_gates = np.concatenate([by_reset * h_prev * r * (1 - r), by_u], axis=1)
    through_gates = by_gates @ w_ru.T
    by_x = through_content[:, :features] + through_gates[:, :features]
    by_h_prev = through_gates[:, features:] + by_reset * r + g * u
    return _stored(op, [by_x, by_h_prev, by_c, by_gates])
