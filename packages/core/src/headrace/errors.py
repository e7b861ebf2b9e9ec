"""The exception tree of Headrace: one file, so that a caller can pick the level at which to catch.

HeadraceError
├── InvalidArgumentError (ValueError)      an argument, attribute or value that cannot be right
│   ├── ShapeError                         shapes that do not fit together
│   ├── AttrError                          a missing, unknown or wrongly typed attribute
│   ├── FeedError                          a feed that is missing, unknown, or of the wrong dtype or shape
│   ├── GraphError                         a graph that breaks a structural rule (cycle, foreign tensor, name)
│   └── OutOfRangeError (IndexError)       an index beyond its bound
│       └── EndOfDataError                 the normal end of data: what is closed ran empty
├── DTypeError (TypeError)                 element types that do not fit together
├── NoGraphError (RuntimeError)            a user function was called where no graph is being built
├── UnknownOpError (LookupError)           an operation type that no package registered
├── NotFoundError (LookupError)            a name, file, kernel or package that is not there
├── AlreadyExistsError (ValueError)        a second registration or a second object of one name
├── FailedPreconditionError (RuntimeError) the state does not allow the request (uninitialised, closed)
├── GradientError (ValueError)             a derivative that was asked for and does not exist
├── PlacementError (ValueError)            no device satisfies what was asked
├── CancelledError (RuntimeError)          the step was cancelled
├── DeadlineExceededError (TimeoutError)   the step did not end in time
├── AbortedError (RuntimeError)            the step was given up because of another one
├── ResourceExhaustedError (MemoryError)   there is not enough memory for what was asked
├── UnavailableError (ConnectionError)     a peer that cannot be reached now
├── UnimplementedError (NotImplementedError) a documented case that is not supported
├── DataLossError (OSError)                stored bytes that are damaged or truncated
└── InternalError (RuntimeError)           a fault of Headrace itself: please report it
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "AttrError",
    "CancelledError",
    "DTypeError",
    "DataLossError",
    "DeadlineExceededError",
    "EndOfDataError",
    "FailedPreconditionError",
    "FeedError",
    "GradientError",
    "GraphError",
    "HeadraceError",
    "InternalError",
    "InvalidArgumentError",
    "NoGraphError",
    "NotFoundError",
    "OutOfRangeError",
    "PlacementError",
    "ResourceExhaustedError",
    "ShapeError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownOpError",
    "known_names",
]


class HeadraceError(Exception):
    """Base class of every error that Headrace raises on purpose.

    The text has up to four fields: what failed, where, what was expected and what came instead, and what to do.

    Args:
      what: one sentence naming the thing that failed.
      where: the operation, device and the user's source line; may be added later with `at`.
      expected: what would have been right.
      got: what was found instead.
      hint: what to do about it.

    Example:
      >>> from headrace import errors
      >>> print(errors.ShapeError("cannot add", expected="[2]", got="[3]", hint="reshape one"))
      cannot add
        expected: [2]
        got:      [3]
        try:      reshape one
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.hint = hint

    def at(self, where: str) -> HeadraceError:
        """Fill in the place where it happened, unless it is known already; returns the error itself."""
        if self.where is None:
            self.where = where
        return self

    def __str__(self) -> str:
        fields = (("where", self.where), ("expected", self.expected), ("got", self.got), ("try", self.hint))
        lines = [f"  {label + ':':<9} {text}" for label, text in fields if text is not None]
        return "\n".join([self.what, *lines])


class InvalidArgumentError(HeadraceError, ValueError):
    """An argument, attribute or value that cannot be right."""


class ShapeError(InvalidArgumentError):
    """Shapes that do not fit together."""


class AttrError(InvalidArgumentError):
    """A missing, unknown or wrongly typed attribute."""


class FeedError(InvalidArgumentError):
    """A feed that is missing, unknown, or of the wrong dtype or shape."""


class GraphError(InvalidArgumentError):
    """A graph that breaks a structural rule."""


class OutOfRangeError(InvalidArgumentError, IndexError):
    """An index beyond its bound."""


class EndOfDataError(OutOfRangeError):
    """The normal end of data: what was asked for more is closed and ran empty."""


class DTypeError(HeadraceError, TypeError):
    """Element types that do not fit together."""


class NoGraphError(HeadraceError, RuntimeError):
    """A user function was called where no graph is being built."""


class UnknownOpError(HeadraceError, LookupError):
    """An operation type that no package registered."""


class NotFoundError(HeadraceError, LookupError):
    """A name, file, kernel or package that is not there."""


class AlreadyExistsError(HeadraceError, ValueError):
    """A second registration or a second object of one name."""


class FailedPreconditionError(HeadraceError, RuntimeError):
    """The state does not allow the request."""


class GradientError(HeadraceError, ValueError):
    """A derivative that was asked for and does not exist."""


class PlacementError(HeadraceError, ValueError):
    """No device satisfies what was asked."""


class CancelledError(HeadraceError, RuntimeError):
    """The step was cancelled."""


class DeadlineExceededError(HeadraceError, TimeoutError):
    """The step did not end in time."""


class AbortedError(HeadraceError, RuntimeError):
    """The step was given up because of another one."""


class ResourceExhaustedError(HeadraceError, MemoryError):
    """There is not enough memory for what was asked."""


class UnavailableError(HeadraceError, ConnectionError):
    """A peer that cannot be reached now."""


class UnimplementedError(HeadraceError, NotImplementedError):
    """A documented case that is not supported."""


class DataLossError(HeadraceError, OSError):
    """Stored bytes that are damaged or truncated."""


class InternalError(HeadraceError, RuntimeError):
    """A fault of Headrace itself; please report it with the text of the error."""


def known_names(name: object, known: Iterable[str], *, limit: int = 8) -> str:
    """Describe which names are known near an unknown one, closest first, for the `expected` field of an error."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=limit, cutoff=0.5)
    if close:
        return "one of the known names; close ones: " + ", ".join(close)
    shown = ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
    return f"one of: {shown}" if names else "a known name (none is registered)"
