"""The part of oneDNN's C API that we use, by ctypes: no compiler and no headers are needed.

Numbers are those of `dnnl_types.h` of oneDNN 3. What the library makes is destroyed with the last reference to its
handle: models come and go in a server, and each kept description of a primitive is some 15 kB.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import llvmlite.binding as llvm
import numpy as np

from headrace.errors import InternalError, UnavailableError
from headrace.plan import aligned_array
from headrace.types import Array, DType
from headrace_cpu.llvm.host import only_avx2
from headrace_cpu.llvm.signals import held_signals
from headrace_cpu.onednn import own_products
from headrace_cpu.onednn.own_products import OwnProducts

__all__ = ["Argument", "Descriptor", "OneDnn", "Primitive", "dims", "onednn"]

DTYPES = {
    "float16": 1, "bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6, "qint32": 4, "qint8": 5, "quint8": 6,
}  # fmt: skip
SRC, DST, WEIGHTS, BIAS, WORKSPACE, SCRATCHPAD = 1, 17, 33, 41, 64, 80
MEAN, VARIANCE, SCALE, SHIFT, MULTIPLE_SRC = 49, 50, 51, 52, 1024
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, DIFF_BIAS, DIFF_SCALE, DIFF_SHIFT = 129, 145, 161, 169, 255, 256
QUERY_SRC, QUERY_DIFF_SRC, QUERY_WEIGHTS, QUERY_DIFF_WEIGHTS, QUERY_DST, QUERY_DIFF_DST = range(129, 135)
QUERY_WORKSPACE, QUERY_SCRATCHPAD = 135, 136
SCRATCHPAD_OF_USER = 1
FORWARD_TRAINING, FORWARD_INFERENCE, BACKWARD = 64, 96, 128
DIRECT = 1
ISA_AVX2 = 7
IMPLEMENTATION = 8
BINARY_ADD = 0x1FFF0
ZERO_POINTS = 1 << 13
POST_OPERATION, SECOND = 1 << 15, 2
"""The argument that the first operation after a primitive reads beside its result is their bits together."""
MAX_DIMS = 12

Pointer = ctypes.c_void_p


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Descriptor:
    """A memory descriptor: shape, dtype and layout, and how many bytes of memory lie before the first element."""

    handle: int
    size: int
    offset: int = 0


Argument = tuple[int, int, Descriptor]
"""(argument number, position among the pointers of the call, layout)."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive and what it is executed with."""

    handle: int
    arguments: tuple[Argument, ...]


class _Owned(int):
    """A handle that is destroyed with the last reference to this object."""

    _destroy: Callable[[], int]

    def __new__(cls, handle: Pointer, destroy: Callable[[Pointer], int]) -> Self:
        """Take a handle, and the library's function for its end."""
        made = super().__new__(cls, handle.value or 0)
        made._destroy = functools.partial(destroy, Pointer(handle.value))  # at the end of a process names are gone
        return made

    def __del__(self) -> None:
        self._destroy()


class _ExecutionArgument(ctypes.Structure):
    _fields_ = (("argument", ctypes.c_int), ("memory", ctypes.c_void_p))


