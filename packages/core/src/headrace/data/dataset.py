"""Dataset: elements by number, so that any position of any epoch can be reached without going through those before it.

    from_arrays(images, labels)      element i: row i of each array
      .shuffle(5000, seed=1)         element i: another one, by a permutation that seed and epoch decide
      .batch(64)                     element i: 64 of them stacked
      .map(f)                        element i: f of it

A position is therefore two numbers, epoch and index: that is all a resumed run needs to go on with the very next
element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.data.stages import Arrays, Batch, Map, Repeat, Shuffle, Stage, Take
from headrace.errors import InvalidArgumentError

__all__ = ["Dataset", "DatasetIterator", "from_arrays"]


class Dataset:
    """A sequence of elements, arrays or tuples of arrays, that is gone through epoch by epoch.

    Each `for` over it is one epoch, and the next `for` the next one; with a seed, epoch n has the same order in every
    program. The number of the epoch is mutable state; each method returns a new dataset, which starts at epoch 0.

    Example:
      >>> import headrace as hr
      >>> dataset = hr.data.from_arrays([0, 1, 2, 3, 4]).shuffle(5, seed=1).batch(2)
      >>> for epoch in range(2):
      ...     print([batch.tolist() for batch in dataset])
      [[0, 1], [2, 4], [3]]
      [[3, 1], [4, 2], [0]]
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._epochs = 0

    def shuffle(self, buffer_size: int, *, seed: int | None = None) -> Dataset:
        """Change the order of the elements, anew in each epoch.

        Args:
          buffer_size: how many elements the next one is chosen from; the number of elements or more gives every order
            the same chance.
          seed: decides the order together with the epoch; None takes a fresh one.
        Raises:
          InvalidArgumentError: the buffer holds less than one element, or the dataset is endless.
        """
        _check_at_least(1, "buffer_size", buffer_size)
        if self._stage.length is None:
            raise InvalidArgumentError(
                "an endless dataset cannot be shuffled",
                expected="shuffle before repeat()",
                got="repeat() before shuffle",
                hint="dataset.shuffle(n).repeat()",
            )
        return Dataset(Shuffle(self._stage, buffer_size, seed))

    def batch(self, batch_size: int, *, drop_remainder: bool = False) -> Dataset:
        """Stack elements.

        Args:
          batch_size: how many.
          drop_remainder: leave out a last batch that has fewer.
        Raises:
          InvalidArgumentError: less than one.
        """
        _check_at_least(1, "batch_size", batch_size)
        return Dataset(Batch(self._stage, batch_size, drop_remainder))

    def map(self, function: Callable[..., Any]) -> Dataset:
        """Change each element.

        Args:
          function: takes an element (a tuple as several arguments) and returns one. To be resumed exactly it must give
            the same for the same element.
        """
        return Dataset(Map(self._stage, function))

    def take(self, count: int) -> Dataset:
        """Keep the first elements of each epoch.

        Args:
          count: how many; all of them where there are fewer.
        Raises:
          InvalidArgumentError: less than none.
        """
        _check_at_least(0, "count", count)
        return Dataset(Take(self._stage, count))

    def repeat(self, count: int | None = None) -> Dataset:
        """Make several epochs one.

        Args:
          count: how many; None for all of them, which have no end.
        Raises:
          InvalidArgumentError: less than one.
        """
        if count is not None:
            _check_at_least(1, "count", count)
        return Dataset(Repeat(self._stage, count))

    def __len__(self) -> int:
        """The number of elements of an epoch.

        Raises:
          TypeError: it is endless.
        """
        if self._stage.length is None:
            raise TypeError("an endless dataset has no length")
        return self._stage.length

    @property
    def length(self) -> int | None:
        """The number of elements of an epoch; None if it is endless."""
        return self._stage.length

    def __iter__(self) -> DatasetIterator:
        self._epochs += 1
        return self.iterator(epoch=self._epochs - 1)

    def iterator(self, *, epoch: int = 0) -> DatasetIterator:
        """Go through one epoch.

        Args:
          epoch: which one, from 0.
        """
        return DatasetIterator(self._stage, epoch)

    def __repr__(self) -> str:
        length = "endless" if self._stage.length is None else f"{self._stage.length} elements"
        return f"<hr.data.Dataset of {length}>"


class DatasetIterator(Iterator[Any]):
    """Goes through one epoch of a dataset. Its position is mutable.

    Example:
      >>> import headrace as hr
      >>> first = hr.data.from_arrays([10, 20, 30]).iterator()
      >>> print(next(first), first.state())
      10 {'epoch': 0, 'position': 1}
      >>> second = hr.data.from_arrays([10, 20, 30]).iterator()
      >>> second.restore(first.state())
      >>> print(next(second))
      20
    """

    def __init__(self, stage: Stage, epoch: int) -> None:
        self._stage = stage
        self._epoch = epoch
        self._position = 0

    def __next__(self) -> Any:
        length = self._stage.length
        if length is not None and self._position >= length:
            raise StopIteration
        element = self._stage.element(self._epoch, self._position)
        self._position += 1
        return element

    def state(self) -> dict[str, int]:
        """The position: JSON values."""
        return {"epoch": self._epoch, "position": self._position}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on at a position that `state` gave, of this dataset or one made in the same way.

        Raises:
          InvalidArgumentError: it is not a position in this dataset.
        """
        epoch, position = state.get("epoch"), state.get("position")
        length = self._stage.length
        if not isinstance(epoch, int) or not isinstance(position, int) or min(epoch, position) < 0:
            raise InvalidArgumentError(
                "the state is not a position in a dataset",
                expected="epoch and position, two integers not below 0",
                got=repr(state),
                hint="take it from the state() of an iterator",
            )
        if length is not None and position > length:
            raise InvalidArgumentError(
                "the state is a position in another dataset",
                expected=f"a position up to {length}",
                got=str(position),
                hint="make the dataset as it was made for the first run",
            )
        self._epoch, self._position = epoch, position


def from_arrays(*arrays: Any) -> Dataset:
    """A dataset of the rows of arrays.

    Args:
      *arrays: array-likes `[n, ...]` of the same n. They are not copied.
    Returns:
      A dataset of n elements: rows, or tuples of rows where there are several arrays.
    Raises:
      InvalidArgumentError: there is no array, or their numbers of rows differ.
    """
    values = [np.asarray(array) for array in arrays]
    if not values or any(value.ndim == 0 for value in values) or len({len(value) for value in values}) > 1:
        raise InvalidArgumentError(
            "the arrays do not make a dataset",
            expected="at least one array, all with the same number of rows",
            got=_shapes(values),
            hint="from_arrays(images, labels)",
        )
    return Dataset(Arrays(tuple(values)))


def _shapes(values: Sequence[Any]) -> str:
    return "shapes " + ", ".join(str(list(value.shape)) for value in values) if values else "none"


def _check_at_least(least: int, name: str, value: int) -> None:
    if value < least:
        raise InvalidArgumentError(
            f"{name} cannot be used",
            expected=f"at least {least}",
            got=str(value),
            hint="leave the call out to do nothing",
        )
