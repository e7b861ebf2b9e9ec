"""Stateful: objects of a program that are saved beside its variables, by what they say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from headrace.errors import NotFoundError, known_names

__all__ = ["Stateful", "check_states", "states_of"]


@runtime_checkable
class Stateful(Protocol):
    """What can be saved and restored beside variables, such as the iterator of a dataset; nothing is ever pickled."""

    def state(self) -> Any:
        """All that it needs to go on, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go on from what `state` gave, in another process maybe. Raises an error if that does not fit."""


def states_of(objects: Mapping[str, Any]) -> dict[str, Any]:
    """The state of each object that has one; other values are JSON already."""
    return {name: item.state() if isinstance(item, Stateful) else item for name, item in objects.items()}


def check_states(objects: Mapping[str, Stateful], saved: Mapping[str, Any], path: str) -> None:
    """Refuse objects of which nothing was saved.

    Args:
      objects: those to restore, by name.
      saved: the states, by name.
      path: where from, for errors.
    Raises:
      NotFoundError: no state of an object was saved.
    """
    for name in objects:
        if name not in saved:
            raise NotFoundError(
                f"the checkpoint has no state of the object {name!r}, and nothing was changed",
                where=path,
                expected=known_names(name, saved),
                got=name,
                hint="save(..., objects={name: object}) saves it; strict=False leaves it as it is",
            )
