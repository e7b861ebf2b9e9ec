"""Sequences whose labels stand in order but not in time: the CTC loss, its greedy decoder, and edit distances.

Source: Graves et al., "Connectionist Temporal Classification", 2006.
"""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.sparse import SparseTensor
from headrace.types import Shape, float32, float64, int32

__all__ = ["ctc_greedy_decoder", "ctc_loss", "edit_distance"]

_T = AttrSpec("type", default=float32, allowed=(float32, float64))


def _frames(op: InferenceContext, lengths: Shape) -> tuple[Shape, int | None]:
    """The shape `[time, batch, classes]` of the frames, and the batch."""
    time, batch, classes = op.inputs[0].shape.with_rank(3)
    examples = Shape([batch])
    if not examples.is_compatible_with(lengths):
        raise ShapeError(
            "each example has one length",
            expected=str(examples),
            got=str(lengths),
            hint="inputs are [time, batch, classes]; hr.permute_dims(x, [1, 0, 2]) puts the time first",
        )
    known = batch if lengths.dims is None else examples.merge(lengths)[0]
    return Shape([time, known, classes]), known


@register_op(
    "CTCLoss",
    inputs={"inputs": "T", "labels_indices": "int64", "labels_values": "int32", "sequence_length": "int32"},
    outputs={"loss": "T", "gradient": "T"},
    attrs={
        "preprocess_collapse_repeated": attr.bool(False),
        "ctc_merge_repeated": attr.bool(True),
        "ignore_longer_outputs_than_inputs": attr.bool(False),
        "T": _T,
    },
)
def _ctc_loss_shape(op: InferenceContext) -> list[Shape]:
    """-log of the probability that the frames spell the labels, and the gradient of that by the frames.

    The frames are unnormalised log-probabilities; their last class is the blank between labels.
    """
    frames, batch = _frames(op, op.inputs[3].shape)
    count = op.inputs[2].shape.with_rank(1)[0]
    op.inputs[1].shape.merge(Shape([count, 2]))
    return [Shape([batch]), frames]


@register_op(
    "CTCGreedyDecoder",
    inputs={"inputs": "T", "sequence_length": "int32"},
    outputs={
        "decoded_indices": "int64",
        "decoded_values": "int64",
        "decoded_shape": "int64",
        "log_probability": "T",
    },
    attrs={"merge_repeated": attr.bool(False), "blank_index": attr.int(-1), "T": _T},
)
def _ctc_greedy_decoder_shape(op: InferenceContext) -> list[Shape]:
    """The most probable class of each frame without blanks, as a sparse matrix, and minus the sum of their logits.

    With merge_repeated a class that fills several frames in a row counts once.
    """
    _, batch = _frames(op, op.inputs[1].shape)
    return [Shape([None, 2]), Shape([None]), Shape([2]), Shape([batch, 1])]


@register_op(
    "EditDistance",
    inputs={
        "hypothesis_indices": "int64",
        "hypothesis_values": "T",
        "hypothesis_shape": "int64",
        "truth_indices": "int64",
        "truth_values": "T",
        "truth_shape": "int64",
    },
    outputs={"output": "float32"},
    attrs={"normalize": attr.bool(True), "T": attr.any_type},
)
def _edit_distance_shape(op: InferenceContext) -> list[Shape]:
    """How many insertions, deletions and substitutions make each sequence of truth from that of hypothesis.

    Sequences lie along the last axis of two sparse tensors. Divided by the length of truth if `normalize`.
    """
    for first in (0, 3):
        count = op.inputs[first + 1].shape.with_rank(1)[0]
        rank = op.inputs[first + 2].shape.with_rank(1)[0]
        op.inputs[first].shape.merge(Shape([count, rank]))
    ranks = op.inputs[2].shape.merge(op.inputs[5].shape)
    sizes = [op.constant(2), op.constant(5)]
    if sizes[0] is None or sizes[1] is None:
        return [Shape() if ranks.dims is None or ranks[0] is None else Shape([None] * (ranks[0] - 1))]
    return [Shape(max(int(a), int(b)) for a, b in zip(sizes[0][:-1], sizes[1][:-1], strict=True))]


