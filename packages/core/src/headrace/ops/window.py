"""Sliding windows: which inputs each output of a convolution or a pooling reads. Pure: sizes in, sizes and slices out.

On one axis, tap k of the window at output o reads input `o * stride + k * dilation - before`; what lies outside is
padding. Shape functions use it with sizes that may be unknown, kernels with those that came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import AttrError, InvalidArgumentError, ShapeError, UnimplementedError
from headrace.graph import attr
from headrace.graph.op_def import HasAttrs
from headrace.types import Shape

__all__ = ["DATA_FORMAT", "PADDING", "Plane", "Window", "WindowAxis", "given_sizes"]

DATA_FORMAT = attr.string("NHWC", allowed=["NHWC", "NCHW"])
PADDING = attr.string(allowed=["SAME", "VALID", "EXPLICIT"])

Plane = tuple["WindowAxis", "WindowAxis"]
"""The rows and the columns of an image."""

_CHANNELS_LAST = (0, 1, 2, 3)
_CHANNELS_FIRST = (0, 2, 3, 1)


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A window that slides along one axis.

    Attributes:
      size: elements of the input.
      taps: elements of the window.
      stride: inputs from one output to the next.
      dilation: inputs from one tap to the next.
      before: padding before the first input.
      outputs: elements of the output.
    """

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    outputs: int

    @property
    def reach(self) -> range:
        """The taps that read an input at some output; the others see padding only, however large the window is."""
        if not self.size or not self.outputs:
            return range(0)
        first = -(((self.outputs - 1) * self.stride - self.before) // self.dilation)
        last = (self.size - 1 + self.before) // self.dilation
        return range(max(first, 0), min(last, self.taps - 1) + 1)

    @property
    def span(self) -> int:
        """Inputs, padding included, from the first that a tap of `reach` reads to the last."""
        return (self.outputs - 1) * self.stride + (len(self.reach) - 1) * self.dilation + 1

    @property
    def inside(self) -> tuple[slice, slice]:
        """Where the span and the input overlap: as positions of the span, and as positions of the input."""
        lead = self.before - self.reach.start * self.dilation
        start, stop = max(0, -lead), min(self.size, self.span - lead)
        return slice(start + lead, stop + lead), slice(start, stop)

    def slices(self) -> Iterator[tuple[int, slice, slice]]:
        """Yield each tap that reads inputs, the outputs for which it does, and those inputs."""
        for tap in self.reach:
            offset = tap * self.dilation - self.before
            first = max(0, -(offset // self.stride))
            count = min(self.outputs, (self.size - 1 - offset) // self.stride + 1) - first
            if count > 0:
                start = first * self.stride + offset
                yield tap, slice(first, first + count), slice(start, start + (count - 1) * self.stride + 1, self.stride)


@dataclass(frozen=True, slots=True)
class Window:
    """The attributes of an operation that slides a window over images.

    Attributes:
      strides: of rows and columns.
      dilations: of rows and columns.
      padding: `SAME`, `VALID` or `EXPLICIT`.
      pads: with `EXPLICIT` the padding before and after rows and columns.
      channels_first: the data format is `NCHW`.
    """

    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: str
    pads: tuple[tuple[int, int], tuple[int, int]]
    channels_first: bool

    @classmethod
    def of_convolution(cls, op: HasAttrs) -> Window:
        """Read the attributes of a convolution.

        Raises:
          AttrError: a stride or dilation is not positive, a padding negative, or a list not of the right length.
        """
        first = op.attr("data_format") == "NCHW"
        pads = _pads(op.attr("padding"), op.attr("explicit_paddings"), first)
        return cls(
            strides=_plane("strides", op.attr("strides"), first),
            dilations=_plane("dilations", op.attr("dilations"), first),
            padding=op.attr("padding"),
            pads=pads,
            channels_first=first,
        )

    @classmethod
    def of_pooling(cls, op: HasAttrs, pads: Sequence[int] = ()) -> tuple[Window, tuple[int, int]]:
        """Read the attributes of a pooling, and the size of its window.

        Raises:
          AttrError: as `of_convolution`, or a padding is as large as the window.
          UnimplementedError: the window extends over channels or images.
        """
        first = op.attr("data_format") == "NCHW"
        size = _plane("ksize", op.attr("ksize"), first)
        around = _pads(op.attr("padding"), pads, first)
        for taps, (before, after) in zip(size, around, strict=True):
            if max(before, after) >= taps:
                raise AttrError(
                    "a padding is as large as the window",
                    expected=f"less than {taps}",
                    got=f"{before} and {after}",
                    hint="enlarge ksize, or hr.pad the images themselves",
                )
        return cls(_plane("strides", op.attr("strides"), first), (1, 1), op.attr("padding"), around, first), size

    @property
    def to_channels_last(self) -> tuple[int, ...]:
        """The permutation of axes that brings an image tensor to NHWC."""
        return _CHANNELS_FIRST if self.channels_first else _CHANNELS_LAST

    def sizes(self, images: Shape) -> tuple[int | None, ...]:
        """The sizes of an image tensor in the order batch, rows, columns, channels.

        Raises:
          ShapeError: its rank is not 4.
        """
        shape = images.with_rank(4)
        return tuple(shape[axis] for axis in self.to_channels_last)

    def shape(self, batch: int | None, rows: int | None, columns: int | None, channels: int | None) -> Shape:
        """The shape of an image tensor in the data format."""
        return Shape([batch, channels, rows, columns] if self.channels_first else [batch, rows, columns, channels])

    def outputs(self, size: int | None, taps: int | None, axis: int) -> int | None:
        """The size of the output along rows (axis 0) or columns (axis 1).

        Raises:
          ShapeError: the window is larger than the input with its padding.
        """
        stride, dilation = self.strides[axis], self.dilations[axis]
        if size is None or (taps is None and self.padding != "SAME"):
            return None
        if self.padding == "SAME":
            return -(-size // stride)
        reach = ((taps or 1) - 1) * dilation + 1
        room = size + sum(self.pads[axis]) - reach
        if room < 0:
            raise ShapeError(
                "the window does not fit into the input",
                expected=f"at least {reach} inputs, padding included, for {taps} taps with dilation {dilation}",
                got=f"{size} inputs and padding {self.pads[axis]}",
                hint="padding='SAME' pads as needed; otherwise take a smaller window or larger images",
            )
        return room // stride + 1

    def plane(self, rows: int, columns: int, taps: tuple[int, int]) -> Plane:
        """The two axes for an input whose sizes are known."""
        return self._axis(rows, taps[0], 0), self._axis(columns, taps[1], 1)

    def _axis(self, size: int, taps: int, axis: int) -> WindowAxis:
        stride, dilation = self.strides[axis], self.dilations[axis]
        outputs = self.outputs(size, taps, axis) or 0
        before = self.pads[axis][0]
        if self.padding == "SAME":
            before = max(0, (outputs - 1) * stride + (taps - 1) * dilation + 1 - size) // 2
        return WindowAxis(size, taps, stride, dilation, before, outputs)


def _plane(name: str, values: Sequence[int], channels_first: bool) -> tuple[int, int]:
    """Of four numbers, one per axis, those of rows and columns; a window does not move over images or channels."""
    if len(values) != 4 or min(values) < 1:
        raise AttrError(
            f"attr '{name}' is not right",
            expected="four positive integers, one per axis",
            got=str(list(values)),
            hint=f"in hr.nn one number stands for rows and columns, such as {name}=2",
        )
    rest = (values[0], values[1]) if channels_first else (values[0], values[3])
    if rest != (1, 1):
        raise UnimplementedError(
            f"attr '{name}' reaches over images or channels",
            expected="1 for these two axes",
            got=str(list(values)),
            hint="NCHW has rows and columns last; hr.max or hr.mean pool channels, x[::2] skips images",
        )
    return (values[2], values[3]) if channels_first else (values[1], values[2])


def _pads(padding: str, values: Sequence[int], channels_first: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """The explicit paddings: two numbers per axis, none for images and channels."""
    if padding != "EXPLICIT":
        if values:
            raise AttrError(
                "explicit_paddings are given",
                expected=f"none with padding {padding}",
                got=str(list(values)),
                hint="use padding='EXPLICIT', or leave explicit_paddings out",
            )
        return (0, 0), (0, 0)
    pairs = [(values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
    order = _CHANNELS_FIRST if channels_first else _CHANNELS_LAST
    if len(values) != 8 or min(values) < 0 or pairs[0] != (0, 0) or pairs[order[3]] != (0, 0):
        raise AttrError(
            "attr 'explicit_paddings' is not right",
            expected="eight numbers, before and after each axis, none negative, zero for images and channels",
            got=str(list(values)),
            hint="[0, 0, top, bottom, left, right, 0, 0]; the zeros all lead with NCHW: [0, 0, 0, 0, top, ...]",
        )
    return pairs[order[1]], pairs[order[2]]


def given_sizes(values: Iterable[Any], what: str) -> tuple[int, ...]:
    """A shape that came as a tensor, as plain integers.

    Raises:
      ShapeError: it is no vector.
      InvalidArgumentError: a size is negative.
    """
    given: Any = values
    if np.ndim(given) != 1:
        raise ShapeError(
            f"{what} is not a vector",
            expected="one size for each axis",
            got=f"shape {list(np.shape(given))}",
            hint="take it from hr.shape of the tensor whose gradient it is",
        )
    sizes = tuple(int(value) for value in given)
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(
            f"{what} has a negative size",
            expected="sizes >= 0",
            got=str(list(sizes)),
            hint="take the sizes from hr.shape of the tensor whose gradient it is",
        )
    return sizes
