"""Kernels of the readers family."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from headrace.errors import DataLossError, InvalidArgumentError
from headrace.interfaces import OpContext, StepControl
from headrace.kernels.files import unreadable
from headrace.kernels.queues import Queue
from headrace.kernels.record_files import Record, fixed_length_records, framed_records, text_lines
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import scalar_of
from headrace.types import Array, string

__all__: list[str] = []

Open = Callable[[Path], Iterator[Record]]


class _Reader:
    """A reader behind a handle. Mutable and thread-safe: steps that read take turns, and wait for theirs as steps do.

    Args:
      name: its name.
      open_file: gives the records of a file.
      named: keys are the records' own, not preceded by the name of the file.
    """

    def __init__(self, name: str, open_file: Open, *, named: bool = False) -> None:
        self.name = name
        self._open = open_file
        self._named = named
        self._condition = threading.Condition()
        self._busy = False
        self._records: Iterator[Record] | None = None
        self._file = b""
        self.produced = 0
        self.completed = 0

    @contextmanager
    def _turn(self, step: StepControl) -> Iterator[None]:
        with self._condition:
            step.wait(
                self._condition, lambda: not self._busy, lambda: f"reader '{self.name}' is in use by another step"
            )
            self._busy = True
        try:
            yield
        finally:
            with self._condition:
                self._busy = False
                self._condition.notify_all()

    def read(self, queue: Queue, step: StepControl, count: int) -> list[Record]:
        """At least one record and at most `count` of one file; files without records are passed over."""
        with self._turn(step):
            while True:
                if self._records is None:
                    (name,) = queue.take(1, step)[0]
                    self._file = np.asarray(name).item()
                    self._records = self._open(Path(os.fsdecode(self._file)))
                found = self._next(self._records, count)
                if len(found) < count:
                    self._records = None
                    self.completed += 1
                self.produced += len(found)
                if found:
                    return found

    def _next(self, records: Iterator[Record], count: int) -> list[Record]:
        found: list[Record] = []
        try:
            for key, value in records:
                found.append((key if self._named else self._file + b":" + key, value))
                if len(found) == count:
                    break
        except DataLossError:
            self._records = None
            raise
        except OSError as error:
            self._records = None
            raise unreadable(Path(os.fsdecode(self._file)), error) from error
        return found

    def reset(self, step: StepControl) -> None:
        """Leave the file and start anew."""
        with self._turn(step):
            self._records, self.produced, self.completed = None, 0, 0


def _text(op: OpContext) -> _Reader:
    skipped = op.attr("skip_header_lines")
    return _Reader(_name(op), lambda path: text_lines(path, skipped))


def _framed(op: OpContext) -> _Reader:
    compression = op.attr("compression_type")
    return _Reader(_name(op), lambda path: framed_records(path, compression))


def _fixed(op: OpContext) -> _Reader:
    length = op.attr("record_bytes")
    layout = {"header": op.attr("header_bytes"), "footer": op.attr("footer_bytes")}
    hop, compression = op.attr("hop_bytes") or length, op.attr("encoding")
    return _Reader(
        _name(op), lambda path: fixed_length_records(path, length, **layout, hop=hop, compression=compression)
    )


def _whole(op: OpContext) -> _Reader:
    return _Reader(_name(op), lambda path: iter([(os.fsencode(path), path.read_bytes())]), named=True)


def _identity(op: OpContext) -> _Reader:
    return _Reader(_name(op), lambda path: iter([(os.fsencode(path), os.fsencode(path))]), named=True)


def _name(op: OpContext) -> str:
    return str(op.attr("shared_name")) or op.name


def _register(op_type: str, make: Callable[[OpContext], _Reader]) -> None:
    @register_kernel(op_type, binds_once=True)
    def kernel(op: OpContext) -> _Reader:
        key = (_Reader, op.attr("container"), _name(op))
        reader: _Reader = op.resources.lookup_or_create(key, lambda: make(op))
        return reader


_register("TextLineReaderV2", _text)
_register("TFRecordReaderV2", _framed)
_register("FixedLengthRecordReaderV2", _fixed)
_register("WholeFileReaderV2", _whole)
_register("IdentityReaderV2", _identity)


def _check_queue(queue: object) -> None:
    if not isinstance(queue, Queue) or tuple(queue.element.dtypes) != (string,):
        raise InvalidArgumentError(
            "the queue does not hold names of files",
            expected="a queue of one string for each element",
            got=getattr(queue, "properties", type(queue).__name__),
            hint="hr.FIFOQueue(10, hr.string, shapes=[[]])",
        )


@register_kernel("ReaderReadV2")
def _read(op: OpContext, reader: _Reader, queue: Queue) -> tuple[Array, Array]:
    _check_queue(queue)
    ((key, value),) = reader.read(queue, op.step, 1)
    results = np.empty(2, object)
    results[:] = [key, value]
    return np.asarray(results[0:1].reshape(())), np.asarray(results[1:].reshape(()))


@register_kernel("ReaderReadUpToV2")
def _read_up_to(op: OpContext, reader: _Reader, queue: Queue, num_records: Array) -> tuple[Array, Array]:
    _check_queue(queue)
    count = scalar_of(num_records, "num_records")
    if count < 1:
        raise InvalidArgumentError(
            "num_records is too small",
            expected="at least 1",
            got=str(count),
            hint="a step that reads waits for one record at least",
        )
    records = reader.read(queue, op.step, count)
    keys, values = np.empty(len(records), object), np.empty(len(records), object)
    keys[:], values[:] = [key for key, _ in records], [value for _, value in records]
    return keys, values


@register_kernel("ReaderResetV2")
def _reset(op: OpContext, reader: _Reader) -> None:
    reader.reset(op.step)


@register_kernel("ReaderNumRecordsProducedV2")
def _records_produced(op: OpContext, reader: _Reader) -> Array:
    return np.array(reader.produced, np.int64)


@register_kernel("ReaderNumWorkUnitsCompletedV2")
def _units_completed(op: OpContext, reader: _Reader) -> Array:
    return np.array(reader.completed, np.int64)
