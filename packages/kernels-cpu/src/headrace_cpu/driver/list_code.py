"""The code of operations on lists that live in native memory.

A record is the address of a store and a number of elements. A store is two entries of a table: where its memory is, and
how many bytes that has. The memory belongs to Python: an operation that needs more asks for it in the table and answers
GROW, and is called again like a loop that paused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace_cpu.llvm.text import Text
from headrace_cpu.scheduling.lists import ListOp

__all__ = ["ListWriter"]


class ListWriter:
    """Writes one operation on lists. Used once.

    Args:
      t: the function.
      op: the operation.
      pointers: of the inputs that it looks at, then of its outputs.
      make_store: writes the address of a store of its own.
      ask_room: writes what happens where the condition in a register is false: to ask for memory for the store and the
        number of bytes in two others.
      fail_if: writes what happens where the condition in a register is true.
    """

    def __init__(
        self,
        t: Text,
        op: ListOp,
        pointers: Sequence[str],
        make_store: Callable[[], str],
        ask_room: Callable[[str, str, str], None],
        fail_if: Callable[[str], None],
    ) -> None:
        self._t, self._op, self._pointers = t, op, pointers
        self._make_store, self._ask_room, self._fail_if = make_store, ask_room, fail_if

    def write(self) -> None:
        """Write it."""
        _WRITERS[self._op.type](self)

    # parts

    def _record(self, pointer: str) -> tuple[str, str]:
        """The store and the length of a list."""
        t = self._t
        return t.put(f"load i64, ptr {pointer}"), t.put(f"load i64, ptr {self._second(pointer)}")

    def _second(self, pointer: str) -> str:
        return self._t.put(f"getelementptr i64, ptr {pointer}, i64 1")

    def _set_record(self, pointer: str, store: str, length: str) -> None:
        self._t.line(f"store i64 {store}, ptr {pointer}")
        self._t.line(f"store i64 {length}, ptr {self._second(pointer)}")

    def _data(self, store: str) -> str:
        return self._t.put(f"load ptr, ptr {self._t.put(f'inttoptr i64 {store} to ptr')}")

    def _place(self, store: str, index: str) -> str:
        """Where an element is."""
        t = self._t
        return t.put(f"getelementptr i8, ptr {self._data(store)}, i64 {t.put(f'mul i64 {index}, {self._op.size}')}")

    def _room(self, store: str, needed: str) -> None:
        """See that a store has that many bytes."""
        t = self._t
        bytes_place = self._second(t.put(f"inttoptr i64 {store} to ptr"))
        fits = t.put(f"icmp ule i64 {needed}, {t.put(f'load i64, ptr {bytes_place}')}")
        self._ask_room(fits, store, needed)

    def _checked_index(self, pointer: str, length: str) -> str:
        """An index, which must be below the length and not negative."""
        t = self._t
        index = t.put(f"sext i32 {t.put(f'load i32, ptr {pointer}')} to i64")
        self._fail_if(t.put(f"icmp uge i64 {index}, {length}"))
        return index

    # operations

    def _empty(self) -> None:
        self._set_record(self._pointers[0], self._make_store(), "0")

    def _reserve(self) -> None:
        store, total = self._make_store(), self._op.count * self._op.size
        self._room(store, str(total))
        self._t.clear_bytes(self._data(store), total)
        self._set_record(self._pointers[0], store, str(self._op.count))

    def _from_tensor(self) -> None:
        store, total = self._make_store(), self._op.count * self._op.size
        self._room(store, str(total))
        self._t.copy_bytes(self._data(store), self._pointers[0], total)
        self._set_record(self._pointers[1], store, str(self._op.count))

    def _zeros_like(self) -> None:
        _, length = self._record(self._pointers[0])
        store, total = self._make_store(), self._t.put(f"mul i64 {length}, {self._op.size}")
        self._room(store, total)
        self._t.clear_bytes(self._data(store), total)
        self._set_record(self._pointers[1], store, length)

    def _push(self) -> None:
        record, item = self._pointers[:2]
        store, length = self._record(record)
        longer = self._t.put(f"add i64 {length}, 1")
        self._room(store, self._t.put(f"mul i64 {longer}, {self._op.size}"))
        self._t.copy_bytes(self._place(store, length), item, self._op.size)
        self._t.line(f"store i64 {longer}, ptr {self._second(record)}")

    def _pop(self) -> None:
        record, shorter_record, item = self._pointers
        store, length = self._record(record)
        self._fail_if(self._t.put(f"icmp eq i64 {length}, 0"))
        shorter = self._t.put(f"sub i64 {length}, 1")
        self._t.copy_bytes(item, self._place(store, shorter), self._op.size)
        self._set_record(shorter_record, store, shorter)

    def _get(self) -> None:
        record, index, item = self._pointers
        store, length = self._record(record)
        self._t.copy_bytes(item, self._place(store, self._checked_index(index, length)), self._op.size)

    def _set(self) -> None:
        record, index, item = self._pointers[:3]
        store, length = self._record(record)
        self._t.copy_bytes(self._place(store, self._checked_index(index, length)), item, self._op.size)

    def _stack(self) -> None:
        store, length = self._record(self._pointers[0])
        self._fail_if(self._t.put(f"icmp ne i64 {length}, {self._op.count}"))
        self._t.copy_bytes(self._pointers[1], self._data(store), self._op.count * self._op.size)

    def _length(self) -> None:
        _, length = self._record(self._pointers[0])
        self._t.line(f"store i32 {self._t.put(f'trunc i64 {length} to i32')}, ptr {self._pointers[1]}")


_WRITERS: dict[str, Callable[[ListWriter], None]] = {
    "EmptyTensorList": ListWriter._empty,
    "TensorListFromTensor": ListWriter._from_tensor,
    "TensorListGetItem": ListWriter._get,
    "TensorListLength": ListWriter._length,
    "TensorListPopBack": ListWriter._pop,
    "TensorListPushBack": ListWriter._push,
    "TensorListReserve": ListWriter._reserve,
    "TensorListSetItem": ListWriter._set,
    "TensorListStack": ListWriter._stack,
    "ZerosLike": ListWriter._zeros_like,
}
