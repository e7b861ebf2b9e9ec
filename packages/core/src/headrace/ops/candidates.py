"""Candidate sampling: losses over some classes in the place of all (paper, sections 4.2 and 6.4).

A softmax over hundreds of thousands of classes costs as many dot products for each example. The samplers draw a few
classes for a whole batch; the losses compare the true classes with those only, and subtract the logarithm of how often
each was to be expected.

Source: Jean et al., *On using very large target vocabulary for neural machine translation*, ACL 2015; Gutmann,
Hyvarinen, *Noise-contrastive estimation*, AISTATS 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.control import stop_gradient
from headrace.ops.embedding import embedding_lookup
from headrace.ops.losses import sigmoid_cross_entropy, softmax_cross_entropy
from headrace.ops.random import operation_seeds
from headrace.types import Shape, int64

__all__ = [
    "Candidates",
    "fixed_unigram_candidates",
    "learned_unigram_candidates",
    "log_uniform_candidates",
    "nce_loss",
    "sampled_softmax_loss",
    "uniform_candidates",
]

_MAX_SAMPLED = 1 << 24
"""Candidates of one step: more than that is a damaged graph."""


def _register_sampler(name: str, doc: str, attrs: dict[str, AttrSpec] | None = None) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        true, sampled = op.attr("num_true"), op.attr("num_sampled")
        if op.attr("unique") and sampled > op.attr("range_max"):
            raise InvalidArgumentError(
                "there are too few classes",
                expected=f"at least {sampled} different ones",
                got=str(op.attr("range_max")),
                hint="draw fewer, or let classes repeat with unique=False",
            )
        if sampled > _MAX_SAMPLED:
            raise InvalidArgumentError(
                "too many are drawn",
                expected=f"at most {_MAX_SAMPLED}",
                got=str(sampled),
                hint="lower num_sampled; a few thousand are plenty for a loss",
            )
        classes = _true_classes(op.inputs[0].shape, true)
        return [Shape([sampled]), classes, Shape([sampled])]

    shape.__doc__ = doc
    positive = attr.int(minimum=1)
    register_op(
        name,
        inputs={"true_classes": "int64"},
        outputs={"sampled_candidates": "int64", "true_expected_count": "float32", "sampled_expected_count": "float32"},
        attrs={
            "num_true": positive, "num_sampled": positive, "unique": attr.bool(), "range_max": positive,
            "seed": attr.int(0), "seed2": attr.int(0), **(attrs or {}),
        },
        stateful=True,
    )(shape)  # fmt: skip


def _true_classes(given: Shape, count: int) -> Shape:
    if not given.with_rank(2).is_compatible_with(Shape([None, count])):
        raise ShapeError(
            "each example has num_true classes",
            expected=f"[batch, {count}]",
            got=str(given),
            hint=f"hr.reshape(labels, [-1, {count}])",
        )
    return given.merge(Shape([None, count]))


_register_sampler(
    "UniformCandidateSampler",
    "Classes below range_max, each as likely as any other, and how often true and drawn classes were to be expected.",
)
_register_sampler(
    "LogUniformCandidateSampler",
    "Classes c below range_max with probability log((c + 2) / (c + 1)) / log(range_max + 1), which suits vocabularies "
    "in the order of their frequency, and how often true and drawn classes were to be expected.",
)


_register_sampler(
    "FixedUnigramCandidateSampler",
    "Classes with probabilities in proportion to given weights to the power `distortion`, and how often true and drawn "
    "classes were to be expected. The weights are `unigrams`, or the last column of each line of `vocab_file`; before "
    "them stand num_reserved_ids classes that are never drawn. Of several shards only the classes that leave the rest "
    "`shard` when divided by num_shards are drawn.",
    {
        "vocab_file": attr.string(""),
        "distortion": attr.float(1.0),
        "num_reserved_ids": attr.int(0, minimum=0),
        "num_shards": attr.int(1, minimum=1),
        "shard": attr.int(0, minimum=0),
        "unigrams": attr.list_of(attr.float(), ()),
    },
)
_register_sampler(
    "LearnedUnigramCandidateSampler",
    "Classes in proportion to how often they were true so far, plus one; the true classes of this step count from the "
    "next one on. And how often true and drawn classes were to be expected.",
)


@register_op(
    "ComputeAccidentalHits",
    inputs={"true_classes": "int64", "sampled_candidates": "int64"},
    outputs={"indices": "int32", "ids": "int64", "weights": "float32"},
    attrs={"num_true": attr.int(minimum=1), "seed": attr.int(0), "seed2": attr.int(0)},
)
def _hits_shape(op: InferenceContext) -> list[Shape]:
    """Where a candidate is a true class: the example, the candidate's position, and a weight of nearly -infinity."""
    _true_classes(op.inputs[0].shape, op.attr("num_true"))
    op.inputs[1].shape.with_rank(1)
    return [Shape([None]), Shape([None]), Shape([None])]


