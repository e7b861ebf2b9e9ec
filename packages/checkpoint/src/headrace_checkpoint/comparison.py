"""Comparing and averaging the tensors of several sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.sources import OpenSource

__all__ = ["Difference", "average", "differences"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor that two sources do not share.

    Attributes:
      name: its name.
      kind: `"only in the first"`, `"only in the second"`, `"type"` or `"values"`.
      detail: in words.
    """

    name: str
    kind: str
    detail: str


def differences(first: OpenSource, second: OpenSource) -> Iterator[Difference]:
    """Compare two sources bit for bit, one tensor at a time, by name.

    Yields:
      What differs, sorted by name.
    """
    for name in sorted({*first.tensors, *second.tensors}):
        mine, its = first.tensors.get(name), second.tensors.get(name)
        if mine is None or its is None:
            yield Difference(name, "only in the second" if mine is None else "only in the first", str(mine or its))
        elif mine != its:
            yield Difference(name, "type", f"{mine} and {its}")
        elif (detail := _difference(first.read(name), second.read(name))) is not None:
            yield Difference(name, "values", detail)


def _difference(a: Array, b: Array) -> str | None:
    if a.dtype == object:
        unlike = int(np.sum(a != b))
        return f"{unlike} of {a.size} elements" if unlike else None
    if a.tobytes() == b.tobytes():
        return None
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(a.astype(wide) - b.astype(wide))
    unlike = int(np.sum(~((a == b) | ((a != a) & (b != b)))))  # NaN is like NaN
    if not unlike:
        return "equal numbers in other bits (signs of zeros, or NaNs)"
    numbers = apart[~np.isnan(apart)]
    distance = f"at most {numbers.max():g} apart" if numbers.size else "some of them no numbers"
    return f"{unlike} of {a.size} elements, {distance}"


def average(sources: Sequence[OpenSource]) -> Iterator[tuple[str, Array]]:
    """The mean of each floating or complex tensor over several sources; others are those of the last source.

    The sum is taken in float64 (complex128), in the order of the sources.

    Args:
      sources: of the same tensors.
    Raises:
      InvalidArgumentError: they differ in names, dtypes or shapes, or there is none.
    """
    _check_alike(sources)
    for name in sources[-1].tensors:
        last = sources[-1].read(name)
        if last.dtype == object or last.dtype.kind in "biu":
            yield name, last
            continue
        total = np.zeros(last.shape, np.complex128 if last.dtype.kind == "c" else np.float64)
        for array in _values(sources, name):
            total += array
        yield name, np.asarray(total / len(sources)).astype(last.dtype)


def _values(sources: Iterable[OpenSource], name: str) -> Iterator[Array]:
    return (source.read(name) for source in sources)


def _check_alike(sources: Sequence[OpenSource]) -> None:
    for source in sources[1:]:
        unlike = [
            name
            for name in {**sources[0].tensors, **source.tensors}
            if sources[0].tensors.get(name) != source.tensors.get(name)
        ]
        if unlike:
            raise InvalidArgumentError(
                "checkpoints of different tensors have no average",
                where=f"{sources[0].path} and {source.path}",
                expected=f"{unlike[0]}: {sources[0].tensors.get(unlike[0], 'none')}",
                got=str(source.tensors.get(unlike[0], "none")),
                hint="headrace checkpoint diff shows all that differs",
            )
