"""Files (`hr.files`): whole ones as strings, and readers of their records."""

from __future__ import annotations

from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.readers import Reader, fixed_length_reader, record_reader, text_line_reader, whole_file_reader
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

__all__ = [
    "Reader",
    "fixed_length_reader",
    "matching",
    "read",
    "record_reader",
    "text_line_reader",
    "whole_file_reader",
    "write",
]


@register_op("ReadFile", inputs={"filename": "string"}, outputs={"contents": "string"}, stateful=True, reads_only=True)
def _read_file_shape(op: InferenceContext) -> list[Shape]:
    """The bytes of a file."""
    check_scalar(op.inputs[0].shape, "filename")
    return [Shape([])]


@register_op("WriteFile", inputs={"filename": "string", "contents": "string"}, stateful=True)
def _write_file_shape(op: InferenceContext) -> list[Shape]:
    """Makes a file of the bytes, and the folders it is in; one that is there is replaced in one piece."""
    check_scalar(op.inputs[0].shape, "filename")
    check_scalar(op.inputs[1].shape, "contents")
    return []


@register_op(
    "MatchingFiles", inputs={"pattern": "string"}, outputs={"filenames": "string"}, stateful=True, reads_only=True
)
def _matching_files_shape(op: InferenceContext) -> list[Shape]:
    """The names of the files that match a pattern, or one of several, in order."""
    if op.inputs[0].shape.rank not in (None, 0):
        op.inputs[0].shape.with_rank(1)
    return [Shape([None])]


def read(path: TensorLike, *, name: str | None = None) -> Tensor:
    """The bytes of a file, read when the step runs.

    Args:
      path: string scalar.
      name: the operation's name.
    Returns:
      string scalar.
    Raises:
      NotFoundError: in the step, if there is no such file.

    Example:
      >>> import headrace as hr, pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.txt"
      >>> with hr.Graph().as_default() as graph:
      ...     with hr.control_dependencies([hr.files.write(str(path), "text")]):
      ...         contents = hr.files.read(str(path))
      >>> print(hr.Session(graph).run(contents))
      b'text'
    """
    result: Tensor = apply_op("ReadFile", path, name=name)
    return result


def write(path: TensorLike, contents: TensorLike, *, name: str | None = None) -> Operation:
    """The operation that writes a file: folders are made, and a file that is there is replaced in one piece.

    Args:
      path: string scalar.
      contents: string scalar.
      name: the operation's name.
    """
    operation: Operation = apply_op("WriteFile", path, contents, name=name)
    return operation


def matching(pattern: TensorLike, *, name: str | None = None) -> Tensor:
    """The names of the files that match, in order.

    Args:
      pattern: string scalar or vector; in the last part of a path `*` stands for any characters, `?` for one, `[ab]`
        for one of them.
      name: the operation's name.
    Returns:
      string vector, empty if there are none.
    """
    result: Tensor = apply_op("MatchingFiles", pattern, name=name)
    return result
