"""The codes under which errors go out: TensorFlow Serving's names, and the numbers of HTTP and gRPC for them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    DTypeError,
    FailedPreconditionError,
    HeadraceError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)
from headrace_serving.errors import (
    MethodNotAllowedError,
    QueueTimeoutError,
    RequestTooLargeError,
    UnauthenticatedError,
)


@dataclass(frozen=True, slots=True)
class Code:
    """What became of a request.

    Attributes:
      name: in TensorFlow Serving's words, which are those of gRPC.
      http: status of an HTTP answer.
      grpc: number of a gRPC status.
    """

    name: str
    http: int
    grpc: int


OK = Code("OK", 200, 0)
INTERNAL = Code("INTERNAL", 500, 13)
_INVALID_ARGUMENT = Code("INVALID_ARGUMENT", 400, 3)
_CODES: tuple[tuple[type[HeadraceError], Code], ...] = (
    (RequestTooLargeError, Code("RESOURCE_EXHAUSTED", 413, 8)),
    (UnauthenticatedError, Code("UNAUTHENTICATED", 401, 16)),
    (MethodNotAllowedError, Code("INVALID_ARGUMENT", 405, 3)),
    (NotFoundError, Code("NOT_FOUND", 404, 5)),
    (UnimplementedError, Code("UNIMPLEMENTED", 501, 12)),
    (AlreadyExistsError, Code("ALREADY_EXISTS", 409, 6)),
    (AbortedError, Code("ABORTED", 409, 10)),
    (CancelledError, Code("CANCELLED", 499, 1)),
    (UnavailableError, Code("UNAVAILABLE", 503, 14)),
    (QueueTimeoutError, Code("RESOURCE_EXHAUSTED", 429, 8)),
    (DeadlineExceededError, Code("DEADLINE_EXCEEDED", 504, 4)),
    (InvalidArgumentError, _INVALID_ARGUMENT),
    (DTypeError, _INVALID_ARGUMENT),
    (FailedPreconditionError, Code("FAILED_PRECONDITION", 400, 9)),
)
"""First match wins; what is not here is INTERNAL."""


def code_of(error: HeadraceError) -> Code:
    """Return the code of an error, as TensorFlow Serving maps its own.

    Example:
      >>> from headrace.errors import UnavailableError
      >>> code_of(UnavailableError("busy")).http
      503
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)
