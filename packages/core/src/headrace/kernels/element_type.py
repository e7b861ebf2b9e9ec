"""ElementType: what the elements of a queue are made of, and how tensors become elements and elements tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.kernels.element_stores import Element
from headrace.types import Array, DType, Shape

__all__ = ["ElementType"]


@dataclass(frozen=True, slots=True)
class ElementType:
    """The components of a queue's elements.

    Attributes:
      dtypes: the dtype of each.
      shapes: the shape of each, or `()` if elements may have any.
      padded: shapes may have unknown sizes, to which batches are padded.
    """

    dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...] = ()
    padded: bool = False

    def __str__(self) -> str:
        shapes = self.shapes or (Shape(),) * len(self.dtypes)
        return "(" + ", ".join(f"{dtype}{shape}" for dtype, shape in zip(self.dtypes, shapes, strict=True)) + ")"

    def component(self, position: int) -> ElementType:
        """Elements of one component alone."""
        return ElementType((self.dtypes[position],), self.shapes[position : position + 1], self.padded)

    def check_dtypes(self, dtypes: Sequence[DType], where: str) -> None:
        """Raise DTypeError unless an operation states the dtypes of the components.

        Args:
          dtypes: what it states.
          where: whose elements they are, for the error.
        """
        if tuple(dtypes) != self.dtypes:
            raise DTypeError(
                f"the components of {where} have other dtypes",
                expected=f"{len(self.dtypes)}: {', '.join(map(str, self.dtypes))}",
                got=f"{len(dtypes)}: {', '.join(map(str, dtypes))}",
                hint="hr.astype the components, or take as many and of those dtypes as were put in",
            )

    def element(self, components: Sequence[Any]) -> Element:
        """One element of copies of its components.

        Args:
          components: one value for each.
        Raises:
          ShapeError: a component has another shape.
        """
        for position, (value, shape) in enumerate(zip(components, self.shapes, strict=bool(self.shapes))):
            _check_shape(position, shape, np.shape(value))
        return tuple([_owned(value, dtype) for value, dtype in zip(components, self.dtypes, strict=True)])

    def elements(self, components: Sequence[Array]) -> list[Element]:
        """The elements of a batch, each with memory of its own: one that stays must not keep the whole batch.

        Args:
          components: for each an array `[n, ...]`.
        Raises:
          ShapeError: a component has another shape, or another length than the first one.
        """
        count = np.shape(components[0])[:1]
        for position, value in enumerate(components):
            shape = self.shapes[position] if self.shapes else Shape()
            rest = shape.dims if shape.dims is not None else (None,) * max(np.ndim(value) - 1, 0)
            _check_shape(position, Shape((*(count or [None]), *rest)), np.shape(value))
        columns = [_rows(value, dtype) for value, dtype in zip(components, self.dtypes, strict=True)]
        return list(zip(*columns, strict=True))

    def check_batches(self, where: str) -> None:
        """Raise InvalidArgumentError unless elements can be joined to batches."""
        if not self.shapes or any(shape.dims is None for shape in self.shapes):
            raise InvalidArgumentError(
                f"{where} cannot give several elements at once",
                expected="a queue whose components have shapes",
                got=str(self),
                hint="make the queue with shapes=[...], or take one element at a time",
            )

    def batch(self, elements: Sequence[Element]) -> tuple[Array, ...]:
        """The components of several elements, each stacked along a new first axis and padded as far as needed.

        Args:
          elements: any number of them.
        Returns:
          For each component an array `[n, ...]`, padded with zeros or empty strings.
        """
        return tuple(
            _stacked([element[position] for element in elements], dtype, shape, padded=self.padded)
            for position, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True))
        )


def _check_shape(position: int, expected: Shape, got: tuple[int, ...]) -> None:
    if not expected.is_compatible_with(Shape(got)):
        raise ShapeError(
            f"component {position} does not fit the elements of the queue",
            expected=str(expected),
            got=str(list(got)),
            hint="hr.reshape it, or make the queue with other shapes",
        )


def _owned(value: Any, dtype: DType) -> Any:
    """A copy, since the memory of a step is used again; handles and the like are passed on as they are."""
    return value if dtype.kind in ("resource", "variant") else np.array(value, dtype.array_type)


def _rows(value: Any, dtype: DType) -> Iterator[Any]:
    if dtype.kind in ("resource", "variant"):
        return iter(value)
    kind = dtype.array_type
    if np.ndim(value) > 1:
        return (row.copy() for row in value)
    return (np.array(item, kind) for item in value)


def _stacked(values: Sequence[Any], dtype: DType, shape: Shape, *, padded: bool) -> Array:
    kind = dtype.array_type
    if padded and values:
        sizes = tuple(map(max, zip(*(value.shape for value in values), strict=True)))
    else:
        sizes = tuple(size or 0 for size in shape.dims or ())
    if values and dtype.size and all(value.shape == sizes for value in values):
        return np.array(values, kind)  # three times as fast as copying one by one
    batch = np.full((len(values), *sizes), 0 if dtype.size else b"", kind)
    for position, value in enumerate(values):
        index: tuple[int | slice, ...] = (position, *map(slice, value.shape))
        batch[index] = value[()]
    return batch
