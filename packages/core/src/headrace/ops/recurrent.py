"""Recurrent cells as single operations, TensorFlow's fused forms: LSTM with and without the loop over time, GRU.

Letters in the docstrings: i, f, o input, forget and output gate, ci the new content, cs the state of the cell, co its
tanh, h the output; r, u reset and update gate of a GRU, c its new content.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape

__all__ = ["LSTM_OUTPUTS", "check_gru", "check_lstm"]

LSTM_OUTPUTS = ("i", "cs", "f", "o", "ci", "co", "h")
_T = {"T": attr.floating}
_PEEPHOLE = {"use_peephole": attr.bool(False)}
_CLIP = {"cell_clip": attr.float(3.0)}
_BIAS = {"forget_bias": attr.float(1.0)}
_STATE = dict.fromkeys(("x", "cs_prev", "h_prev"), "T")
_WEIGHTS = dict.fromkeys(("w", "wci", "wcf", "wco", "b"), "T")
_OUTPUTS = dict.fromkeys(LSTM_OUTPUTS, "T")
_ARRIVED = dict.fromkeys(("cs_grad", "h_grad"), "T")


def _unfit(what: str, expected: str, got: Shape) -> ShapeError:
    return ShapeError(
        f"{what} does not fit the cell",
        expected=expected,
        got=str(got),
        hint="w is [features + cells, 4 * cells] for an LSTM, [features + cells, 2 * cells] for the gates of a GRU",
    )


def _require(given: Shape, wanted: Shape, what: str) -> None:
    if not wanted.is_compatible_with(given):
        raise _unfit(what, str(wanted), given)


def check_lstm(x: Shape, shapes: Sequence[Shape], *, peephole: bool) -> Shape:
    """The shape `[batch, cells]` of the state; parts may be unknown.

    Args:
      x: `[batch, features]`.
      shapes: of cs_prev and h_prev `[batch, cells]`, w `[features + cells, 4 * cells]`, wci, wcf, wco `[cells]` and b
        `[4 * cells]`.
      peephole: the three vectors are used.
    Raises:
      ShapeError: they do not fit each other.
    """
    cs, h, w, wci, wcf, wco, b = shapes
    batch, features = x.with_rank(2)
    state = cs.with_rank(2).merge(h.with_rank(2)).merge(Shape([batch, None]))
    cells = state[1]
    rows = None if features is None or cells is None else features + cells
    columns = None if cells is None else 4 * cells
    _require(w, Shape([rows, columns]), "w")
    _require(b, Shape([columns]), "b")
    for vector, name in ((wci, "wci"), (wcf, "wcf"), (wco, "wco")):
        _require(vector, Shape([cells]) if peephole else Shape([None]), name)
    return state


def check_gru(x: Shape, h: Shape, weights: Sequence[Shape]) -> Shape:
    """The shape `[batch, cells]` of the state; parts may be unknown.

    Args:
      x: `[batch, features]`.
      h: `[batch, cells]`.
      weights: the shapes of w_ru `[features + cells, 2 * cells]`, w_c `[features + cells, cells]`, b_ru and b_c.
    Raises:
      ShapeError: they do not fit each other.
    """
    batch, features = x.with_rank(2)
    state = h.with_rank(2).merge(Shape([batch, None]))
    cells = state[1]
    rows = None if features is None or cells is None else features + cells
    twice = None if cells is None else 2 * cells
    wanted = (Shape([rows, twice]), Shape([rows, cells]), Shape([twice]), Shape([cells]))
    for given, shape, name in zip(weights, wanted, ("w_ru", "w_c", "b_ru", "b_c"), strict=True):
        _require(given, shape, name)
    return state


def _lstm_state(op: InferenceContext, first: int, x: Shape) -> Shape:
    shapes = [spec.shape for spec in op.inputs[first + 1 : first + 8]]
    return check_lstm(x, shapes, peephole=bool(op.attr("use_peephole")))


@register_op(
    "LSTMBlockCell", inputs={**_STATE, **_WEIGHTS}, outputs=_OUTPUTS, attrs={**_T, **_PEEPHOLE, **_CLIP, **_BIAS}
)
def _lstm_block_cell_shape(op: InferenceContext) -> list[Shape]:
    """One step of an LSTM: [i, ci, f, o] = [x, h_prev] w + b, cs = ci * i + cs_prev * f, h = tanh(cs) * o.

    The gates are sigmoids, of f with forget_bias added; with use_peephole i and f also see cs_prev, and o sees cs. cs
    is limited to cell_clip, if that is positive.
    """
    return [_lstm_state(op, 0, op.inputs[0].shape)] * 7


@register_op(
    "LSTMBlockCellGrad",
    inputs={**_STATE, **_WEIGHTS, **dict.fromkeys(LSTM_OUTPUTS[:-1], "T"), **_ARRIVED},
    outputs={"cs_prev_grad": "T", "dicfo": "T", "wci_grad": "T", "wcf_grad": "T", "wco_grad": "T"},
    attrs={**_T, "use_peephole": attr.bool()},
)
def _lstm_block_cell_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of LSTMBlockCell by cs_prev, by the four gates before their functions, and by the peepholes."""
    state = _lstm_state(op, 0, op.inputs[0].shape)
    for spec in op.inputs[8:]:
        state = state.merge(spec.shape)
    gates = Shape([state[0], None if state[1] is None else 4 * state[1]])
    return [state, gates, *(spec.shape for spec in op.inputs[4:7])]


