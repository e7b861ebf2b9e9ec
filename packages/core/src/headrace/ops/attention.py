"""Scaled dot-product attention, in one piece: the matrix of all scores is never whole in memory.

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
"""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Shape, broadcast_shapes
from headrace.types import bool as bool_dtype

__all__ = ["attention", "attention_scale", "check_attention"]

_INPUTS = {"query": "T", "key": "T", "value": "T", "mask": "bool"}
_ATTRS = {"T": attr.floating, "scale": attr.float(0.0), "causal": attr.bool(False)}


def check_attention(query: Shape, key: Shape, value: Shape, mask: Shape) -> Shape:
    """The shape of what comes out; parts may be unknown.

    Args:
      query: `[batch..., queries, depth]`.
      key: `[batch..., keys, depth]`.
      value: `[batch..., keys, width]`.
      mask: broadcasts to `[batch..., queries, keys]`.
    Raises:
      ShapeError: they do not fit each other.
    """
    if query.dims is None or key.dims is None or value.dims is None:
        return Shape()
    if min(len(query), len(key), len(value)) < 2:
        raise ShapeError(
            "attention needs vectors in rows",
            expected="rank >= 2",
            got=f"query {query}, key {key}, value {value}",
            hint="hr.expand_dims(query, 0) makes one vector a row",
        )
    lead, depth = Shape(query.dims[:-2]), Shape(query.dims[-1:])
    fits = (
        lead.is_compatible_with(Shape(key.dims[:-2]))
        and lead.is_compatible_with(Shape(value.dims[:-2]))
        and depth.is_compatible_with(Shape(key.dims[-1:]))
        and Shape(key.dims[-2:-1]).is_compatible_with(Shape(value.dims[-2:-1]))
    )
    if not fits:
        raise ShapeError(
            "query, key and value do not fit each other",
            expected="[batch..., queries, depth], [batch..., keys, depth], [batch..., keys, width]",
            got=f"{query}, {key}, {value}",
            hint="hr.broadcast_to gives all of them the same leading axes",
        )
    scores = Shape((*query.dims[:-1], key.dims[-2]))
    merged = broadcast_shapes(scores, mask)
    if not merged.is_compatible_with(scores):
        raise ShapeError(
            "the mask does not fit the scores",
            expected=f"a shape that broadcasts to {scores}",
            got=str(mask),
            hint="one axis for queries and one for keys; hr.expand_dims adds an axis of heads",
        )
    return Shape((*query.dims[:-1], value.dims[-1]))


def attention_scale(op: HasAttrs, depth: int) -> float:
    """What multiplies the scores: the attribute, or 1 / sqrt(depth) where it is 0."""
    given = float(op.attr("scale"))
    return given or max(depth, 1) ** -0.5


@register_op("Attention", inputs=_INPUTS, outputs={"output": "T"}, attrs=_ATTRS)
def _attention_shape(op: InferenceContext) -> list[Shape]:
    """softmax(scale * query key') value, over the keys that the mask allows; scale 0 stands for 1 / sqrt(depth).

    `causal` also leaves out keys that come after the query, with the last key at the last query. A query that may look
    at no key gives NaN, as the softmax of nothing but -infinity does.
    """
    return [check_attention(*(spec.shape for spec in op.inputs))]


@register_op(
    "AttentionGrad",
    inputs={**_INPUTS, "grad": "T"},
    outputs={"query_backprop": "T", "key_backprop": "T", "value_backprop": "T"},
    attrs=_ATTRS,
)
def _attention_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of Attention by query, key and value; the scores are computed again."""
    shapes = [spec.shape for spec in op.inputs]
    check_attention(*shapes[:4]).merge(shapes[4])
    return shapes[:3]


def attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    *,
    mask: TensorLike | None = None,
    causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Scaled dot-product attention: softmax(scale * query key') value.

    Args:
      query: floating `[batch..., queries, depth]`.
      key: the same dtype `[batch..., keys, depth]`.
      value: the same dtype `[batch..., keys, width]`.
      mask: bool, broadcasts to `[batch..., queries, keys]`: True where a query may look at a key.
      causal: queries may not look at later keys; the last query stands beside the last key.
      scale: multiplies the scores, by default 1 / sqrt(depth).
      name: the operation's name.
    Returns:
      `[batch..., queries, width]`. The scores exist for a few queries at a time only, in the gradient too.
    Raises:
      ShapeError: the shapes do not fit each other.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.attention([[1.0], [1.0]], [[0.0], [0.0]], [[2.0], [4.0]], causal=True)
      >>> print(hr.Session(graph).run(y))
      [[2.]
       [3.]]
    """
    tensor = convert_to_tensor(query)
    others = [convert_to_tensor(item, tensor.dtype) for item in (key, value)]
    allowed = convert_to_tensor(True if mask is None else mask, bool_dtype)
    result: Tensor = apply_op("Attention", tensor, *others, allowed, scale=scale or 0.0, causal=causal, name=name)
    return result