def ctc_loss(
    labels: SparseTensor,
    logits: TensorLike,
    logit_length: TensorLike,
    *,
    merge_repeated: bool = True,
    collapse_labels: bool = False,
    ignore_longer_labels: bool = False,
    name: str | None = None,
) -> Tensor:
    """-log of the probability that frames spell labels, whichever frames each label takes.

    Args:
      labels: int32 `[batch, labels]`, sparse: the classes of each example in order.
      logits: float32 or float64 `[time, batch, classes]`, unnormalised; the last class is the blank.
      logit_length: int32 `[batch]`, the frames of each example.
      merge_repeated: a class in several frames in a row is one label; two such labels need a blank between them.
      collapse_labels: labels that repeat count once.
      ignore_longer_labels: examples with more labels than frames have loss 0, instead of an error.
      name: the operation's name.
    Returns:
      `[batch]` in nats. It has a first derivative only.
    Raises:
      InvalidArgumentError: in the step, if the frames of an example are too few or a label is no class.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     labels = hr.sparse.from_dense([[1]])
      ...     loss = hr.nn.ctc_loss(labels, hr.zeros([2, 1, 3]), [2])
      >>> print(hr.Session(graph).run(loss).round(4))
      [1.0986]
    """
    given = convert_to_tensor(labels.values)
    values = given if given.dtype is int32 else apply_op("Cast", given, DstT=int32)
    loss, _ = apply_op(
        "CTCLoss",
        convert_to_tensor(logits),
        labels.indices,
        values,
        logit_length,
        preprocess_collapse_repeated=collapse_labels,
        ctc_merge_repeated=merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_labels,
        name=name,
    )
    result: Tensor = loss
    return result


def ctc_greedy_decoder(
    logits: TensorLike,
    logit_length: TensorLike,
    *,
    merge_repeated: bool = True,
    blank_index: int = -1,
    name: str | None = None,
) -> tuple[SparseTensor, Tensor]:
    """The most probable class of each frame, without blanks and repetitions.

    Args:
      logits: float32 or float64 `[time, batch, classes]`.
      logit_length: int32 `[batch]`, the frames of each example.
      merge_repeated: a class in several frames in a row counts once.
      blank_index: the class between labels; negative ones count from the end.
      name: the operation's name.
    Returns:
      The labels, int64 `[batch, labels]`, sparse, and minus the sum of the logits of the chosen classes `[batch, 1]`.

    Example:
      >>> import headrace as hr
      >>> frames = [[[9.0, 0.0, 0.0]], [[9.0, 0.0, 0.0]], [[0.0, 0.0, 9.0]], [[0.0, 9.0, 0.0]]]
      >>> with hr.Graph().as_default() as graph:
      ...     labels, _ = hr.nn.ctc_greedy_decoder(frames, [4])
      >>> print(hr.Session(graph).run(labels.values))
      [0 1]
    """
    *parts, score = apply_op(
        "CTCGreedyDecoder",
        convert_to_tensor(logits),
        logit_length,
        merge_repeated=merge_repeated,
        blank_index=blank_index,
        name=name,
    )
    return SparseTensor(*parts), score


def edit_distance(
    hypothesis: SparseTensor, truth: SparseTensor, *, normalize: bool = True, name: str | None = None
) -> Tensor:
    """How many insertions, deletions and substitutions make each sequence of `truth` from that of `hypothesis`.

    Args:
      hypothesis: any dtype `[..., length]`, sparse, with indices in order.
      truth: the same dtype and rank.
      normalize: divide by the length of the truth; a sequence that should be empty then has the distance infinity.
      name: the operation's name.
    Returns:
      float32 `[...]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     a, b = (hr.sparse.from_dense([row]) for row in ([1, 2, 3, 4], [1, 3, 4, 5]))
      ...     d = hr.nn.edit_distance(a, b)
      >>> print(hr.Session(graph).run(d))
      [0.5]
    """
    parts = [tensor for sparse in (hypothesis, truth) for tensor in (sparse.indices, sparse.values, sparse.shape)]
    result: Tensor = apply_op("EditDistance", *parts, normalize=normalize, name=name)
    return result
