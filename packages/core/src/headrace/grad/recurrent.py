"""Gradient rules of the recurrent cells.

Where a gradient arrives at the state and the output only, as in training, they use the fused gradients; one at a gate
goes through a composition of plain operations that computes the same, as second derivatives do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.errors import GradientError
from headrace.grad.backprop import gradients
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.recurrent import LSTM_OUTPUTS

__all__: list[str] = []


def _op(op_type: str, *inputs: TensorLike | Sequence[TensorLike], **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


def _arrived(gradient: Tensor) -> bool:
    """False if no gradient arrived at an output (see `grad.losses`)."""
    return gradient.op.type != "ZerosLike"


def _by_composition(
    inputs: Sequence[Tensor], arrived: Sequence[Tensor], compose: Callable[[Sequence[Tensor]], Sequence[Tensor]]
) -> list[Tensor | None]:
    own = [_op("Identity", tensor) for tensor in inputs]
    found: list[Tensor | None] = gradients(compose(own), own, grad_ys=arrived)
    return found


def _joined(x: Tensor, h: Tensor) -> Tensor:
    return _op("ConcatV2", [x, h], 1)


def _split(x: Tensor, count: int) -> Sequence[Tensor]:
    parts: Sequence[Tensor] = apply_op("Split", 1, x, num_split=count)
    return parts


def _features(x: Tensor, h: Tensor) -> Tensor:
    """The numbers of columns of x and of h."""
    return _op("Pack", [_op("GatherV2", _op("Shape", item), 1, 0) for item in (x, h)])


def _back_to_inputs(gates: Tensor, w: Tensor, x: Tensor, h: Tensor) -> Sequence[Tensor]:
    """The gradients by x and h of [x, h] w."""
    both = _op("MatMul", gates, w, transpose_b=True)
    parts: Sequence[Tensor] = apply_op("SplitV", both, _features(x, h), 1, num_split=2)
    return parts


@register_gradient("LSTMBlockCell")
def _lstm_block_cell(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """By x, cs_prev, h_prev and the weights; what cell_clip limits counts as not limited, as in TensorFlow."""
    if any(_arrived(gradient) for name, gradient in zip(LSTM_OUTPUTS, arrived, strict=True) if name not in ("cs", "h")):
        return _by_composition(op.inputs, arrived, lambda inputs: _plain_lstm(op, inputs))
    x, _, h_prev, w = op.inputs[:4]
    by_cs, gates, *peepholes = apply_op(
        "LSTMBlockCellGrad",
        *op.inputs,
        *op.outputs[:6],
        arrived[1],
        arrived[6],
        use_peephole=op.attrs["use_peephole"],
    )
    by_x, by_h = _back_to_inputs(gates, w, x, h_prev)
    by_w = _op("MatMul", _joined(x, h_prev), gates, transpose_a=True)
    return [by_x, by_cs, by_h, by_w, *peepholes, _op("Sum", gates, 0)]


def _plain_lstm(op: Operation, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """What LSTMBlockCell computes, from plain operations; without limits, since they do not count in a gradient."""
    x, cs_prev, h_prev, w, wci, wcf, wco, b = inputs
    i, ci, f, o = _split(_op("BiasAdd", _op("MatMul", _joined(x, h_prev), w), b), 4)
    if op.attrs["use_peephole"]:
        i, f = i + cs_prev * wci, f + cs_prev * wcf
    i, f, ci = _op("Sigmoid", i), _op("Sigmoid", f + op.attrs["forget_bias"]), _op("Tanh", ci)
    cs = ci * i + cs_prev * f
    o = _op("Sigmoid", o + cs * wco if op.attrs["use_peephole"] else o)
    co = _op("Tanh", cs)
    return i, cs, f, o, ci, co, co * o


@register_gradient("LSTMBlockCellGrad")
def _lstm_block_cell_grad(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The derivative of `_plain_lstm_grad`, which computes the same."""
    return _by_composition(op.inputs, arrived, lambda inputs: _plain_lstm_grad(op, inputs))