def _sequence(op: InferenceContext) -> tuple[Shape, Shape]:
    """The shapes of the state, `[batch, cells]`, and of an output, `[time, batch, cells]`."""
    op.inputs[0].shape.with_rank(0)
    time, batch, features = op.inputs[1].shape.with_rank(3)
    state = _lstm_state(op, 1, Shape([batch, features]))
    return state, Shape([time, *state])


_BLOCK = {"seq_len_max": "int64", **_STATE, **_WEIGHTS}
_BLOCK_DOC = (
    "An LSTM over time, {}: as LSTMBlockCell for each row of x, which is [time, batch, features], up to seq_len_max; "
    "zeros after that."
)
_BLOCK_GRAD_DOC = "The gradients of {} by its inputs, from those by cs and h."


def _register_block(name: str, gradient: str, gates: str, attrs: dict[str, attr.AttrSpec]) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        return [_sequence(op)[1]] * 7

    def gradient_shape(op: InferenceContext) -> list[Shape]:
        _, outputs = _sequence(op)
        for spec in op.inputs[9:]:
            outputs = outputs.merge(spec.shape)
        return [spec.shape for spec in op.inputs[1:9]]

    shape.__doc__ = _BLOCK_DOC.format(gates)
    gradient_shape.__doc__ = _BLOCK_GRAD_DOC.format(name)
    register_op(name, inputs=_BLOCK, outputs=_OUTPUTS, attrs={**_T, **_PEEPHOLE, **attrs})(shape)
    register_op(
        gradient,
        inputs={**_BLOCK, **_OUTPUTS, **_ARRIVED},
        outputs={f"{key}_grad": "T" for key in (*_STATE, *_WEIGHTS)},
        attrs={**_T, "use_peephole": attr.bool()},
    )(gradient_shape)


_register_block("BlockLSTM", "BlockLSTMGrad", "with gates in the order i, ci, f, o", {**_CLIP, **_BIAS})
_register_block(
    "BlockLSTMV2",
    "BlockLSTMGradV2",
    "with gates in the order i, f, ci, o and no forget_bias",
    {"cell_clip": attr.float(0.0)},
)

_GRU = dict.fromkeys(("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"), "T")


def _gru_state(op: InferenceContext) -> Shape:
    return check_gru(op.inputs[0].shape, op.inputs[1].shape, [spec.shape for spec in op.inputs[2:6]])


@register_op("GRUBlockCell", inputs=_GRU, outputs=dict.fromkeys("ruch", "T"), attrs=_T)
def _gru_block_cell_shape(op: InferenceContext) -> list[Shape]:
    """One step of a GRU: [r, u] = sigmoid([x, h_prev] w_ru + b_ru), c = tanh([x, h_prev * r] w_c + b_c).

    Then h = u * h_prev + (1 - u) * c.
    """
    return [_gru_state(op)] * 4


@register_op(
    "GRUBlockCellGrad",
    inputs={**_GRU, **dict.fromkeys(("r", "u", "c", "d_h"), "T")},
    outputs={"d_x": "T", "d_h_prev": "T", "d_c_bar": "T", "d_r_bar_u_bar": "T"},
    attrs=_T,
)
def _gru_block_cell_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of GRUBlockCell by x and h_prev, and by content and gates before their functions."""
    state = _gru_state(op)
    for spec in op.inputs[6:]:
        state = state.merge(spec.shape)
    return [op.inputs[0].shape, state, state, Shape([state[0], None if state[1] is None else 2 * state[1]])]
