"""Looking into a step: printing, time stamps, summaries of tensors, and the checks that `hr.debug` puts into a plan."""

from __future__ import annotations

from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import Shape, float32, float64

__all__ = ["STREAMS", "format_tensors", "print_tensors", "timestamp"]

STREAMS = ("stdout", "stderr", "log(info)", "log(warning)", "log(error)")
"""Where `PrintV2` writes to, besides files."""


@register_op(
    "PrintV2",
    inputs={"input": "string"},
    attrs={"output_stream": attr.string("stderr"), "end": attr.string("\n")},
    stateful=True,
)
def _print_shape(op: InferenceContext) -> list[Shape]:
    """Writes a string to a stream of the process, to its log, or after `file://` to the end of a file."""
    check_scalar(op.inputs[0].shape, "input")
    stream = op.attr("output_stream")
    if stream not in STREAMS and not str(stream).startswith("file://"):
        raise InvalidArgumentError(
            "there is no such stream",
            expected=", ".join(STREAMS) + ", or file:// and a path",
            got=str(stream),
            hint="hr.print(..., output_stream='stdout')",
        )
    return []


@register_op(
    "StringFormat",
    inputs={"inputs": "T"},
    outputs={"output": "string"},
    attrs={
        "T": attr.list_of(attr.any_type),
        "template": attr.string("%s"),
        "placeholder": attr.string("%s"),
        "summarize": attr.int(3),
    },
)
def _string_format_shape(op: InferenceContext) -> list[Shape]:
    """The template with each placeholder replaced by a tensor, of which each axis shows `summarize` at both ends."""
    template, placeholder = op.attr("template"), op.attr("placeholder")
    found = str(template).count(str(placeholder)) if placeholder else 0
    if found != len(op.inputs):
        raise InvalidArgumentError(
            "the template has not one place for each tensor",
            expected=f"{len(op.inputs)} of {placeholder!r}",
            got=f"{found} in {template!r}",
            hint="write a placeholder for each tensor; choose another one if the text contains it",
        )
    return [Shape([])]


@register_op("Timestamp", outputs={"ts": "float64"}, stateful=True)
def _timestamp_shape(op: InferenceContext) -> list[Shape]:
    """Seconds since 1970 when it runs."""
    return [Shape([])]


_NUMBERS = {2: 2, 3: 5, 4: 11, 5: 10, 8: 3}
"""The modes of DebugNumericSummaryV2, and how many numbers each gives."""


@register_op(
    "DebugNumericSummaryV2",
    inputs={"input": "T"},
    outputs={"output": "output_dtype"},
    attrs={
        "output_dtype": AttrSpec("type", default=float32, allowed=(float32, float64)),
        "T": attr.any_type,
        "tensor_debug_mode": attr.int(-1),
        "tensor_id": attr.int(-1),
    },
)
def _debug_numeric_summary_shape(op: InferenceContext) -> list[Shape]:
    """What a tensor holds, as a vector that begins with tensor_id (but in mode 8).

    Mode 2 (CURT_HEALTH): whether there is an infinity or NaN. 3 (CONCISE_HEALTH): the number of elements, of -inf, inf
    and NaN. 4 (FULL_HEALTH): device, dtype, rank, elements, -inf, inf, NaN, negative, zero, positive. 5 (SHAPE): dtype,
    rank, elements and the first six sizes. 8 (REDUCE_INF_NAN_THREE_SLOTS): -inf, inf and NaN where there are such.
    """
    mode = op.attr("tensor_debug_mode")
    if mode not in _NUMBERS:
        raise InvalidArgumentError(
            "there is no such mode",
            expected="tensor_debug_mode in 2, 3, 4, 5, 8",
            got=str(mode),
            hint="2 tells whether there is an infinity or NaN, 3 and 4 how many",
        )
    return [Shape([_NUMBERS[int(mode)]])]


@register_op(
    "_CheckValue",
    inputs={"value": "T", "inputs": "U"},
    outputs={"output": "T"},
    attrs={
        "T": attr.floating_or_complex,
        "U": attr.list_of(attr.any_type),
        "of": attr.string(),
        "output": attr.string(),
        "names": attr.list_of(attr.string()),
    },
    stateful=True,
)
def _check_value_shape(op: InferenceContext) -> list[Shape]:
    """The value, unchanged; an infinity or NaN in it ends the step with an error that names who computed it.

    It is `output` of the operation described by `of`, whose inputs are the others, named by `names`.
    """
    return [op.inputs[0].shape]


@register_op(
    "_CheckVariables",
    inputs={"handles": "N*resource", "inputs": "U"},
    attrs={
        "N": attr.int(minimum=1),
        "U": attr.list_of(attr.any_type),
        "of": attr.string(),
        "names": attr.list_of(attr.string()),
    },
    stateful=True,
)
def _check_variables_shape(op: InferenceContext) -> list[Shape]:
    """An infinity or NaN in a variable ends the step with an error that names the operation that changed it.

    Handles of other things than variables are passed over.
    """
    return []


def format_tensors(
    template: str, tensors: list[TensorLike], *, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Text with the values of tensors in it.

    Args:
      template: the text, with a placeholder for each tensor.
      tensors: any dtypes and shapes.
      placeholder: what stands for a tensor.
      summarize: how many elements each axis shows at its start and end; all if negative.
      name: the operation's name.
    Returns:
      string scalar.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     text = hr.strings.format("x = {}, n = {}", [[1.5, 2.0], 3])
      >>> print(hr.Session(graph).run(text).item().decode())
      x = [1.5 2], n = 3
    """
    result: Tensor = apply_op(
        "StringFormat",
        [convert_to_tensor(item) for item in tensors],
        template=template,
        placeholder=placeholder,
        summarize=summarize,
        name=name,
    )
    return result


def print_tensors(
    *values: Any,
    output_stream: str = "stderr",
    sep: str = " ",
    end: str = "\n",
    summarize: int = 3,
    name: str | None = None,
) -> Operation:
    """Print values when the step runs.

    Args:
      *values: tensors and what is to stand between them; strings that are no tensors are printed as they are.
      output_stream: `"stderr"`, `"stdout"`, `"log(info)"`, `"log(warning)"`, `"log(error)"`, or `file://` and a path.
      sep: between the values.
      end: after them.
      summarize: how many elements each axis shows at its start and end; all if negative.
      name: the operation's name.
    Returns:
      The operation: run it, or others after it by `hr.control_dependencies`. Inside `@hr.function` that is not needed.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     shown = hr.print("x:", hr.constant([1.0, 2.5]), output_stream="stdout")
      >>> hr.Session(graph).run(shown)
      x: [1 2.5]
    """
    placeholder = "{}"
    while any(isinstance(value, str) and placeholder in value for value in (*values, sep)):
        placeholder = f"{{{placeholder}}}"
    texts, tensors = [], []
    for value in values:
        texts.append(value if isinstance(value, str) else placeholder)
        if not isinstance(value, str):
            tensors.append(value)
    text = format_tensors(sep.join(texts), tensors, placeholder=placeholder, summarize=summarize)
    operation: Operation = apply_op("PrintV2", text, output_stream=output_stream, end=end, name=name)
    return operation


def timestamp(*, name: str | None = None) -> Tensor:
    """Seconds since 1970, float64 scalar, when the operation runs.

    Args:
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     now = hr.timestamp()
      >>> bool(hr.Session(graph).run(now) > 1.7e9)
      True
    """
    result: Tensor = apply_op("Timestamp", name=name)
    return result
