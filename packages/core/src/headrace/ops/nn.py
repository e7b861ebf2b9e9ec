"""What neural networks are made of (`hr.nn`): the functions of the families below it, bias, dropout and embeddings."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.activations import elu, gelu, leaky_relu, relu, relu6, selu, silu, softplus, softsign
from headrace.ops.alignment import ctc_greedy_decoder, ctc_loss, edit_distance
from headrace.ops.attention import attention
from headrace.ops.candidates import (
    Candidates,
    fixed_unigram_candidates,
    learned_unigram_candidates,
    log_uniform_candidates,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidates,
)
from headrace.ops.convolution import conv2d, depthwise_conv2d
from headrace.ops.embedding import embedding_lookup, embedding_lookup_sparse, sharded_softmax_cross_entropy
from headrace.ops.losses import (
    in_top_k,
    l2_loss,
    log_softmax,
    sigmoid_cross_entropy,
    softmax,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from headrace.ops.normalization import batch_norm, l2_normalize, layer_norm, local_response_normalization, moments
from headrace.ops.pooling import avg_pool2d, max_pool2d, max_pool2d_with_argmax
from headrace.ops.random import dropout_mask
from headrace.ops.rnn import rnn
from headrace.ops.volume import conv3d
from headrace.ops.volume_pooling import avg_pool3d, max_pool3d
from headrace.ops.window import DATA_FORMAT
from headrace.types import Shape

__all__ = [
    "Candidates",
    "attention",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bias_add",
    "conv2d",
    "conv3d",
    "ctc_greedy_decoder",
    "ctc_loss",
    "depthwise_conv2d",
    "dropout",
    "edit_distance",
    "elu",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "fixed_unigram_candidates",
    "gelu",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "learned_unigram_candidates",
    "local_response_normalization",
    "log_softmax",
    "log_uniform_candidates",
    "max_pool2d",
    "max_pool2d_with_argmax",
    "max_pool3d",
    "moments",
    "nce_loss",
    "relu",
    "relu6",
    "rnn",
    "sampled_softmax_loss",
    "selu",
    "sharded_softmax_cross_entropy",
    "sigmoid_cross_entropy",
    "silu",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy",
    "uniform_candidates",
]

_BIAS = {"T": attr.numeric, "data_format": DATA_FORMAT}


def bias_axis(data_format: str, rank: int) -> int:
    """The axis of the channels: the last, or with `NCHW` the second of any rank."""
    return 1 if data_format == "NCHW" else rank - 1


def _bias_size(op: InferenceContext, value: Shape) -> int | None:
    if value.rank is None:
        return None
    if value.rank < 2:
        raise ShapeError(
            "there is no axis of channels",
            expected="rank >= 2",
            got=str(value),
            hint="hr.expand_dims(x, 0) makes a batch of one, hr.add adds without channels",
        )
    return value[bias_axis(op.attr("data_format"), value.rank)]


@register_op("BiasAdd", inputs={"value": "T", "bias": "T"}, outputs={"output": "T"}, attrs=_BIAS)
def _bias_add_shape(op: InferenceContext) -> list[Shape]:
    """value + bias, one number per channel."""
    value, bias = op.inputs[0].shape, op.inputs[1].shape.with_rank(1)
    wanted = Shape([_bias_size(op, value)])
    if not wanted.is_compatible_with(bias):
        raise ShapeError(
            "the bias does not fit the channels",
            expected=str(wanted),
            got=str(bias),
            hint="data_format='NCHW' if axis 1 counts the channels; hr.add broadcasts any bias",
        )
    return [value]


@register_op("BiasAddGrad", inputs={"out_backprop": "T"}, outputs={"output": "T"}, attrs=_BIAS)
def _bias_add_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of BiasAdd by its bias: the sum over everything but the channels."""
    return [Shape([_bias_size(op, op.inputs[0].shape)])]


def bias_add(x: TensorLike, bias: TensorLike, data_format: str = "NHWC", *, name: str | None = None) -> Tensor:
    """x + bias, one number per channel.

    Args:
      x: numeric `[batch, ..., channels]`, or `[batch, channels, ...]` with `"NCHW"`.
      bias: the same dtype `[channels]`.
      data_format: `"NHWC"` or `"NCHW"`, for any rank from 2.
      name: the operation's name.
    Returns:
      The dtype and shape of `x`.
    Raises:
      ShapeError: the bias does not have one number per channel.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.bias_add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0])
      >>> print(hr.Session(graph).run(y))
      [[11. 22.]
       [13. 24.]]
    """
    result: Tensor = apply_op("BiasAdd", x, bias, data_format=data_format, name=name)
    return result


def dropout(
    x: TensorLike,
    rate: float,
    *,
    seed: int | None = None,
    training: bool | Tensor = True,
    name: str | None = None,
) -> Tensor:
    """Set elements to 0 with a probability, and divide the others by the probability of staying: the mean stays.

    Args:
      x: floating, any shape.
      rate: the probability of becoming 0, `0 <= rate < 1`.
      seed: the operation's seed (see `hr.random`).
      training: False leaves `x` as it is; a bool tensor decides when it is run.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Raises:
      InvalidArgumentError: `rate` is out of range.
    Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", 2014.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.dropout(hr.constant(1.0, shape=[8]), 0.5, seed=1)
      >>> sorted({float(value) for value in hr.Session(graph).run(y)})
      [0.0, 2.0]
    """
    if not 0 <= rate < 1:
        raise InvalidArgumentError(
            "the dropout rate is out of range",
            expected="0 <= rate < 1",
            got=str(rate),
            hint="rate is the fraction to drop, not the one to keep; 0 drops nothing",
        )
    tensor = convert_to_tensor(x)
    if training is False or rate == 0:
        same: Tensor = apply_op("Identity", tensor, name=name)
        return same
    kept = dropout_mask(apply_op("Shape", tensor), rate, tensor.dtype, seed=seed)
    scaled = apply_op("Mul", tensor, 1 / (1 - rate))
    if training is True:
        result: Tensor = apply_op("SelectV2", kept, scaled, apply_op("ZerosLike", tensor), name=name)
        return result
    thinned = apply_op("SelectV2", kept, scaled, apply_op("ZerosLike", tensor))
    chosen: Tensor = apply_op("SelectV2", training, thinned, tensor, name=name)
    return chosen
