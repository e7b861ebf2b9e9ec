"""Dataflow graphs: build, differentiate, optimise and run them."""

from headrace import data, errors, interfaces, layers
from headrace.config import Config, config
from headrace.function import Function, function
from headrace.grad import activations as _activations_gradients  # noqa: F401  # registers rules, as all below
from headrace.grad import array as _array_gradients  # noqa: F401
from headrace.grad import blocks as _blocks_gradients  # noqa: F401
from headrace.grad import comparison as _comparison_gradients  # noqa: F401
from headrace.grad import complex as _complex_gradients  # noqa: F401
from headrace.grad import control as _control_gradients  # noqa: F401
from headrace.grad import conversion as _conversion_gradients  # noqa: F401
from headrace.grad import convolution as _convolution_gradients  # noqa: F401
from headrace.grad import cumulative as _cumulative_gradients  # noqa: F401
from headrace.grad import diagonal as _diagonal_gradients  # noqa: F401
from headrace.grad import einsum as _einsum_gradients  # noqa: F401
from headrace.grad import elementary as _elementary_gradients  # noqa: F401
from headrace.grad import gather as _gather_gradients  # noqa: F401
from headrace.grad import joining as _joining_gradients  # noqa: F401
from headrace.grad import linalg as _linalg_gradients  # noqa: F401
from headrace.grad import losses as _losses_gradients  # noqa: F401
from headrace.grad import math as _math_gradients  # noqa: F401
from headrace.grad import nn as _nn_gradients  # noqa: F401
from headrace.grad import normalization as _normalization_gradients  # noqa: F401
from headrace.grad import padding as _padding_gradients  # noqa: F401
from headrace.grad import partition as _partition_gradients  # noqa: F401
from headrace.grad import pooling as _pooling_gradients  # noqa: F401
from headrace.grad import random as _random_gradients  # noqa: F401
from headrace.grad import reduction as _reduction_gradients  # noqa: F401
from headrace.grad import reshaping as _reshaping_gradients  # noqa: F401
from headrace.grad import reversal as _reversal_gradients  # noqa: F401
from headrace.grad import search as _search_gradients  # noqa: F401
from headrace.grad import segment as _segment_gradients  # noqa: F401
from headrace.grad import selection as _selection_gradients  # noqa: F401
from headrace.grad import slicing as _slicing_gradients  # noqa: F401
from headrace.grad import state as _state_gradients  # noqa: F401
from headrace.grad import stateless_random as _stateless_random_gradients  # noqa: F401
from headrace.grad.backprop import explain_gradient, gradients
from headrace.grad.registry import gradient_override, no_gradient, register_gradient
from headrace.graph import attr
from headrace.graph.apply import apply_op, constant, convert_to_tensor
from headrace.graph.graph import Graph
from headrace.graph.graph_def import export_graph_def, from_graph_def, import_graph_def, to_graph_def
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.printer import format_graph
from headrace.graph.scopes import colocate_with, control_dependencies, device, name_scope
from headrace.kernels import activations as _activations_kernels  # noqa: F401
from headrace.kernels import array as _array_kernels  # noqa: F401
from headrace.kernels import blocks as _blocks_kernels  # noqa: F401
from headrace.kernels import comparison as _comparison_kernels  # noqa: F401
from headrace.kernels import complex as _complex_kernels  # noqa: F401
from headrace.kernels import control as _control_kernels  # noqa: F401
from headrace.kernels import conversion as _conversion_kernels  # noqa: F401
from headrace.kernels import convolution as _convolution_kernels  # noqa: F401
from headrace.kernels import cumulative as _cumulative_kernels  # noqa: F401
from headrace.kernels import diagonal as _diagonal_kernels  # noqa: F401
from headrace.kernels import einsum as _einsum_kernels  # noqa: F401
from headrace.kernels import elementary as _elementary_kernels  # noqa: F401
from headrace.kernels import gather as _gather_kernels  # noqa: F401
from headrace.kernels import joining as _joining_kernels  # noqa: F401
from headrace.kernels import linalg as _linalg_kernels  # noqa: F401
from headrace.kernels import losses as _losses_kernels  # noqa: F401
from headrace.kernels import math as _math_kernels  # noqa: F401
from headrace.kernels import nn as _nn_kernels  # noqa: F401
from headrace.kernels import normalization as _normalization_kernels  # noqa: F401
from headrace.kernels import padding as _padding_kernels  # noqa: F401
from headrace.kernels import partition as _partition_kernels  # noqa: F401
from headrace.kernels import pooling as _pooling_kernels  # noqa: F401
from headrace.kernels import random as _random_kernels  # noqa: F401
from headrace.kernels import reduction as _reduction_kernels  # noqa: F401
from headrace.kernels import reshaping as _reshaping_kernels  # noqa: F401
from headrace.kernels import reversal as _reversal_kernels  # noqa: F401
from headrace.kernels import search as _search_kernels  # noqa: F401
from headrace.kernels import segment as _segment_kernels  # noqa: F401
from headrace.kernels import selection as _selection_kernels  # noqa: F401
from headrace.kernels import slicing as _slicing_kernels  # noqa: F401
from headrace.kernels import special as _special_kernels  # noqa: F401
from headrace.kernels import state as _state_kernels  # noqa: F401
from headrace.kernels import stateless_random as _stateless_random_kernels  # noqa: F401
from headrace.kernels.registry import register_kernel
from headrace.ops import linalg, nn, random
from headrace.ops import state as _state_ops  # noqa: F401
from headrace.ops.array import (
    arange,
    full,
    full_like,
    linspace,
    one_hot,
    ones,
    ones_like,
    placeholder,
    placeholder_with_default,
    rank,
    shape,
    size,
    zeros,
    zeros_like,
)
from headrace.ops.blocks import batch_to_space, depth_to_space, space_to_batch, space_to_depth
from headrace.ops.comparison import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from headrace.ops.complex import angle, complex, conj, imag, real
from headrace.ops.control import group, identity, stop_gradient
from headrace.ops.conversion import bitcast, cast, check_numerics, ensure_shape
from headrace.ops.cumulative import cumulative_logsumexp, cumulative_prod, cumulative_sum
from headrace.ops.diagonal import band_part, diag, diag_part, eye
from headrace.ops.einsum import einsum, tensordot
from headrace.ops.elementary import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    exp,
    expm1,
    lgamma,
    log,
    log1p,
    polygamma,
    reciprocal,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    xdivy,
    xlogy,
    zeta,
)
from headrace.ops.gather import (
    gather,
    gather_nd,
    invert_permutation,
    scatter_nd,
    take,
    tensor_scatter_add,
    tensor_scatter_update,
)
from headrace.ops.indexed_slices import IndexedSlices
from headrace.ops.joining import concat, split, stack, unstack
from headrace.ops.linalg import matmul
from headrace.ops.math import (
    abs,
    add,
    add_n,
    ceil,
    clip,
    divide,
    divide_no_nan,
    floor,
    floor_divide,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    multiply,
    multiply_no_nan,
    negative,
    pow,
    remainder,
    round,
    sign,
    square,
    squared_difference,
    subtract,
    trunc,
    truncate_divide,
    truncate_mod,
)
from headrace.ops.padding import pad
from headrace.ops.partition import dynamic_partition, dynamic_stitch
from headrace.ops.reduction import (
    all,
    any,
    argmax,
    argmin,
    euclidean_norm,
    logsumexp,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from headrace.ops.reshaping import broadcast_to, expand_dims, permute_dims, reshape, squeeze, tile, transpose
from headrace.ops.reversal import flip, reverse_sequence, roll
from headrace.ops.search import histogram_fixed_width, setdiff1d, topk, unique, unique_with_counts
from headrace.ops.segment import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    sparse_segment_mean,
    sparse_segment_sum,
    unsorted_segment_max,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sum,
)
from headrace.ops.selection import argwhere, boolean_mask, where
from headrace.runtime.trace import Trace
from headrace.session import PendingStep, Session
from headrace.signature import Signature
from headrace.training import optim
from headrace.training.callbacks import Callback, EarlyStopping
from headrace.training.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from headrace.training.trainer import Trainer
from headrace.types import (
    DType,
    Shape,
    TensorSpec,
    as_dtype,
    bfloat16,
    bool,
    broadcast_shapes,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from headrace.variable import Variable
