"""TensorList: the immutable value of a list, cheap to extend.

Operations on lists never change a list; they give a new one. Copying the store each time would make a loop that writes
n elements cost n**2, so versions share it: the newest owns a dict of the elements that are set, and each older version
holds only in what it differs from the next newer one. An operation on the newest version changes the store in place, in
constant time. An old version that is used again takes the store back, undoing the differences on the way, if these are
few; else it gets a store of its own.

A dict rather than a list, because the gradient of reading one element is a list with that element alone: adding n of
those up must not cost n**2 either.

Source: H. G. Baker, "Shallow binding makes functional arrays fast", ACM SIGPLAN Notices 26(8), 1991, with the limit on
the way back added here: two old versions used in turn would otherwise cost their distance each time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from headrace.types import DType, Shape

__all__ = ["TensorList"]

_NEAR = 16
"""Undoing so many differences costs less than a copy of all but the shortest stores."""

_NOWHERE = -1
"""The index of a change that changes the length only."""


class TensorList:
    """An immutable list of values of one dtype, some of which may not be set yet.

    Values that are put in belong to the list from then on: nobody may write to them. Any number of threads may use any
    versions of a list at the same time. It is no Python sequence on purpose: NumPy would take it apart.

    Args:
      elements: the elements that are set, by index.
      length: how many elements there are, set or not.
      element_dtype: their dtype; those of dtype variant are lists themselves.
      element_shape: the shape that all of them satisfy.
      max_num_elements: how many it may have at most, or -1.
    """

    __slots__ = (
        "_change", "_lock", "_newer", "_owned", "element_dtype", "element_shape", "length", "max_num_elements",
    )  # fmt: skip

    def __init__(
        self,
        elements: Mapping[int, Any],
        length: int,
        element_dtype: DType,
        element_shape: Shape,
        max_num_elements: int = -1,
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.max_num_elements = max_num_elements
        self.length = length
        self._lock = threading.Lock()  # shared by all versions
        self._owned: dict[int, Any] | None = dict(elements)
        self._newer: TensorList | None = None
        self._change: tuple[int, Any] = (_NOWHERE, None)  # turns the next newer version into this one

    def get(self, index: int) -> Any:
        """Element `index`; None if it is not set."""
        with self._lock:
            return self._store().get(index)

    @property
    def set_count(self) -> int:
        """How many elements are set."""
        with self._lock:
            return len(self._store())

    def elements(self) -> dict[int, Any]:
        """The elements that are set, by index, in no order."""
        with self._lock:
            return self._store().copy()

    def items(self) -> list[Any]:
        """All elements in order, None for those that are not set."""
        with self._lock:
            return list(map(self._store().get, range(self.length)))

    def put(self, index: int, element: Any) -> TensorList:
        """The list with another element `index`."""
        return self._changed(index, element, self.length)[0]

    def push(self, element: Any) -> TensorList:
        """The list with one more element at its end."""
        return self._changed(self.length, element, self.length + 1)[0]

    def pop(self) -> tuple[TensorList, Any]:
        """The list without its last element, and that element, None if it is not set; the list must not be empty."""
        return self._changed(self.length - 1, None, self.length - 1)

    def resized(self, length: int) -> TensorList:
        """The list cut to `length` elements, or with elements added that are not set."""
        if length >= self.length:
            return self._changed(_NOWHERE, None, length)[0]
        return self.of_type({index: item for index, item in self.elements().items() if index < length}, length)

    def of_type(self, elements: Mapping[int, Any], length: int) -> TensorList:
        """A list of the same type with other elements."""
        return TensorList(elements, length, self.element_dtype, self.element_shape, self.max_num_elements)

    def _changed(self, index: int, element: Any, length: int) -> tuple[TensorList, Any]:
        """The version with one change, which owns the store from then on, and the element that was there before."""
        new = TensorList.__new__(TensorList)
        new.element_dtype = self.element_dtype
        new.element_shape = self.element_shape
        new.max_num_elements = self.max_num_elements
        new.length = length
        new._lock = self._lock
        new._newer = None
        with self._lock:
            new._owned = store = self._store()
            undo = _apply((index, element), store)
            self._owned, self._newer, self._change = None, new, undo
        return new, undo[1]

    def _store(self) -> dict[int, Any]:
        """The elements of this version, which owns them afterwards. The lock is held."""
        if self._owned is not None:
            return self._owned
        path: list[TensorList] = []
        version = self
        while version._newer is not None:
            path.append(version)
            version = version._newer
        store = version._owned
        assert store is not None, "the newest version owns the store"
        if len(path) > _NEAR:
            store = store.copy()
            for older in reversed(path):
                _apply(older._change, store)
        else:
            for older in reversed(path):
                version._change = _apply(older._change, store)
                version._owned, version._newer = None, older
                version = older
        self._owned, self._newer = store, None
        return store

    def __repr__(self) -> str:
        return f"<list of {self.length} {self.element_dtype}{self.element_shape}>"


def _apply(change: tuple[int, Any], store: dict[int, Any]) -> tuple[int, Any]:
    """Change one element of a store; gives the change that undoes it."""
    index, element = change
    if element is None:
        return index, store.pop(index, None)
    replaced = store.get(index)
    store[index] = element
    return index, replaced