def _plain_lstm_grad(op: Operation, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    _, cs_prev, _, _, wci, wcf, wco, _, i, cs, f, o, ci, co, cs_grad, h_grad = inputs
    peephole = op.attrs["use_peephole"]
    by_o = o * (1 - o) * h_grad * co
    by_cs = (1 - co * co) * h_grad * o + cs_grad
    by_cs = by_cs + by_o * wco if peephole else by_cs
    by_ci, by_f, by_i = (1 - ci * ci) * by_cs * i, f * (1 - f) * by_cs * cs_prev, i * (1 - i) * by_cs * ci
    gates = _op("ConcatV2", [by_i, by_ci, by_f, by_o], 1)
    if not peephole:
        return by_cs * f, gates, *(_op("ZerosLike", vector) for vector in (wci, wcf, wco))
    by_vectors = (_op("Sum", product, 0) for product in (by_i * cs_prev, by_f * cs_prev, by_o * cs))
    return by_cs * f + by_i * wci + by_f * wcf, gates, *by_vectors


def _register_block(name: str, gradient: str) -> None:
    def rule(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
        """By x, the first state and the weights, from the gradients by cs and h."""
        for output, tensor in zip(LSTM_OUTPUTS, arrived, strict=True):
            if output not in ("cs", "h") and _arrived(tensor):
                raise GradientError(
                    f"a gradient arrives at output '{output}' of a {name}",
                    where=op.location,
                    expected="gradients by cs and h only",
                    got=f"one by '{output}'",
                    hint="use the outputs cs and h, or unroll the time with LSTMBlockCell",
                )
        found = apply_op(
            gradient, *op.inputs, *op.outputs, arrived[1], arrived[6], use_peephole=op.attrs["use_peephole"]
        )
        return [None, *found]

    register_gradient(name)(rule)
    no_gradient(gradient, f"second derivatives of a {name} are those of its steps: unroll the time with LSTMBlockCell")


_register_block("BlockLSTM", "BlockLSTMGrad")
_register_block("BlockLSTMV2", "BlockLSTMGradV2")


@register_gradient("GRUBlockCell")
def _gru_block_cell(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """By x, h_prev and the weights."""
    if any(_arrived(gradient) for gradient in arrived[:3]):
        return _by_composition(op.inputs, arrived, _plain_gru)
    x, h_prev = op.inputs[:2]
    r, u, c, _ = op.outputs
    by_x, by_h, by_c, by_gates = apply_op("GRUBlockCellGrad", *op.inputs, r, u, c, arrived[3])
    by_w_ru = _op("MatMul", _joined(x, h_prev), by_gates, transpose_a=True)
    by_w_c = _op("MatMul", _joined(x, h_prev * r), by_c, transpose_a=True)
    return [by_x, by_h, by_w_ru, by_w_c, _op("Sum", by_gates, 0), _op("Sum", by_c, 0)]


def _plain_gru(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """What GRUBlockCell computes, from plain operations."""
    x, h_prev, w_ru, w_c, b_ru, b_c = inputs
    gates = _op("Sigmoid", _op("BiasAdd", _op("MatMul", _joined(x, h_prev), w_ru), b_ru))
    r, u = _split(gates, 2)
    c = _op("Tanh", _op("BiasAdd", _op("MatMul", _joined(x, h_prev * r), w_c), b_c))
    return r, u, c, u * h_prev + (1 - u) * c


@register_gradient("GRUBlockCellGrad")
def _gru_block_cell_grad(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The derivative of `_plain_gru_grad`, which computes the same."""
    return _by_composition(op.inputs, arrived, _plain_gru_grad)


def _plain_gru_grad(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    x, h_prev, w_ru, w_c, _, _, r, u, c, g = inputs
    by_c = g * (1 - u) * (1 - c * c)
    by_u = g * (h_prev - c) * u * (1 - u)
    content_x, by_reset = _back_to_inputs(by_c, w_c, x, h_prev)
    by_gates = _op("ConcatV2", [by_reset * h_prev * r * (1 - r), by_u], 1)
    gates_x, gates_h = _back_to_inputs(by_gates, w_ru, x, h_prev)
    return content_x + gates_x, gates_h + by_reset * r + g * u, by_c, by_gates