class OneDnn:
    """The library of this process, with its one engine. Thread-safe."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.dnnl_primitive_desc_query_md.restype = Pointer
        library.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
        for name in ("dnnl_memory_set_data_handle", "dnnl_primitive_execute"):
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), Pointer).value)
        engine = Pointer()
        self._check("dnnl_engine_create", ctypes.byref(engine), 1, ctypes.c_size_t(0))
        self.engine = engine
        self._lock = threading.Lock()
        self._plain: weakref.WeakValueDictionary[tuple[Any, ...], Descriptor] = weakref.WeakValueDictionary()
        self._usual = self.attributes(())
        self._own_products = OwnProducts(library)

    def use_threads(self, threads: int) -> None:
        """Set how many threads primitives are made for, and run with, when this thread makes or runs them."""
        setter = getattr(self.library, "omp_set_num_threads", None)
        if setter is not None:
            setter(threads)

    def _check(self, function: str, *arguments: Any) -> None:
        status = getattr(self.library, function)(*arguments)
        if status:
            raise InternalError(
                f"oneDNN refuses {function}",
                expected="status 0",
                got=f"status {status}",
                hint="please report this; hr.config(backend='numpy') does without oneDNN",
            )

    def strided(self, shape: Sequence[int], dtype: DType, strides: Sequence[int], offset: int = 0) -> Descriptor:
        """A layout by strides and the place of the first element, in elements."""
        key = (tuple(shape), dtype.name, tuple(strides))
        with self._lock:
            found = self._plain.get(key)
            if found is None:
                made = Pointer()
                sizes, steps = dims(shape), dims(strides)
                self._check(
                    "dnnl_memory_desc_create_with_strides",
                    ctypes.byref(made),
                    len(shape),
                    sizes,
                    DTYPES[dtype.name],
                    steps,
                )
                found = self._plain[key] = self._described(made)
            return Descriptor(found.handle, found.size, offset * dtype.size) if offset else found

    def any(self, shape: Sequence[int], dtype: DType) -> Descriptor:
        """A layout that the primitive may choose."""
        made = Pointer()
        self._check(
            "dnnl_memory_desc_create_with_tag", ctypes.byref(made), len(shape), dims(shape), DTYPES[dtype.name], 1
        )
        return Descriptor(_Owned(made, self.library.dnnl_memory_desc_destroy), 0)

    def _described(self, handle: ctypes.c_void_p) -> Descriptor:
        size = int(self.library.dnnl_memory_desc_get_size(handle))
        return Descriptor(_Owned(handle, self.library.dnnl_memory_desc_destroy), size)

    def describe(self, function: str, *arguments: Any) -> int | None:
        """A primitive descriptor, or None where oneDNN has no implementation.

        Args:
          function: of what kind.
          *arguments: as the library takes them; the last one are attributes, or None.
        """
        made = Pointer()
        *given, attributes = arguments
        converted = [
            Pointer(item.handle)
            if isinstance(item, Descriptor)
            else Pointer(item)
            if item is None or isinstance(item, _Owned)
            else item
            for item in (*given, attributes or self._usual)
        ]
        status = getattr(self.library, f"dnnl_{function}_primitive_desc_create")(
            ctypes.byref(made), self.engine, *converted
        )
        return None if status else self._description(made)

    def _description(self, made: Pointer) -> int:
        return _Owned(made, self.library.dnnl_primitive_desc_destroy)

    def attributes(self, steps: Sequence[Descriptor | float], *, zero_point: bool = False) -> int:
        """Attributes of a primitive that goes on with what it computes, and works in memory that it is given.

        Its own memory would be that of the thread that made it: steps of several threads would work in it at once.

        Args:
          steps: what is added to the result: an array of a layout, or so many times what its memory holds before.
          zero_point: the numbers of the source are counted from one that it reads beside them.
        """
        made, operations = Pointer(), Pointer()
        self._check("dnnl_primitive_attr_create", ctypes.byref(made))
        owned = _Owned(made, self.library.dnnl_primitive_attr_destroy)
        self._check("dnnl_primitive_attr_set_scratchpad_mode", made, SCRATCHPAD_OF_USER)
        if zero_point:
            self._check("dnnl_primitive_attr_set_zero_points_mask", made, SRC, 0)
        self._check("dnnl_post_ops_create", ctypes.byref(operations))
        try:
            for step in steps:
                self._append(operations, step)
            self._check("dnnl_primitive_attr_set_post_ops", made, operations)  # which copies them
        finally:
            self.library.dnnl_post_ops_destroy(operations)
        return owned

    def _append(self, operations: Pointer, step: Descriptor | float) -> None:
        if isinstance(step, Descriptor):
            self._check("dnnl_post_ops_append_binary", operations, BINARY_ADD, Pointer(step.handle))
        else:
            self._check("dnnl_post_ops_append_sum", operations, ctypes.c_float(step), 0, 0)

    def queried(self, description: int, what: int) -> Descriptor:
        """The layout that a primitive chose; of no bytes where it has none."""
        handle = self.library.dnnl_primitive_desc_query_md(Pointer(description), what, 0)
        if handle is None:
            return Descriptor(0, 0)
        copy = Pointer()  # the one that is found goes with the description
        self._check("dnnl_memory_desc_clone", ctypes.byref(copy), Pointer(handle))
        return self._described(copy)

    def same(self, a: Descriptor, b: Descriptor) -> bool:
        """True if two layouts are equal."""
        return bool(self.library.dnnl_memory_desc_equal(Pointer(a.handle), Pointer(b.handle)))

    def primitive(self, description: int) -> int:
        """The primitive of a descriptor."""
        made = Pointer()
        self._check("dnnl_primitive_create", ctypes.byref(made), Pointer(description))
        return _Owned(made, self.library.dnnl_primitive_destroy)

    def implementation(self, description: int) -> str:
        """The name of the code that a primitive runs; `ref` is code that nobody made fast."""
        name = ctypes.c_char_p()
        self._check("dnnl_primitive_desc_query", Pointer(description), IMPLEMENTATION, 0, ctypes.byref(name))
        return (name.value or b"").decode()

    def next_implementation(self, description: int) -> bool:
        """Let a descriptor stand for the code that the library would choose next; False where there is no other."""
        return not self.library.dnnl_primitive_desc_next_impl(Pointer(description))

    def working(self, description: int, arguments: Sequence[Argument], memory: Callable[[int], int]) -> Primitive:
        """The primitive of a descriptor with what it is executed with, and memory to work in.

        Args:
          description: the descriptor.
          arguments: what it reads and writes.
          memory: gives the pointer of so many bytes.
        """
        if self.implementation(description).startswith(own_products.IMPLEMENTATION):
            self._own_products.begin()
        room = self.queried(description, QUERY_SCRATCHPAD)
        extra = ((SCRATCHPAD, memory(room.size), room),) if room.size else ()
        return Primitive(self.primitive(description), (*arguments, *extra))

    def reorder(
        self,
        source: Descriptor,
        target: Descriptor,
        place: int,
        goal: int,
        memory: Callable[[int], int],
        zero_point: Argument | None = None,
    ) -> Primitive:
        """The primitive that copies from one layout to another, or from one dtype to another.

        Args:
          source: the layout of what is copied.
          target: the layout of the copy.
          place: the pointer of what is copied.
          goal: the pointer of the copy.
          memory: see `working`.
          zero_point: what is taken off each number of the source, or None.
        """
        made, extra = Pointer(), () if zero_point is None else (zero_point,)
        options = self.attributes((), zero_point=True) if extra else self._usual
        handles = Pointer(source.handle), self.engine, Pointer(target.handle), self.engine, Pointer(options)
        self._check("dnnl_reorder_primitive_desc_create", ctypes.byref(made), *handles)
        return self.working(self._description(made), ((SRC, place, source), (DST, goal, target), *extra), memory)

    def reordered(self, value: Array, source: Descriptor, target: Descriptor) -> Array:
        """A copy of an array in another layout, as an array of bytes.

        Args:
          value: the array.
          source: the layout that it is read in; of a matrix that may be that of the transposed one.
          target: the layout to bring it into.
        """
        result = aligned_array((target.size,), np.uint8)
        result[:] = 0
        arrays = [np.ascontiguousarray(value), result]

        def room(size: int) -> int:
            arrays.append(np.empty(size, np.uint8))
            return 2

        execute = self.execution(self.reorder(source, target, 0, 1, room), arrays)
        with held_signals():
            execute()
        return result

    def execution(self, primitive: Primitive, arrays: Sequence[Array]) -> Callable[[], None]:
        """What executes a primitive from Python; to be called while signals wait (see `signals`).

        Args:
          primitive: what to execute.
          arrays: the memory of each pointer that its arguments name.
        """
        keep: list[Any] = [arrays]
        stream, function, table, *memories = self.entries([primitive], keep)
        for memory, (_, pointer, _) in zip(memories, primitive.arguments, strict=True):
            self._check("dnnl_memory_set_data_handle", Pointer(memory), Pointer(arrays[pointer].ctypes.data))
        return functools.partial(self._execute, keep, function, stream, len(memories), table)

    def _execute(self, _: list[Any], function: int, stream: int, count: int, table: int) -> None:
        """Execute handles; what they stand for is given too, so that it is there as long as somebody may do this."""
        self._check("dnnl_primitive_execute", Pointer(function), Pointer(stream), count, Pointer(table))
        self._check("dnnl_stream_wait", Pointer(stream))

    def weighted_sum(self, scales: Sequence[float], layout: Descriptor) -> int | None:
        """Describe the sum of arrays of one layout, each times a number."""
        made = Pointer()
        count = len(scales)
        handles = (Pointer * count)(*[layout.handle] * count)
        numbers = (ctypes.c_float * count)(*scales)
        status = self.library.dnnl_sum_primitive_desc_create(
            ctypes.byref(made), self.engine, Pointer(layout.handle), count, numbers, handles, Pointer(self._usual)
        )
        return None if status else self._description(made)

    def joined(self, part: Descriptor, count: int, whole: Descriptor) -> int | None:
        """Describe the copy of so many arrays of one layout, one after the other along axis 0, into a larger one."""
        made = Pointer()
        handles = (Pointer * count)(*[part.handle] * count)
        status = self.library.dnnl_concat_primitive_desc_create(
            ctypes.byref(made), self.engine, Pointer(whole.handle), count, 0, handles, Pointer(self._usual)
        )
        return None if status else self._description(made)

    def entries(self, primitives: Sequence[Primitive], keep: list[Any]) -> list[int]:
        """What the driver's table holds for a call: a stream, and each primitive, its arguments and its memories.

        Args:
          primitives: the call.
          keep: takes what must live as long as the table.
        """
        stream = Pointer()
        self._check("dnnl_stream_create", ctypes.byref(stream), self.engine, 1)
        found: list[int] = [_Owned(stream, self.library.dnnl_stream_destroy)]
        keep.append(found[0])
        for primitive in primitives:
            memories: list[int] = []
            for _, _, layout in primitive.arguments:
                memory = Pointer()
                self._check("dnnl_memory_create", ctypes.byref(memory), Pointer(layout.handle), self.engine, None)
                memories.append(_Owned(memory, self.library.dnnl_memory_destroy))
            table = (_ExecutionArgument * len(memories))(
                *(
                    _ExecutionArgument(argument, memory)
                    for (argument, _, _), memory in zip(primitive.arguments, memories, strict=True)
                )
            )
            keep += [table, primitive.handle, *memories]
            found += [primitive.handle, ctypes.addressof(table), *memories]
        return found


def dims(values: Sequence[int]) -> Any:
    """Sizes or strides as the library takes them."""
    return (ctypes.c_int64 * MAX_DIMS)(*values)


_found: OneDnn | None = None
_looked = False
_looking = threading.Lock()


def onednn() -> OneDnn | None:
    """The library, or None if `onednn-cpu-gomp` is not installed."""
    global _found, _looked
    with _looking:
        if not _looked:
            path = _library_path()
            if path is not None and os.environ.get("HEADRACE_ONEDNN") != "off":
                try:
                    _found = OneDnn(_limited(ctypes.CDLL(path)))
                except OSError:
                    _found = None
            _looked = True  # not where the environment asks for what is refused: each plan is told
        return _found


def _limited(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, bound to the instructions that the environment asks for; it refuses once it has made something."""
    if only_avx2() and library.dnnl_set_max_cpu_isa(ISA_AVX2):
        raise UnavailableError(
            "oneDNN is in use in this process with all instructions of the processor",
            expected="a process in which nobody has used it",
            got="HEADRACE_INSTRUCTIONS=avx2",
            hint="set the variable before the process begins",
        )
    return library


def _library_path() -> str | None:
    try:
        files = importlib.metadata.files("onednn-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(file.locate()) for file in files if file.name == "libdnnl.so.3"), None)
