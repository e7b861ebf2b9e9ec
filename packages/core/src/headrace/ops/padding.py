"""Operations that put elements around a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Array, Shape

__all__ = ["check_mirror", "checked_paddings", "pad", "unpadded_sizes"]


@register_op(
    "Pad",
    inputs={"input": "T", "paddings": "Tpaddings"},
    outputs={"output": "T"},
    attrs={"Tpaddings": attr.index_type},
)
def _pad_shape(op: InferenceContext) -> list[Shape]:
    """The input with paddings[i, 0] zeros before and paddings[i, 1] after it along each axis i."""
    return [_padded(op)]


@register_op(
    "PadV2",
    inputs={"input": "T", "paddings": "Tpaddings", "constant_values": "T"},
    outputs={"output": "T"},
    attrs={"Tpaddings": attr.index_type},
)
def _pad_v2_shape(op: InferenceContext) -> list[Shape]:
    """As `Pad`, with a given value instead of zero."""
    if op.inputs[2].shape.rank not in (None, 0):
        raise ShapeError(
            "constant_values must be a scalar",
            expected="shape []",
            got=str(op.inputs[2].shape),
            hint="hr.concat puts a tensor of other values beside x",
        )
    return [_padded(op)]


_MIRROR_ATTRS = {"Tpaddings": attr.index_type, "mode": attr.string(allowed=["REFLECT", "SYMMETRIC"])}


@register_op("MirrorPad", inputs={"input": "T", "paddings": "Tpaddings"}, outputs={"output": "T"}, attrs=_MIRROR_ATTRS)
def _mirror_pad_shape(op: InferenceContext) -> list[Shape]:
    """As `Pad`, with the elements near each edge mirrored: the edge itself is repeated (SYMMETRIC) or not (REFLECT)."""
    paddings, dims = op.constant(1), op.inputs[0].shape.dims
    if paddings is not None and dims is not None:
        check_mirror(checked_paddings(paddings, len(dims)), dims, op.attr("mode"))
    return [_padded(op)]


@register_op(
    "MirrorPadGrad", inputs={"input": "T", "paddings": "Tpaddings"}, outputs={"output": "T"}, attrs=_MIRROR_ATTRS
)
def _mirror_pad_grad_shape(op: InferenceContext) -> list[Shape]:
    """The transpose of `MirrorPad`: the padding is added to the elements it mirrored, and cut off."""
    shape = op.inputs[0].shape
    paddings = op.constant(1)
    if paddings is None or shape.dims is None:
        return [Shape() if shape.rank is None else Shape([None] * shape.rank)]
    amounts = checked_paddings(paddings, len(shape.dims))
    sizes = unpadded_sizes(shape.dims, amounts)
    check_mirror(amounts, sizes, op.attr("mode"))
    return [Shape(sizes)]


def _padded(op: InferenceContext) -> Shape:
    shape = op.inputs[0].shape
    length = op.inputs[1].shape
    if length.rank not in (None, 2) or not length.is_compatible_with(Shape([shape.rank, 2])):
        raise _wrong_paddings(f"{shape.rank if shape.rank is not None else 'n'}", str(length))
    paddings = op.constant(1)
    rank = shape.rank if shape.rank is not None else length[0]
    if rank is None:
        return Shape()
    if paddings is None:
        return Shape([None] * rank)
    amounts = checked_paddings(paddings, rank)
    return Shape(
        None if size is None else size + before + after
        for size, (before, after) in zip(shape.with_rank(rank), amounts, strict=True)
    )


def checked_paddings(paddings: Array, rank: int) -> list[tuple[int, int]]:
    """The numbers of elements before and after each axis.

    Raises:
      ShapeError: there is not one pair for each axis.
      InvalidArgumentError: one is negative.
    """
    given = np.asarray(paddings)
    if given.shape != (rank, 2):
        raise _wrong_paddings(str(rank), str(list(given.shape)))
    if given.size and given.min() < 0:
        raise InvalidArgumentError(
            "paddings are negative",
            expected="paddings >= 0",
            got=str(given.tolist()),
            hint="slice to cut elements off: x[1:-1]",
        )
    return [(int(before), int(after)) for before, after in given]


def _wrong_paddings(rank: str, got: str) -> ShapeError:
    return ShapeError(
        "paddings must have one pair for each axis",
        expected=f"shape [{rank}, 2]",
        got=got,
        hint="write [before, after] for each axis, [0, 0] for one to leave as it is",
    )


def check_mirror(paddings: list[tuple[int, int]], sizes: Sequence[int | None], mode: str) -> None:
    """Raise InvalidArgumentError where more elements are to be mirrored than there are."""
    for axis, (size, amounts) in enumerate(zip(sizes, paddings, strict=True)):
        limit = None if size is None else size - 1 if mode == "REFLECT" else size
        if limit is not None and max(amounts) > max(limit, 0):
            raise InvalidArgumentError(
                f"axis {axis} is too short to be mirrored",
                expected=f"paddings <= {max(limit, 0)} ({mode} of size {size})",
                got=str(list(amounts)),
                hint="pad in several smaller steps, or with mode='constant'",
            )


def unpadded_sizes(dims: Sequence[int | None], paddings: list[tuple[int, int]]) -> list[int | None]:
    """The sizes without the padding.

    Raises:
      ShapeError: there is more padding than tensor.
    """
    sizes = [
        None if size is None else size - before - after for size, (before, after) in zip(dims, paddings, strict=True)
    ]
    if any(size is not None and size < 0 for size in sizes):
        raise ShapeError(
            "the padding exceeds the tensor",
            expected=f"padding within {list(dims)}",
            got=str(paddings),
            hint="pass the padded tensor's gradient, with the paddings that MirrorPad had",
        )
    return sizes


def pad(
    x: TensorLike,
    paddings: TensorLike,
    mode: str = "constant",
    *,
    value: TensorLike = 0,
    name: str | None = None,
) -> Tensor:
    """`x` with elements put around it.

    Args:
      x: any dtype, rank n.
      paddings: int32 or int64 `[n, 2]`, how many elements before and after each axis.
      mode: "constant", "reflect" (mirrored at the edge) or "symmetric" (mirrored, the edge repeated).
      value: the scalar that "constant" puts.
      name: the operation's name.
    Raises:
      InvalidArgumentError: the mode is not known, or there are too few elements to mirror.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.pad([1, 2, 3], [[2, 1]], "reflect")
      >>> print(hr.Session(graph).run(x))
      [3 2 1 2 3 2]
    """
    tensor = convert_to_tensor(x)
    kind = mode.upper()
    if kind not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise InvalidArgumentError(
            "the mode of pad is not known",
            expected="constant, reflect or symmetric",
            got=mode,
            hint="'symmetric' mirrors the edge too, 'reflect' all but the edge, 'constant' puts value",
        )
    result: Tensor
    if kind != "CONSTANT":
        result = apply_op("MirrorPad", tensor, paddings, mode=kind, name=name)
    elif not hasattr(value, "dtype") and value == 0:
        result = apply_op("Pad", tensor, paddings, name=name)
    else:
        result = apply_op("PadV2", tensor, paddings, value, name=name)
    return result