class Candidates(NamedTuple):
    """Classes that stand for all others in one step.

    Attributes:
      classes: int64 `[sampled]`, the drawn classes.
      true_expected: float32 `[batch, true]`, how often each true class was to be expected among them.
      sampled_expected: float32 `[sampled]`, the same for the drawn ones.
    """

    classes: Tensor
    true_expected: Tensor
    sampled_expected: Tensor


def _sample(
    op_type: str,
    true_classes: TensorLike,
    num_sampled: int,
    num_classes: int,
    unique: bool,
    seed: int | None,
    name: str | None,
    **options: object,
) -> Candidates:
    classes = _as_int64(true_classes)
    first, second = operation_seeds(seed)
    attrs: dict[str, object] = {"num_sampled": num_sampled, "range_max": num_classes, "unique": unique, **options}
    attrs |= {"seed": first, "seed2": second}
    drawn: tuple[Tensor, Tensor, Tensor] = apply_op(op_type, classes, num_true=classes.shape[1], **attrs, name=name)
    return Candidates(*drawn)


def _as_int64(labels: TensorLike) -> Tensor:
    tensor = convert_to_tensor(labels)
    wide: Tensor = tensor if tensor.dtype is int64 else apply_op("Cast", tensor, DstT=int64)
    return wide


def uniform_candidates(
    true_classes: TensorLike,
    num_sampled: int,
    num_classes: int,
    *,
    unique: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes that are all equally likely.

    Args:
      true_classes: integers `[batch, true]`, the classes of the examples.
      num_sampled: how many classes to draw for the whole batch.
      num_classes: classes are the numbers below.
      unique: draw different ones.
      seed: the operation's seed (see `hr.random`).
      name: the operation's name.
    Returns:
      The drawn classes and the expected counts.
    Raises:
      InvalidArgumentError: there are not so many different classes.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     drawn = hr.nn.uniform_candidates([[0]], 3, 3)
      >>> print(sorted(hr.Session(graph).run(drawn.classes).tolist()))
      [0, 1, 2]
    """
    return _sample("UniformCandidateSampler", true_classes, num_sampled, num_classes, unique, seed, name)


def log_uniform_candidates(
    true_classes: TensorLike,
    num_sampled: int,
    num_classes: int,
    *,
    unique: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw small classes more often: class c with probability log((c + 2) / (c + 1)) / log(num_classes + 1).

    That is about how often words are, numbered from the most frequent. See `uniform_candidates` for the arguments.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     drawn = hr.nn.log_uniform_candidates([[0], [7]], 4, 10)
      >>> print(drawn.true_expected.shape)
      [2, 1]
    """
    return _sample("LogUniformCandidateSampler", true_classes, num_sampled, num_classes, unique, seed, name)


def fixed_unigram_candidates(
    true_classes: TensorLike,
    num_sampled: int,
    unigrams: Sequence[float],
    *,
    distortion: float = 1.0,
    num_reserved: int = 0,
    unique: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes in proportion to weights, such as how often each word stands in a text.

    Args:
      true_classes: integers `[batch, true]`, the classes of the examples.
      num_sampled: how many classes to draw for the whole batch.
      unigrams: the weight of each class, after the reserved ones.
      distortion: weights are taken to this power; 0 makes all classes equally likely.
      num_reserved: classes before the first weight that are never drawn, such as padding.
      unique: see `uniform_candidates`.
      seed: see `uniform_candidates`.
      name: the operation's name.
    Returns:
      The drawn classes and the expected counts.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     drawn = hr.nn.fixed_unigram_candidates([[1]], 2, [3.0, 0.0, 1.0])
      >>> print(sorted(hr.Session(graph).run(drawn.classes).tolist()))
      [0, 2]
    """
    options = {"unigrams": list(unigrams), "distortion": distortion, "num_reserved_ids": num_reserved}
    count = num_reserved + len(unigrams)
    return _sample("FixedUnigramCandidateSampler", true_classes, num_sampled, count, unique, seed, name, **options)


def learned_unigram_candidates(
    true_classes: TensorLike,
    num_sampled: int,
    num_classes: int,
    *,
    unique: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Candidates:
    """Draw classes in proportion to how often they were true in the steps before; see `uniform_candidates`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     drawn = hr.nn.learned_unigram_candidates([[0], [7]], 4, 10)
      >>> print(drawn.true_expected.shape)
      [2, 1]
    """
    return _sample("LearnedUnigramCandidateSampler", true_classes, num_sampled, num_classes, unique, seed, name)


def sampled_softmax_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    *,
    candidates: Candidates | None = None,
    strategy: str = "mod",
    remove_accidental_hits: bool = True,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of a softmax over the true classes and a few drawn ones; for training only.

    Args:
      weights: Variable or tensor `[classes, features]`, or a list of shards of it; of Variables only the rows of those
        classes are read, and only they get a gradient.
      biases: Variable or tensor `[classes]`, or a list of shards.
      labels: integers `[batch, true]`; the true classes of an example are equally likely.
      inputs: `[batch, features]`, the activations below the softmax.
      num_sampled: how many classes are drawn for the whole batch.
      num_classes: how many there are.
      candidates: the drawn classes; by default `log_uniform_candidates`, all different.
      strategy: how classes are dealt to shards, see `hr.nn.embedding_lookup`.
      remove_accidental_hits: drawn classes that are true do not count as wrong.
      seed: of the default candidates.
      name: the operation's name.
    Returns:
      `[batch]`, the loss in nats.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     w, b = hr.Variable(hr.zeros([1000, 8])), hr.Variable(hr.zeros([1000]))
      ...     loss = hr.nn.sampled_softmax_loss(w, b, [[3], [999]], hr.ones([2, 8]), 20, 1000)
      >>> print(loss.shape)
      [2]
    """
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, candidates, strategy, remove_accidental_hits, seed
    )
    return softmax_cross_entropy(stop_gradient(targets), logits, name=name)


def nce_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    *,
    candidates: Candidates | None = None,
    strategy: str = "mod",
    remove_accidental_hits: bool = False,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """The noise-contrastive loss: a logistic regression that tells the true classes from the drawn ones.

    The arguments are those of `sampled_softmax_loss`.

    Returns:
      `[batch]`, the sum over the true and the drawn classes, in nats.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     w, b = hr.Variable(hr.zeros([1000, 8])), hr.Variable(hr.zeros([1000]))
      ...     loss = hr.nn.nce_loss(w, b, [[3], [999]], hr.ones([2, 8]), 20, 1000)
      >>> print(loss.shape)
      [2]
    """
    logits, targets = _sampled_logits(
        weights, biases, labels, inputs, num_sampled, num_classes, candidates, strategy, remove_accidental_hits, seed
    )
    result: Tensor = apply_op("Sum", sigmoid_cross_entropy(stop_gradient(targets), logits), 1, name=name)
    return result


def _sampled_logits(
    weights: TensorLike,
    biases: TensorLike,
    labels: TensorLike,
    inputs: TensorLike,
    num_sampled: int,
    num_classes: int,
    candidates: Candidates | None,
    strategy: str,
    remove_accidental_hits: bool,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Logits and targets `[batch, true + sampled]`: of the true classes 1 / true each, of the drawn ones 0."""
    classes, x = _as_int64(labels), convert_to_tensor(inputs)
    true = classes.shape.with_rank(2)[1]
    if true is None:
        raise ShapeError(
            "the number of true classes must be known",
            expected="[batch, true]",
            got=str(classes.shape),
            hint="hr.ensure_shape(labels, [None, true]) states the number",
        )
    drawn = candidates or log_uniform_candidates(classes, num_sampled, num_classes, seed=seed)
    sampled, true_expected, sampled_expected = (stop_gradient(part) for part in drawn)
    flat: Tensor = apply_op("Reshape", classes, [-1])
    ids = apply_op("ConcatV2", [flat, sampled], 0)
    sizes = apply_op("Pack", [apply_op("Size", flat), apply_op("Size", sampled)])
    true_weights, sampled_weights = apply_op("SplitV", embedding_lookup(weights, ids, strategy), sizes, 0, num_split=2)
    true_biases, sampled_biases = apply_op("SplitV", embedding_lookup(biases, ids, strategy), sizes, 0, num_split=2)
    # One row of features for each true class of an example, to be multiplied with that class's weights.
    grouped: Tensor = apply_op("Reshape", true_weights, _grouped(x, true))
    true_logits = apply_op("Sum", apply_op("Mul", apply_op("ExpandDims", x, 1), grouped), 2)
    true_logits = true_logits + apply_op("Reshape", true_biases, [-1, true])
    sampled_logits = apply_op("MatMul", x, sampled_weights, transpose_b=True) + sampled_biases
    if remove_accidental_hits:
        sampled_logits = sampled_logits + _hits(classes, sampled, true, sampled_logits)
    pairs = ((true_logits, true_expected), (sampled_logits, sampled_expected))
    corrected = [logits - apply_op("Cast", apply_op("Log", count), DstT=x.dtype) for logits, count in pairs]
    targets = [
        apply_op("OnesLike", true_logits) / apply_op("Cast", np.float32(true), DstT=x.dtype),
        apply_op("ZerosLike", sampled_logits),
    ]
    return apply_op("ConcatV2", corrected, 1), apply_op("ConcatV2", targets, 1)


def _grouped(x: Tensor, true: int) -> Tensor:
    """The shape `[batch, true, features]`."""
    batch, features = apply_op("Unpack", apply_op("Shape", x), num=2)
    shape: Tensor = apply_op("Pack", [batch, np.int32(true), features])
    return shape


def _hits(classes: Tensor, sampled: Tensor, true: int, logits: Tensor) -> Tensor:
    """Nearly -infinity at drawn classes that are true, 0 elsewhere."""
    rows, columns, weights = apply_op("ComputeAccidentalHits", classes, sampled, num_true=true)
    places = apply_op("Pack", [rows, apply_op("Cast", columns, DstT="int32")], axis=1)
    lowest = apply_op("Cast", weights, DstT=logits.dtype)
    marks: Tensor = apply_op("ScatterNd", places, lowest, apply_op("Shape", logits))
    return stop_gradient(apply_op("Maximum", marks, _lowest(logits)))


def _lowest(logits: Tensor) -> Tensor:
    """A number that removes a class but stays finite when it is added to: a class may be true twice."""
    limit = {"float16": -6e4, "bfloat16": -1e38, "float32": -1e38, "float64": -1e38}[logits.dtype.name]
    lowest: Tensor = apply_op("Cast", np.float64(limit), DstT=logits.dtype)
    return lowest
