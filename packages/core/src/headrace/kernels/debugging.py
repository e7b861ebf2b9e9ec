"""Kernels of the debugging family."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, DType, as_dtype

__all__: list[str] = []

_LEVELS = {"log(info)": logging.INFO, "log(warning)": logging.WARNING, "log(error)": logging.ERROR}
_log = logging.getLogger("headrace.print")


@register_kernel("PrintV2")
def _print(op: OpContext, text: Array) -> None:
    line = np.asarray(text).item().decode("utf-8", "replace")
    stream, end = op.attr("output_stream"), op.attr("end")
    if stream in _LEVELS:
        _log.log(_LEVELS[stream], "%s", line)
    elif stream.startswith("file://"):
        with Path(stream.removeprefix("file://")).open("a", encoding="utf-8") as file:
            file.write(line + end)
    else:
        target = sys.stdout if stream == "stdout" else sys.stderr
        target.write(line + end)
        target.flush()


@register_kernel("StringFormat")
def _string_format(op: OpContext, tensors: list[Array]) -> Array:
    pieces = str(op.attr("template")).split(str(op.attr("placeholder"))) if tensors else [str(op.attr("template"))]
    shown = [_shown(np.asarray(tensor), op.attr("summarize")) for tensor in tensors]
    parts = [pieces[0], *(part for pair in zip(shown, pieces[1:], strict=True) for part in pair)]
    result = np.empty((), object)
    result[()] = "".join(parts).encode()
    return result


def _shown(tensor: Array, summarize: int, depth: int = 1) -> str:
    """Nested brackets; of each axis the first and last elements, with dots between."""
    if tensor.ndim == 0:
        return _element(tensor.item(), as_dtype(tensor.dtype))
    count = len(tensor)
    whole = summarize < 0 or count <= 2 * summarize
    first = range(count) if whole else range(summarize)
    last = range(0) if whole else range(count - summarize, count)
    parts = [_shown(np.asarray(tensor[n]), summarize, depth + 1) for n in first]
    parts += [] if whole else ["..."]
    parts += [_shown(np.asarray(tensor[n]), summarize, depth + 1) for n in last]
    gap = " " if tensor.ndim == 1 else "\n" * (tensor.ndim - 1) + " " * depth
    return "[" + gap.join(parts) + "]"


def _element(value: Any, dtype: DType) -> str:
    if isinstance(value, bytes):
        return '"' + value.decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, complex):
        return f"({_number(value.real, dtype)},{_number(value.imag, dtype)})"
    return _number(value, dtype)


def _number(value: Any, dtype: DType) -> str:
    """As TensorFlow writes it: 6 or 15 digits if they tell the number, else the 9 or 17 that always do."""
    if not isinstance(value, float):
        return str(value)
    if dtype.name in ("float64", "complex128"):
        short = f"{value:.15g}"
        return short if float(short) == value or value != value else f"{value:.17g}"
    short = f"{value:.6g}"
    return short if np.float32(short) == np.float32(value) or value != value else f"{value:.9g}"


@register_kernel("Timestamp")
def _timestamp(op: OpContext) -> Array:
    return np.array(time.time())


@register_kernel("DebugNumericSummaryV2")
def _debug_numeric_summary(op: OpContext, tensor: Array) -> Array:
    tensor = np.asarray(tensor)
    mode, number = op.attr("tensor_debug_mode"), float(op.attr("tensor_id"))
    dtype = op.inputs[0].dtype
    low, high, missing = _bad_counts(tensor, dtype)
    if mode == 2:
        values = [number, float(bool(low or high or missing))]
    elif mode == 3:
        values = [number, tensor.size, low, high, missing]
    elif mode == 4:
        finite = tensor[np.isfinite(tensor)] if dtype.is_floating else tensor
        signs = (
            [0, 0, 0]
            if dtype.kind in ("string", "bool")
            else [np.sum(finite < 0), np.sum(finite == 0), np.sum(finite > 0)]
        )
        values = [number, -1, dtype.number, tensor.ndim, tensor.size, low, high, missing, *signs]
    elif mode == 5:
        sizes = [*tensor.shape[-6:], *[0] * 6][:6]
        values = [number, dtype.number, tensor.ndim, tensor.size, *sizes]
    else:
        values = [-np.inf if low else 0, np.inf if high else 0, np.nan if missing else 0]
    return np.array(values, op.attr("output_dtype").array_type)


def _bad_counts(tensor: Array, dtype: DType) -> tuple[int, int, int]:
    """How many elements are -infinity, infinity and NaN."""
    if not dtype.is_floating:
        return 0, 0, 0
    return int(np.sum(np.isneginf(tensor))), int(np.sum(np.isposinf(tensor))), int(np.sum(np.isnan(tensor)))


@register_kernel("_CheckValue", aliases=[0, 1])  # the value may share memory with what it was made of
def _check_value(op: OpContext, value: Array, inputs: list[Array]) -> Array:
    if not np.isfinite(value).all():
        raise _bad(op, f"output '{op.attr('output')}'", value, inputs)
    return value


@register_kernel("_CheckVariables")
def _check_variables(op: OpContext, handles: list[Any], inputs: list[Array]) -> None:
    for handle in handles:
        if not getattr(handle, "is_initialized", False) or not handle.dtype.is_floating:
            continue  # a queue or a table, or a variable that holds no such numbers
        value = handle.read()
        if not np.isfinite(value).all():
            raise _bad(op, f"variable '{handle.name}'", value, inputs)


def _bad(op: OpContext, what: str, value: Array, inputs: list[Array]) -> InvalidArgumentError:
    """Who computed it, where the first bad element is, and which input was bad first or what made it so."""
    value = np.asarray(value)
    bad = ~np.isfinite(value)
    place = tuple(int(axis) for axis in np.argwhere(bad)[0])
    count = f"{int(bad.sum())} of {value.size} elements not finite"
    count += f", the first at {list(place)}" if value.ndim else ""
    return InvalidArgumentError(
        f"{what} became {_element(value[place].item(), as_dtype(value.dtype))}",
        where=op.attr("of"),
        expected="finite numbers",
        got=f"{count}; {_source(op, inputs, place, value)}",
        hint="hr.print shows the inputs; keep them away from 0, overflow and empty means where they are made",
    )


def _source(op: OpContext, inputs: list[Array], place: tuple[int, ...], value: Array) -> str:
    named = [(name, np.asarray(item)) for name, item in zip(op.attr("names"), inputs, strict=True)]
    for position, (name, item) in enumerate(named):
        if as_dtype(item.dtype).is_floating and not np.isfinite(item).all():
            first = tuple(int(axis) for axis in np.argwhere(~np.isfinite(item))[0])
            at = f" at {list(first)}" if item.ndim else ""
            return f"the first bad input is number {position}, '{name}', with {item[first]}{at}"
    shown = [
        f"'{name}' {item[place] if item.shape == value.shape else _range(item)}" for name, item in named if item.size
    ]
    return "its inputs are finite: " + ", ".join(shown) if shown else "it has no inputs that are numbers"


def _range(item: Array) -> str:
    return f"from {item.min()} to {item.max()}" if item.dtype.kind in "iuf" and item.ndim else f"{item.reshape(-1)[0]}"
