"""Which operations oneDNN computes: matmul, convolution and pooling as calls of primitives, with layouts decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import Operation
from headrace.types import float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.capi import Descriptor, OneDnn, Primitive, onednn

__all__ = ["LibraryCall", "library_call"]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """What oneDNN does for one operation.

    Attributes:
      primitives: in order. The pointers that their arguments name are those of the operation's inputs, then outputs,
        then scratch memory.
      scratch: bytes of each scratch memory.
    """

    primitives: tuple[Primitive, ...]
    scratch: tuple[int, ...] = ()


def library_call(op: Operation) -> LibraryCall | None:
    """What oneDNN does for an operation, or None where it does not compute it."""
    maker = _MAKERS.get(op.type)
    library = onednn()
    if maker is None or library is None:
        return None
    shapes = [tensor.shape.as_tuple() for tensor in (*op.inputs, *op.outputs)]
    if any(0 in shape for shape in shapes):
        return None
    return maker(library, op)


def row_major(shape: Sequence[int]) -> list[int]:
    """Strides of an array without gaps."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _matrix(library: OneDnn, shape: Sequence[int], transposed: bool, rank: int) -> Descriptor:
    """A stack of matrices, transposed by its strides; leading axes of size 1 are added up to `rank`."""
    strides = row_major(shape)
    sizes = list(shape)
    if transposed:
        sizes[-2:] = sizes[:-3:-1]
        strides[-2:] = strides[:-3:-1]
    lead = rank - len(sizes)
    return library.strided([1] * lead + sizes, float32, [math.prod(shape)] * lead + strides)


def _product(
    library: OneDnn, op: Operation, transpose_a: bool, transpose_b: bool, first: int, target: int, *, adding: bool
) -> Primitive | None:
    """A matrix product whose inputs are the pointers from `first` on; it replaces the target or is added to it."""
    a, b = (tensor.shape.as_tuple() for tensor in op.inputs)
    out = op.outputs[0].shape.as_tuple()
    if any(tensor.dtype is not float32 for tensor in (*op.inputs, *op.outputs)) or len(out) > 6:
        return None
    layouts = [
        _matrix(library, a, transpose_a, len(out)),
        _matrix(library, b, transpose_b, len(out)),
        _matrix(library, out, False, len(out)),
    ]
    attributes = library.adding() if adding else None
    description = library.describe("matmul", layouts[0], layouts[1], None, layouts[2], attributes)
    if description is None:
        return None
    arguments = ((capi.SRC, first, layouts[0]), (capi.WEIGHTS, first + 1, layouts[1]), (capi.DST, target, layouts[2]))
    return Primitive(library.primitive(description), arguments)


def _matmul(library: OneDnn, op: Operation, transpose_a: bool, transpose_b: bool) -> LibraryCall | None:
    made = _product(library, op, transpose_a, transpose_b, 0, 2, adding=False)
    return None if made is None else LibraryCall((made,))


def _sum_of_products(library: OneDnn, op: Operation) -> LibraryCall | None:
    """AddN of matrix products, each added to the sum as it is made; the pointers are those of the factors."""
    products = [tensor.op for tensor in op.inputs]
    if any(product.type != "MatMul" for product in products):
        return None
    primitives = []
    for number, product in enumerate(products):
        transposed = product.attrs["transpose_a"], product.attrs["transpose_b"]
        made = _product(library, product, *transposed, 2 * number, 2 * len(products), adding=number > 0)
        if made is None:
            return None
        primitives.append(made)
    return LibraryCall(tuple(primitives))


def _plain_matmul(library: OneDnn, op: Operation) -> LibraryCall | None:
    return _matmul(library, op, op.attrs["transpose_a"], op.attrs["transpose_b"])


