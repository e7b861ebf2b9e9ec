"""Softmax, the losses of classification, and the sum of squares.

The two cross entropies give the gradient of their loss as a second output: it costs little once the exponentials are
there, and the gradient rule reads it.
"""

from __future__ import annotations

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, as_array, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Shape, broadcast_shapes, int32, int64

__all__ = [
    "in_top_k",
    "l2_loss",
    "log_softmax",
    "sigmoid_cross_entropy",
    "softmax",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]

_LABELS_HINT = "give each example one class number; one-hot labels go to hr.nn.softmax_cross_entropy"

_FLOATING = {"T": attr.floating}
_LOSS = {"loss": "T", "backprop": "T"}


def _with_classes(op: InferenceContext) -> list[Shape]:
    logits = op.inputs[0].shape
    if logits.rank == 0:
        raise ShapeError(
            "the logits are a scalar",
            expected="an axis of classes",
            got=str(logits),
            hint="hr.stack the logits of the classes; for yes or no, hr.nn.sigmoid_cross_entropy",
        )
    return [logits]


@register_op("Softmax", inputs={"logits": "T"}, outputs={"softmax": "T"}, attrs=_FLOATING)
def _softmax_shape(op: InferenceContext) -> list[Shape]:
    """exp(x) / sum(exp(x)) along the last axis, without overflow."""
    return _with_classes(op)


@register_op("LogSoftmax", inputs={"logits": "T"}, outputs={"logsoftmax": "T"}, attrs=_FLOATING)
def _log_softmax_shape(op: InferenceContext) -> list[Shape]:
    """x - log(sum(exp(x))) along the last axis, without overflow."""
    return _with_classes(op)


@register_op(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs={"features": "T", "labels": "Tlabels"},
    outputs=_LOSS,
    attrs={**_FLOATING, "Tlabels": attr.type(int32, int64, default=int64)},
)
def _sparse_cross_entropy_shape(op: InferenceContext) -> list[Shape]:
    """-log_softmax(features)[row, labels[row]] per row, and its gradient by the features."""
    features, labels = op.inputs[0].shape.with_rank(2), op.inputs[1].shape.with_rank(1)
    batch = Shape([features[0]])
    if not batch.is_compatible_with(labels):
        raise ShapeError("the labels do not fit the logits", expected=f"{batch}", got=str(labels), hint=_LABELS_HINT)
    loss = batch.merge(labels)
    return [loss, Shape([loss[0], features[1]])]


@register_op("SoftmaxCrossEntropyWithLogits", inputs={"features": "T", "labels": "T"}, outputs=_LOSS, attrs=_FLOATING)
def _cross_entropy_shape(op: InferenceContext) -> list[Shape]:
    """-sum(labels * log_softmax(features)) per row, and its gradient by the features for labels that sum to 1.

    Features and labels broadcast.
    """
    shape = broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape).with_rank(2)
    return [Shape([shape[0]]), shape]


@register_op("L2Loss", inputs={"t": "T"}, outputs={"output": "T"}, attrs=_FLOATING)
def _l2_loss_shape(op: InferenceContext) -> list[Shape]:
    """sum(t**2) / 2."""
    return [Shape([])]


@register_op(
    "InTopKV2",
    inputs={"predictions": "float32", "targets": "T", "k": "T"},
    outputs={"precision": "bool"},
    attrs={"T": attr.index_type},
)
def _in_top_k_shape(op: InferenceContext) -> list[Shape]:
    """For each row whether fewer than k classes are predicted above the target.

    False where the target is not a class or a prediction is not finite.
    """
    predictions, targets = op.inputs[0].shape.with_rank(2), op.inputs[1].shape.with_rank(1)
    op.inputs[2].shape.with_rank(0)
    batch = Shape([predictions[0]])
    if not batch.is_compatible_with(targets):
        raise ShapeError(
            "the targets do not fit the predictions",
            expected=str(batch),
            got=str(targets),
            hint="one class number per row: hr.argmax(targets, axis=-1) if they are one-hot",
        )
    return [batch.merge(targets)]


