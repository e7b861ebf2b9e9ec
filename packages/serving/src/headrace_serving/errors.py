"""What can be wrong with a request or a model folder.

    HeadraceError
    ├── InvalidArgumentError
    │   ├── BadRequestError        a URL, body or tensor that breaks a rule of the protocol
    │   └── MethodNotAllowedError  a path that has no such HTTP method
    ├── NotFoundError
    │   ├── ServableNotFoundError  no such model, or no such version of it
    │   └── RouteNotFoundError     no such path
    ├── UnimplementedError
    │   ├── UnsupportedError       a documented case of the protocol that is not supported
    │   └── EncodingError          a Content-Encoding that is not supported
    ├── UnavailableError
    │   └── QueueFullError         more waits than the server may let wait
    ├── DeadlineExceededError
    │   └── QueueTimeoutError      the request waited in a queue until it was too late
    ├── CancelledError
    │   └── ClientGoneError        the client went away before its answer was there
    ├── UnauthenticatedError       the key of the API is missing or wrong
    ├── RequestTooLargeError       a body above the limit
    └── FailedPreconditionError
        └── ModelFolderError       a folder that holds no model that can be served

The texts are those that TensorFlow Serving's clients know, so most have only the first of an error's four fields. The
HTTP codes are not known here: the adapter `app` maps classes to them.
"""

from __future__ import annotations

from headrace.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    HeadraceError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)

__all__ = [
    "BadRequestError",
    "ClientGoneError",
    "EncodingError",
    "MethodNotAllowedError",
    "ModelFolderError",
    "QueueFullError",
    "QueueTimeoutError",
    "RequestTooLargeError",
    "RouteNotFoundError",
    "ServableNotFoundError",
    "UnauthenticatedError",
    "UnsupportedError",
]


class BadRequestError(InvalidArgumentError):
    """A URL, body or tensor that breaks a rule of the protocol."""


class ServableNotFoundError(NotFoundError):
    """No such model, or no such version of it."""


class UnsupportedError(UnimplementedError):
    """A documented case of the protocol that is not supported."""


class EncodingError(UnimplementedError):
    """A Content-Encoding that is not supported."""


class RouteNotFoundError(NotFoundError):
    """No such path."""


class MethodNotAllowedError(InvalidArgumentError):
    """A path that has no such HTTP method."""


class QueueFullError(UnavailableError):
    """More waits than the server may let wait."""


class QueueTimeoutError(DeadlineExceededError):
    """The request waited in a queue until it was too late."""


class ClientGoneError(CancelledError):
    """The client went away before its answer was there."""


class UnauthenticatedError(HeadraceError):
    """The key of the API is missing or wrong."""


class RequestTooLargeError(HeadraceError):
    """A body above the limit."""


class ModelFolderError(FailedPreconditionError):
    """A folder that holds no model that can be served."""
