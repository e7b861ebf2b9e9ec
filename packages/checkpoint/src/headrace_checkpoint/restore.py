"""Which stored tensor goes to which variable: a decision over names, dtypes and shapes, before anything changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import headrace as hr
from headrace.errors import HeadraceError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.sources import TensorType

__all__ = ["Mismatch", "Names", "Part", "RestoreReport", "check_names", "match_variables"]


class Mismatch(NamedTuple):
    """A variable whose stored value has another shape or dtype.

    Attributes:
      name: the variable's name.
      expected: dtype and shape of the variable.
      stored: dtype and shape in the checkpoint.
    """

    name: str
    expected: str
    stored: str

    def __str__(self) -> str:
        return f"{self.name} ({self.stored} stored, {self.expected} wanted)"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did.

    Attributes:
      path: where the values came from.
      step: the training step they were saved at; None where the format does not say.
      restored: names of the variables that have a stored value now.
      missing: names of variables that the checkpoint has no value for; they keep theirs.
      unexpected: names in the checkpoint that no variable wanted, and operations with a stored stream of random numbers
        that the graph does not have.
      wrong_shape: variables whose stored value does not fit, by shape or dtype; they keep theirs.
      objects: the user's objects that were saved with the step.
    """

    path: str
    step: int | None
    restored: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    wrong_shape: tuple[Mismatch, ...] = ()
    objects: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """True if every variable was restored and every stored tensor was used."""
        return not (self.missing or self.unexpected or self.wrong_shape)

    def raise_unless_complete(self) -> None:
        """Raise the error of a strict restore.

        Raises:
          ShapeError: a stored value does not fit its variable.
          NotFoundError: a variable has no stored value.
          InvalidArgumentError: a stored value has no variable.
        """
        if self.is_complete:
            return
        lists = {"missing": self.missing, "unexpected": self.unexpected, "wrong shape": self.wrong_shape}
        kind: type[HeadraceError] = InvalidArgumentError
        if self.wrong_shape:
            kind = ShapeError
        elif self.missing:
            kind = NotFoundError
        raise kind(
            "the checkpoint does not fit the variables, and nothing was changed",
            where=self.path,
            expected="a stored value of the same dtype and shape for each variable, and none left over",
            got="; ".join(f"{label}: {_shorten(names)}" for label, names in lists.items() if names),
            hint="restore(..., strict=False) restores what fits and reports the rest; names={...} maps names",
        )

    def __str__(self) -> str:
        lists = {
            "restored": self.restored,
            "missing": self.missing,
            "unexpected": self.unexpected,
            "wrong shape": self.wrong_shape,
        }
        lines = [f"  {label + ':':<13}{len(names)}  {_shorten(names)}".rstrip() for label, names in lists.items()]
        at = "" if self.step is None else f" (step {self.step})"
        return "\n".join([f"restored from {self.path}{at}", *lines])


@dataclass(frozen=True, slots=True)
class Part:
    """Says that a variable is a part of a stored tensor, as one shard of a partitioned variable is.

    Attributes:
      tensor: the name of the whole in the checkpoint.
      full_shape: of the whole.
      start: where the variable begins in it, along each axis.
    """

    tensor: str
    full_shape: tuple[int, ...]
    start: tuple[int, ...]


Names = Mapping[str | re.Pattern[str], str]
"""Variable name, or a pattern of them, to the name in the checkpoint, which may refer to the pattern's groups."""


def match_variables(
    variables: Sequence[hr.Variable],
    stored: Mapping[str, TensorType],
    names: Names | None = None,
    parts: Mapping[str, Part] | None = None,
) -> tuple[dict[str, tuple[str, Box | None]], RestoreReport]:
    """Decide what a restore does.

    Args:
      variables: those to restore.
      stored: what the checkpoint holds.
      names: which stored tensor a variable takes its value from, where the names differ. A name wins over patterns,
        and an earlier pattern over a later one.
      parts: the variables, by name, that are parts of stored tensors.
    Returns:
      For each variable that gets a value, by the variable's name, the stored tensor and which part of it, None for all;
      and the report, without path and step.
    Raises:
      InvalidArgumentError: `names` or `parts` name no variable, or two variables share a name.
    """
    check_names(variables)
    parts = parts or {}
    wanted = {variable.name: _stored_name(variable.name, names or {}, parts) for variable in variables}
    _check_maps(wanted, names or {}, parts)
    taken: dict[str, tuple[str, Box | None]] = {}
    wrong: list[Mismatch] = []
    for variable in variables:
        name, part = wanted[variable.name], parts.get(variable.name)
        if name not in stored:
            continue
        if _fits(variable, part, stored[name]):
            sizes = variable.shape.as_tuple() if part is not None else ()
            taken[variable.name] = (name, None if part is None else Box(part.start, sizes))
        else:
            whole = variable.shape if part is None else f"{list(variable.shape)} of {list(part.full_shape)}"
            wrong.append(Mismatch(variable.name, f"{variable.dtype}{whole}", str(stored[name])))
    used = set(wanted.values())
    return taken, RestoreReport(
        path="",
        step=None,
        restored=tuple(sorted(taken)),
        missing=tuple(sorted(name for name, source in wanted.items() if source not in stored)),
        unexpected=tuple(sorted(name for name in stored if name not in used)),
        wrong_shape=tuple(sorted(wrong)),
    )


def _stored_name(name: str, names: Names, parts: Mapping[str, Part]) -> str:
    if name in parts:
        return parts[name].tensor
    if name in names:
        return names[name]
    for pattern, template in names.items():
        found = pattern.fullmatch(name) if isinstance(pattern, re.Pattern) else None
        if found is not None:
            return _expanded(found, template)
    return name


def _expanded(found: re.Match[str], template: str) -> str:
    try:
        return found.expand(template)
    except (re.error, IndexError) as error:
        raise InvalidArgumentError(
            "the name map refers to a group that its pattern does not have",
            expected=f"a group of {found.re.pattern!r}",
            got=f"{template!r}: {error}",
            hint=r'names={re.compile("encoder/(.*)"): r"bert/\1"}',
        ) from None


def _check_maps(wanted: Mapping[str, str], names: Names, parts: Mapping[str, Part]) -> None:
    unknown = [
        item.pattern if isinstance(item, re.Pattern) else item
        for item in (*names, *parts)
        if not (any(map(item.fullmatch, wanted)) if isinstance(item, re.Pattern) else item in wanted)
    ]
    if unknown:
        raise InvalidArgumentError(
            "the name map names variables that are not there",
            expected=_shorten(sorted(wanted)),
            got=_shorten(sorted(unknown)),
            hint="names={variable name: name in the checkpoint}",
        )


def check_names(variables: Sequence[hr.Variable]) -> None:
    """Refuse variables that a checkpoint could not tell apart.

    Raises:
      InvalidArgumentError: two of them share a name.
    """
    counts = Counter(variable.name for variable in variables)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise InvalidArgumentError(
            "two of the variables have the same name",
            expected="a name of its own for each variable",
            got=_shorten(twice),
            hint="hr.Variable(..., name=...), or list each variable once",
        )


def _fits(variable: hr.Variable, part: Part | None, stored: TensorType) -> bool:
    if str(variable.dtype) != stored.dtype:
        return False
    if part is None:
        compatible: bool = variable.shape.is_compatible_with(hr.Shape(stored.shape))
        return compatible
    return part.full_shape == stored.shape and Box(part.start, variable.shape.as_tuple()).lies_in(stored.shape)


def _shorten(names: Sequence[object], limit: int = 20) -> str:
    shown = ", ".join(str(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"