def _batch_matmul(library: OneDnn, op: Operation) -> LibraryCall | None:
    return _matmul(library, op, op.attrs["adj_x"], op.attrs["adj_y"])


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A convolution of NHWC images as oneDNN names its axes: images `[n, c, h, w]`, filters `[out, in, h, w]`.

    Attributes:
      images, filters, output: shapes in those axes.
      strides, dilations: per spatial axis; dilation 0 is none.
      before, after: padding per spatial axis.
    """

    images: tuple[int, ...]
    filters: tuple[int, ...]
    output: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(
        cls, op: Operation, images: Sequence[int], filters: Sequence[int], output: Sequence[int]
    ) -> _Convolution | None:
        """From NHWC shapes and attributes; None where the form is another one."""
        attrs = op.attrs
        if attrs["data_format"] != "NHWC" or images[3] != filters[2]:
            return None
        strides, dilations = attrs["strides"], attrs["dilations"]
        if tuple(strides)[::3] != (1, 1) or tuple(dilations)[::3] != (1, 1):
            return None
        before, after = [], []
        for axis in (1, 2):
            window = (filters[axis - 1] - 1) * dilations[axis] + 1
            needed = max((output[axis] - 1) * strides[axis] + window - images[axis], 0)
            if attrs["padding"] == "EXPLICIT":
                low, high = attrs["explicit_paddings"][2 * axis : 2 * axis + 2]
            elif attrs["padding"] == "SAME":
                low, high = needed // 2, needed - needed // 2
            else:
                low, high = 0, 0
            before.append(low)
            after.append((output[axis] - 1) * strides[axis] + window - images[axis] - low)
            del high
        return cls(
            images=(images[0], images[3], images[1], images[2]),
            filters=(filters[3], filters[2], filters[0], filters[1]),
            output=(output[0], output[3], output[1], output[2]),
            strides=tuple(strides[1:3]),
            dilations=tuple(item - 1 for item in dilations[1:3]),
            before=tuple(before),
            after=tuple(after),
        )

    def plain_images(self, library: OneDnn, shape: Sequence[int]) -> Descriptor:
        _, c, h, w = shape
        return library.strided(shape, float32, [h * w * c, 1, w * c, c])

    def plain_filters(self, library: OneDnn) -> Descriptor:
        out, given, h, w = self.filters
        return library.strided((out, given, h, w), float32, [1, out, w * given * out, given * out])

    def described(
        self, library: OneDnn, kind: str, images: Descriptor, filters: Descriptor, output: Descriptor, hint: int | None
    ) -> int | None:
        dims = [capi._dims(item) for item in (self.strides, self.dilations, self.before, self.after)]
        if kind == "convolution_forward":
            return library.describe(
                kind, capi.FORWARD_TRAINING, CONVOLUTION_DIRECT, images, filters, None, output, *dims, None
            )
        if kind == "convolution_backward_weights":
            return library.describe(
                kind, CONVOLUTION_DIRECT, images, filters, None, output, *dims, capi.Pointer(hint), None
            )
        return library.describe(kind, CONVOLUTION_DIRECT, images, filters, output, *dims, capi.Pointer(hint), None)


CONVOLUTION_DIRECT = 1


def _conv(library: OneDnn, op: Operation) -> LibraryCall | None:
    form = _form(op, op.inputs[0], op.inputs[1], op.outputs[0])
    if form is None:
        return None
    images, output = form.plain_images(library, form.images), form.plain_images(library, form.output)
    weights = library.any(form.filters, float32)
    found = form.described(library, "convolution_forward", images, weights, output, None)
    if found is None:
        return None
    chosen = library.queried(found, capi.QUERY_WEIGHTS)
    primitives, place, scratch = _reordered(library, form.plain_filters(library), chosen, 1, 3)
    arguments = ((capi.SRC, 0, images), (capi.WEIGHTS, place, chosen), (capi.DST, 2, output))
    return LibraryCall((*primitives, Primitive(library.primitive(found), arguments)), scratch)


def _reordered(
    library: OneDnn, plain: Descriptor, chosen: Descriptor, place: int, free: int
) -> tuple[list[Primitive], int, tuple[int, ...]]:
    """A reorder to the layout that a primitive chose, unless that is the plain one.

    Returns:
      The primitives, the pointer that holds the result, and the scratch memory that it needs.
    """
    if library.same(plain, chosen):
        return [], place, ()
    reorder = library.reorder(plain, chosen)
    assert reorder is not None, "oneDNN reorders between all layouts of one dtype"
    return [Primitive(reorder, ((1, place, plain), (17, free, chosen)))], free, (chosen.size,)


def _form(op: Operation, images: Any, filters: Any, output: Any) -> _Convolution | None:
    tensors = (images, filters, output)
    shapes = [item if isinstance(item, tuple) else item.shape.as_tuple() for item in tensors]
    if any(item.dtype is not float32 for item in tensors if not isinstance(item, tuple)):
        return None
    return _Convolution.of(op, *shapes)


def _conv_backprop_filter(library: OneDnn, op: Operation) -> LibraryCall | None:
    form = _form(op, op.inputs[0], op.outputs[0], op.inputs[2])
    if form is None:
        return None
    images, output = form.plain_images(library, form.images), form.plain_images(library, form.output)
    any_weights = library.any(form.filters, float32)
    hint = form.described(library, "convolution_forward", images, any_weights, output, None)
    if hint is None:
        return None
    found = form.described(library, "convolution_backward_weights", images, any_weights, output, hint)
    if found is None:
        return None
    chosen, plain = library.queried(found, capi.QUERY_DIFF_WEIGHTS), form.plain_filters(library)
    same = library.same(plain, chosen)
    place, scratch = (3, ()) if same else (4, (chosen.size,))
    arguments = ((capi.SRC, 0, images), (capi.DIFF_DST, 2, output), (capi.DIFF_WEIGHTS, place, chosen))
    primitives = [Primitive(library.primitive(found), arguments)]
    if not same:
        reorder = library.reorder(chosen, plain)
        assert reorder is not None
        primitives.append(Primitive(reorder, ((1, 4, chosen), (17, 3, plain))))
    return LibraryCall(tuple(primitives), scratch)


def _conv_backprop_input(library: OneDnn, op: Operation) -> LibraryCall | None:
    form = _form(op, op.outputs[0], op.inputs[1], op.inputs[2])
    if form is None:
        return None
    images, output = form.plain_images(library, form.images), form.plain_images(library, form.output)
    any_weights = library.any(form.filters, float32)
    hint = form.described(library, "convolution_forward", images, any_weights, output, None)
    if hint is None:
        return None
    found = form.described(library, "convolution_backward_data", images, any_weights, output, hint)
    if found is None:
        return None
    chosen = library.queried(found, capi.QUERY_WEIGHTS)
    primitives, place, scratch = _reordered(library, form.plain_filters(library), chosen, 1, 4)
    arguments = ((capi.DIFF_DST, 2, output), (capi.WEIGHTS, place, chosen), (capi.DIFF_SRC, 3, images))
    return LibraryCall((*primitives, Primitive(library.primitive(found), arguments)), scratch)


_Maker = Callable[[OneDnn, Operation], LibraryCall | None]
_MAKERS: dict[str, _Maker] = {
    "AddN": _sum_of_products,
    "MatMul": _plain_matmul,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "Conv2D": _conv,
    "Conv2DBackpropFilter": _conv_backprop_filter,
    "Conv2DBackpropInput": _conv_backprop_input,
}
