"""Readers of record files, as graphs of TensorFlow 1 use them: they take the names of files from a queue.

A reader yields records one after the other, each with a key that says where it comes from; when a file ends it takes
the next name from the queue. `hr.data` reads files without queues.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import Shape, int64

__all__ = ["Reader", "fixed_length_reader", "record_reader", "text_line_reader", "whole_file_reader"]

_SHARED = {"container": attr.string(""), "shared_name": attr.string("")}
_COMPRESSION = attr.string("", allowed=["", "ZLIB", "GZIP"])


def _register(name: str, doc: str, attrs: dict[str, AttrSpec]) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        for key in ("header_bytes", "footer_bytes", "hop_bytes", "skip_header_lines"):
            if key in attrs and op.attr(key) < 0:
                raise InvalidArgumentError(
                    f"{key} is negative", expected=">= 0", got=str(op.attr(key)), hint="0 leaves nothing out"
                )
        return [Shape([])]

    shape.__doc__ = f"The handle of a reader: {doc}"
    register_op(
        name, outputs={"reader_handle": "resource"}, attrs={**_SHARED, **attrs}, stateful=True, reads_only=True
    )(shape)


_register("WholeFileReaderV2", "each file is one record, and its name the key.", {})
_register("IdentityReaderV2", "the names themselves are the records and the keys.", {})
_register(
    "TextLineReaderV2",
    "each line is a record, without its end; keys are `file:number` from 1.",
    {"skip_header_lines": attr.int(0)},
)
_register(
    "TFRecordReaderV2",
    "the records of TFRecord files, whose checksums are verified; keys are `file:offset`.",
    {"compression_type": _COMPRESSION},
)
_register(
    "FixedLengthRecordReaderV2",
    "runs of record_bytes between header and footer, hop_bytes from one to the next; keys are `file:number` from 0.",
    {
        "header_bytes": attr.int(0),
        "record_bytes": attr.int(minimum=1),
        "footer_bytes": attr.int(0),
        "hop_bytes": attr.int(0),
        "encoding": attr.string("", allowed=["", "ZLIB"]),
    },
)


@register_op(
    "ReaderReadV2",
    inputs={"reader_handle": "resource", "queue_handle": "resource"},
    outputs={"key": "string", "value": "string"},
    stateful=True,
    blocks=True,
)
def _read_shape(op: InferenceContext) -> list[Shape]:
    """The next record and its key; waits for the name of a file where one is needed."""
    return [Shape([]), Shape([])]


@register_op(
    "ReaderReadUpToV2",
    inputs={"reader_handle": "resource", "queue_handle": "resource", "num_records": "int64"},
    outputs={"keys": "string", "values": "string"},
    stateful=True,
    blocks=True,
)
def _read_up_to_shape(op: InferenceContext) -> list[Shape]:
    """The next records, at least one and at most num_records; those of one file, as it may have to wait for another."""
    check_scalar(op.inputs[2].shape, "num_records")
    return [Shape([None]), Shape([None])]


@register_op("ReaderResetV2", inputs={"reader_handle": "resource"}, stateful=True)
def _reset_shape(op: InferenceContext) -> list[Shape]:
    """Lets a reader start anew: it leaves its file, and its counts are 0."""
    return []


for _name, _output, _doc in (
    ("ReaderNumRecordsProducedV2", "records_produced", "How many records a reader has given."),
    ("ReaderNumWorkUnitsCompletedV2", "units_completed", "How many files a reader has read to their ends."),
):

    def _count_shape(op: InferenceContext) -> list[Shape]:
        return [Shape([])]

    _count_shape.__doc__ = _doc
    register_op(
        _name, inputs={"reader_handle": "resource"}, outputs={_output: "int64"}, stateful=True, reads_only=True
    )(_count_shape)


class Reader:
    """A reader of record files; its state lives in a session. Made by `hr.files.text_line_reader` and others.

    Args:
      op_type: the type of the operation that makes its handle.
      attrs: its attributes.
      name: the name of the reader.
    """

    def __init__(self, op_type: str, *, name: str | None = None, **attrs: Any) -> None:
        self.handle: Tensor = apply_op(op_type, name=name, **attrs)

    def read(self, queue: Any, *, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The next record.

        Args:
          queue: an `hr.Queue` of names of files, string scalars.
          name: the operation's name.
        Returns:
          The key and the record, string scalars.
        Raises:
          EndOfDataError: in the step, if the queue is closed and has no more names.
        """
        key, value = apply_op("ReaderReadV2", self.handle, _handle(queue), name=name)
        return key, value

    def read_up_to(self, queue: Any, count: TensorLike, *, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The next records: at least one, at most `count`.

        Args:
          queue: see `read`.
          count: integer scalar.
          name: the operation's name.
        Returns:
          Keys and records, string vectors of equal length.
        """
        given = convert_to_tensor(count)
        wanted = given if given.dtype is int64 else apply_op("Cast", given, DstT=int64)
        keys, values = apply_op("ReaderReadUpToV2", self.handle, _handle(queue), wanted, name=name)
        return keys, values

    def reset(self, *, name: str | None = None) -> Operation:
        """The operation that lets the reader start anew."""
        operation: Operation = apply_op("ReaderResetV2", self.handle, name=name)
        return operation

    def records_produced(self, *, name: str | None = None) -> Tensor:
        """How many records it has given, int64 scalar."""
        count: Tensor = apply_op("ReaderNumRecordsProducedV2", self.handle, name=name)
        return count

    def files_completed(self, *, name: str | None = None) -> Tensor:
        """How many files it has read to their ends, int64 scalar."""
        count: Tensor = apply_op("ReaderNumWorkUnitsCompletedV2", self.handle, name=name)
        return count


def _handle(queue: Any) -> Tensor:
    handle = getattr(queue, "handle", queue)
    return convert_to_tensor(handle)


def text_line_reader(*, skip_header_lines: int = 0, name: str | None = None) -> Reader:
    r"""A reader of the lines of text files; keys are `file:number` from 1.

    Args:
      skip_header_lines: lines of each file to pass over.
      name: the name of the reader.

    Example:
      >>> import headrace as hr, pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.txt"
      >>> _ = path.write_text("first\nsecond\n")
      >>> with hr.Graph().as_default() as graph:
      ...     names = hr.FIFOQueue(10, hr.string, shapes=[[]])
      ...     fill = names.enqueue(str(path))
      ...     key, line = hr.files.text_line_reader().read(names)
      >>> with hr.Session(graph) as session:
      ...     session.run(fill)
      ...     print(session.run(line), session.run(line))
      b'first' b'second'
    """
    return Reader("TextLineReaderV2", skip_header_lines=skip_header_lines, name=name)


def record_reader(*, compression: str = "", name: str | None = None) -> Reader:
    """A reader of TFRecord files; keys are `file:offset`.

    Args:
      compression: `""`, `"GZIP"` or `"ZLIB"`, of whole files.
      name: the name of the reader.
    """
    return Reader("TFRecordReaderV2", compression_type=compression, name=name)


def whole_file_reader(*, name: str | None = None) -> Reader:
    """A reader of whole files, whose names are the keys."""
    return Reader("WholeFileReaderV2", name=name)


def fixed_length_reader(
    record_bytes: int,
    *,
    header_bytes: int = 0,
    footer_bytes: int = 0,
    hop_bytes: int = 0,
    compression: str = "",
    name: str | None = None,
) -> Reader:
    """A reader of records of one length; keys are `file:number` from 0.

    Args:
      record_bytes: the length.
      header_bytes: bytes before the first record of a file.
      footer_bytes: bytes after the last one.
      hop_bytes: from the start of one record to that of the next; 0 stands for `record_bytes`.
      compression: `""` or `"ZLIB"`, of whole files.
      name: the name of the reader.
    """
    return Reader(
        "FixedLengthRecordReaderV2",
        record_bytes=record_bytes,
        header_bytes=header_bytes,
        footer_bytes=footer_bytes,
        hop_bytes=hop_bytes,
        encoding=compression,
        name=name,
    )
