"""Loop rules of what runs along axes: reductions, softmax and the losses, normalisation, biases, broadcasts."""

from __future__ import annotations

from collections.abc import Callable

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.rules.elementwise import narrowed, widened
from headrace.loops.value import Value
from headrace.types import int64

__all__: list[str] = []


def _axes(op: LoopContext, rank: int) -> list[int] | None:
    given = op.integers(1)
    if given is None or not all(-rank <= axis < rank for axis in given):
        return None
    axes = [axis % rank for axis in given]
    return axes if len(set(axes)) == len(axes) else None


def _reduction(op_type: str, function: Callable[..., Value], kinds: tuple[str, ...]) -> None:
    @register_loops(op_type)
    def rule(op: LoopContext, x: Value, axis: Value) -> Value | None:
        axes = _axes(op, x.rank)
        if not axes or x.dtype.kind not in kinds or 0 in x.shape:
            return None
        return narrowed(function(widened(x), axes, keepdims=op.attr("keep_dims")), x.dtype)


_reduction("Sum", loops.sum, ("float", "int", "uint"))
_reduction("Mean", loops.mean, ("float",))
_reduction("Max", loops.max, ("float", "int", "uint"))
_reduction("Min", loops.min, ("float", "int", "uint"))
_reduction("Prod", loops.prod, ("int", "uint"))
_reduction("All", loops.all, ("bool",))
_reduction("Any", loops.any, ("bool",))


@register_loops("Softmax")
def _softmax(op: LoopContext, logits: Value) -> Value | None:
    if 0 in logits.shape:
        return None
    x = widened(logits)
    e = loops.exp(x - loops.max(x, -1, keepdims=True))
    return narrowed(e * (1.0 / loops.sum(e, -1, keepdims=True)), logits.dtype)


@register_loops("LogSoftmax")
def _log_softmax(op: LoopContext, logits: Value) -> Value | None:
    if 0 in logits.shape:
        return None
    x = widened(logits)
    shifted = x - loops.max(x, -1, keepdims=True)
    return narrowed(shifted - loops.log(loops.sum(loops.exp(shifted), -1, keepdims=True)), logits.dtype)


@register_loops("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(op: LoopContext, logits: Value, labels: Value) -> tuple[Value, Value] | None:
    if 0 in logits.shape or logits.shape != labels.shape:
        return None
    x, z = widened(logits), widened(labels)
    shifted = x - loops.max(x, -1, keepdims=True)
    e = loops.exp(shifted)
    total = loops.sum(e, -1, keepdims=True)
    loss = loops.sum(z * (loops.log(total) - shifted), -1)
    return narrowed(loss, logits.dtype), narrowed(e * (1.0 / total) - z, logits.dtype)


@register_loops("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(op: LoopContext, logits: Value, labels: Value) -> tuple[Value, Value] | None:
    """Labels that are no class are found by a check of its own before the region (`checks`)."""
    if 0 in logits.shape:
        return None
    x = widened(logits)
    chosen = loops.equal(loops.index(x.shape, -1), loops.expand_dims(loops.cast(labels, int64), -1))
    shifted = x - loops.max(x, -1, keepdims=True)
    e = loops.exp(shifted)
    total = loops.sum(e, -1, keepdims=True)
    own = loops.sum(loops.where(chosen, shifted, 0.0), -1)
    loss = loops.log(loops.squeeze(total, [x.rank - 1])) - own
    backprop = e * (1.0 / total) - loops.cast(chosen, x.dtype)
    return narrowed(loss, logits.dtype), narrowed(backprop, logits.dtype)


@register_loops("LayerNorm")
def _layer_norm(op: LoopContext, x: Value, scale: Value, offset: Value) -> Value | None:
    if 0 in x.shape or scale.shape != x.shape[-1:] or offset.shape != x.shape[-1:]:
        return None
    wide = widened(x)
    centred = wide - loops.mean(wide, -1, keepdims=True)
    inverse = 1.0 / loops.sqrt(loops.mean(loops.square(centred), -1, keepdims=True) + op.attr("epsilon"))
    return narrowed(centred * inverse * widened(scale) + widened(offset), x.dtype)


@register_loops("BiasAdd")
def _bias_add(op: LoopContext, x: Value, bias: Value) -> Value | None:
    if x.dtype.kind not in ("float", "int", "uint"):
        return None
    if not str(op.attr("data_format")).startswith("NC"):
        return x + bias
    return x + loops.expand_dims(bias, list(range(1, x.rank - 1)))


@register_loops("BiasAddGrad")
def _bias_add_grad(op: LoopContext, g: Value) -> Value | None:
    if g.dtype.kind not in ("float", "int", "uint") or 0 in g.shape:
        return None
    channel = 1 if str(op.attr("data_format")).startswith("NC") else g.rank - 1
    axes = [axis for axis in range(g.rank) if axis != channel]
    return narrowed(loops.sum(widened(g), axes), g.dtype) if axes else None


@register_loops("BroadcastTo")
def _broadcast_to(op: LoopContext, x: Value, shape: Value) -> Value | None:
    return loops.broadcast_to(x, op.shape()) if _plain(x) else None


@register_loops("Fill")
def _fill(op: LoopContext, dims: Value, value: Value) -> Value | None:
    return loops.broadcast_to(value, op.shape()) if _plain(value) else None


def _plain(x: Value) -> bool:
    return x.dtype.kind in ("float", "int", "uint", "bool")


@register_loops("Transpose")
def _transpose(op: LoopContext, x: Value, perm: Value) -> Value | None:
    order = op.integers(1)
    if order is None or not _plain(x):
        return None
    axes = [axis % max(x.rank, 1) for axis in order]
    return loops.transpose(x, axes) if sorted(axes) == list(range(x.rank)) else None


@register_loops("Slice")
def _slice(op: LoopContext, x: Value, begin: Value, size: Value) -> Value | None:
    starts = op.integers(1)
    if starts is None or op.constants[2] is None or not _plain(x):
        return None
    return loops.strided(x, starts, op.shape(), [1] * x.rank)


@register_loops("OneHot")
def _one_hot(op: LoopContext, indices: Value, depth: Value, on_value: Value, off_value: Value) -> Value | None:
    shape = op.shape()
    if not _plain(on_value) or indices.dtype.kind not in ("int", "uint"):
        return None
    axis = op.attr("axis") % len(shape)
    places = loops.index(shape, axis)
    wanted = loops.expand_dims(loops.cast(indices, int64), axis)
    return loops.where(loops.equal(places, wanted), on_value, off_value)


@register_loops("L2Loss")
def _l2_loss(op: LoopContext, x: Value) -> Value | None:
    if not x.dtype.is_floating or not x.rank or 0 in x.shape:
        return None
    wide = widened(x)
    return narrowed(loops.sum(wide * wide) * 0.5, x.dtype)
