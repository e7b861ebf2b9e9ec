"""Which stored tensor goes to which variable: a decision over names, dtypes and shapes, before anything changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import headrace as hr
from headrace.errors import HeadraceError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.dtypes import Array

__all__ = ["Mismatch", "RestoreReport", "check_names", "match_variables"]


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


def match_variables(
    variables: Sequence[hr.Variable], stored: Mapping[str, Array], names: Mapping[str, str] | None = None
) -> tuple[dict[str, Array], RestoreReport]:
    """Decide what a restore does.

    Args:
      variables: those to restore.
      stored: the values in the checkpoint, by name.
      names: variable name -> name in the checkpoint, where the two differ.
    Returns:
      The value for each variable that gets one, by the variable's name; and the report, without path and step.
    Raises:
      InvalidArgumentError: `names` names no variable, or two variables share a name.
    """
    check_names(variables)
    wanted = {variable.name: (names or {}).get(variable.name, variable.name) for variable in variables}
    if unknown := sorted(set(names or {}) - set(wanted)):
        raise InvalidArgumentError(
            "the name map names variables that are not there",
            expected=_shorten(sorted(wanted)),
            got=_shorten(unknown),
            hint="names={variable name: name in the checkpoint}",
        )
    values: dict[str, Array] = {}
    wrong: list[Mismatch] = []
    for variable in variables:
        value = stored.get(wanted[variable.name])
        if value is not None and _fits(variable, value):
            values[variable.name] = value
        elif value is not None:
            got = f"{_dtype_name(value)}{list(value.shape)}"
            wrong.append(Mismatch(variable.name, f"{variable.dtype}{variable.shape}", got))
    used = set(wanted.values())
    return values, RestoreReport(
        path="",
        step=None,
        restored=tuple(sorted(values)),
        missing=tuple(sorted(name for name, source in wanted.items() if source not in stored)),
        unexpected=tuple(sorted(name for name in stored if name not in used)),
        wrong_shape=tuple(sorted(wrong)),
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


def _fits(variable: hr.Variable, value: Array) -> bool:
    same_dtype: bool = variable.dtype.array_type == value.dtype
    return same_dtype and variable.shape.is_compatible_with(hr.Shape(value.shape))


def _dtype_name(value: Array) -> str:
    return "string" if value.dtype == object else value.dtype.name


def _shorten(names: Sequence[object], limit: int = 20) -> str:
    shown = ", ".join(str(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"