def softmax(logits: TensorLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, computed without overflow.

    Args:
      logits: floating `[..., classes]`.
      axis: the axis of the classes.
      name: the operation's name.
    Returns:
      The same dtype and shape; each row sums to 1. A row of -inf only gives NaN.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     p = hr.nn.softmax([[0.0, 0.0, 0.0, 0.0]])
      >>> print(hr.Session(graph).run(p))
      [[0.25 0.25 0.25 0.25]]
    """
    return _along("Softmax", logits, axis, name)


def log_softmax(logits: TensorLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """The logarithm of `softmax`, computed without taking the logarithm of something that may be 0.

    Args:
      logits: floating `[..., classes]`.
      axis: the axis of the classes.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.log_softmax([0.0, -1000.0])
      >>> print(hr.Session(graph).run(y))
      [    0. -1000.]
    """
    return _along("LogSoftmax", logits, axis, name)


def _along(op_type: str, logits: TensorLike, axis: int, name: str | None) -> Tensor:
    """The operations work on the last axis; another one changes places with it before and after."""
    x = convert_to_tensor(logits)
    rank = x.shape.rank
    if axis == -1 or (rank is not None and axis == rank - 1):
        result: Tensor = apply_op(op_type, x, name=name)
        return result
    if rank is None or not -rank <= axis < rank:
        raise InvalidArgumentError(
            f"{op_type} has no axis {axis} here",
            expected="an axis of logits of known rank",
            got=f"shape {x.shape}",
            hint="hr.ensure_shape states the rank where it is not known; axis=-1 needs none",
        )
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moved = apply_op(op_type, apply_op("Transpose", x, order))
    back: Tensor = apply_op("Transpose", moved, order, name=name)
    return back


def sparse_softmax_cross_entropy(labels: TensorLike, logits: TensorLike, *, name: str | None = None) -> Tensor:
    """-log(softmax(logits)[label]): the loss of a classifier whose true classes are given by number.

    Args:
      labels: integers `[...]`, each at least 0 and below the number of classes.
      logits: floating `[..., classes]`, unnormalised log-probabilities.
      name: the operation's name.
    Returns:
      The loss of each example in nats, of the dtype of `logits`, `[...]`.
    Raises:
      InvalidArgumentError: a label is not a class (when it is run).
      DTypeError: the labels are not integers.
      ShapeError: the labels do not fit the logits.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     loss = hr.nn.sparse_softmax_cross_entropy(labels=[1], logits=[[0.0, 0.0]])
      >>> print(hr.Session(graph).run(loss))
      [0.6931472]
    """
    x = convert_to_tensor(logits)
    y = _labels(labels)
    if x.shape.rank == 2:
        loss: Tensor = apply_op("SparseSoftmaxCrossEntropyWithLogits", x, y, name=name)[0]
        return loss
    if x.shape.dims is not None and not Shape(x.shape.dims[:-1]).is_compatible_with(y.shape):
        raise ShapeError(
            "the labels do not fit the logits",
            expected=str(Shape(x.shape.dims[:-1])),
            got=str(y.shape),
            hint=_LABELS_HINT,
        )
    rows = _rows(x)
    flat = apply_op("SparseSoftmaxCrossEntropyWithLogits", rows, apply_op("Reshape", y, [-1]))[0]
    shaped: Tensor = apply_op("Reshape", flat, apply_op("Shape", y), name=name)
    return shaped


def _labels(labels: TensorLike) -> Tensor:
    tensor = convert_to_tensor(labels if hasattr(labels, "dtype") else _integers(labels))
    if tensor.dtype in (int32, int64):
        return tensor
    if not tensor.dtype.is_integer:
        raise DTypeError(
            "the labels are not class numbers",
            expected="integers",
            got=str(tensor.spec),
            hint="hr.astype(labels, hr.int32); for a probability of each class, softmax_cross_entropy",
        )
    cast: Tensor = apply_op("Cast", tensor, DstT=int64)
    return cast


def _integers(labels: TensorLike) -> TensorLike:
    """An empty list has no dtype of its own; as labels it is one of integers."""
    return as_array(labels, int64) if isinstance(labels, list) and not np.size(np.asarray(labels, object)) else labels


def _rows(x: Tensor) -> Tensor:
    """Logits of any rank as a matrix; the number of classes is stated where it is known, so that empty batches work."""
    classes = None if x.shape.dims is None else x.shape[-1]
    if classes:
        result: Tensor = apply_op("Reshape", x, [-1, classes])
        return result
    last = apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], end_mask=1)
    shaped: Tensor = apply_op("Reshape", x, apply_op("ConcatV2", [[-1], last], 0))
    return shaped


def softmax_cross_entropy(labels: TensorLike, logits: TensorLike, *, name: str | None = None) -> Tensor:
    """-sum(labels * log(softmax(logits))): the loss of a classifier whose true classes are given by probability.

    Args:
      labels: the dtype of `logits`, `[..., classes]`; each row sums to 1 (not checked).
      logits: floating `[..., classes]`, unnormalised log-probabilities.
      name: the operation's name.
    Returns:
      The loss of each example in nats, `[...]`. Both arguments get gradients; `hr.stop_gradient(labels)` prevents it.
    Raises:
      ShapeError: the shapes do not agree.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     loss = hr.nn.softmax_cross_entropy(labels=[[0.5, 0.5]], logits=[[0.0, 0.0]])
      >>> print(hr.Session(graph).run(loss))
      [0.6931472]
    """
    x = convert_to_tensor(logits)
    y = convert_to_tensor(labels, x.dtype)
    if x.shape.rank == 2:
        loss: Tensor = apply_op("SoftmaxCrossEntropyWithLogits", x, y, name=name)[0]
        return loss
    x.shape.merge(y.shape)
    flat = apply_op("SoftmaxCrossEntropyWithLogits", _rows(x), _rows(y))[0]
    leading = apply_op("StridedSlice", apply_op("Shape", x), [0], [-1], [1], begin_mask=1)
    shaped: Tensor = apply_op("Reshape", flat, leading, name=name)
    return shaped


def sigmoid_cross_entropy(labels: TensorLike, logits: TensorLike, *, name: str | None = None) -> Tensor:
    """-z log(sigmoid(x)) - (1 - z) log(1 - sigmoid(x)): the loss of yes-or-no answers, each on its own.

    Args:
      labels: z, the dtype and shape of `logits`, in [0, 1].
      logits: x, floating, any shape.
      name: the operation's name.
    Returns:
      The loss of each answer in nats, of the same dtype and shape. It is computed as z softplus(-x) + (1 - z)
      softplus(x): that neither overflows nor subtracts numbers that are almost equal, and its derivative at 0 is exact.
    Raises:
      ShapeError: the shapes do not agree.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     loss = hr.nn.sigmoid_cross_entropy(labels=[1.0, 0.0], logits=[1000.0, -1000.0])
      >>> print(hr.Session(graph).run(loss))
      [0. 0.]
    """
    x = convert_to_tensor(logits)
    z = convert_to_tensor(labels, x.dtype)
    x.shape.merge(z.shape)
    yes = apply_op("Mul", z, apply_op("Softplus", apply_op("Neg", x)))
    no = apply_op("Mul", apply_op("Sub", 1.0, z), apply_op("Softplus", x))
    loss: Tensor = apply_op("AddV2", yes, no, name=name)
    return loss


def l2_loss(x: TensorLike, *, name: str | None = None) -> Tensor:
    """sum(x**2) / 2.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype, a scalar.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     loss = hr.nn.l2_loss([1.0, 3.0])
      >>> print(hr.Session(graph).run(loss))
      5.0
    """
    loss: Tensor = apply_op("L2Loss", x, name=name)
    return loss


def in_top_k(targets: TensorLike, predictions: TensorLike, k: int, *, name: str | None = None) -> Tensor:
    """For each row whether the target is among the k largest predictions; those that tie with the k-th all are.

    Args:
      targets: int32 or int64 `[batch]`, class numbers.
      predictions: float32 `[batch, classes]`.
      k: how many predictions count.
      name: the operation's name.
    Returns:
      bool `[batch]`; false where the target is not a class, or its prediction is not finite.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     hits = hr.nn.in_top_k([2, 0], [[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]], k=2)
      >>> print(hr.Session(graph).run(hits))
      [ True False]
    """
    hits: Tensor = apply_op("InTopKV2", predictions, targets, k, name=name)
    return hits
