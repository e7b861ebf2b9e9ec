"""Which codes errors get."""

from __future__ import annotations

import pytest

from headrace import errors
from headrace_serving.codes import code_of
from headrace_serving.errors import (
    BadRequestError,
    ClientGoneError,
    MethodNotAllowedError,
    QueueFullError,
    QueueTimeoutError,
    RequestTooLargeError,
    RouteNotFoundError,
    ServableNotFoundError,
    UnauthenticatedError,
    UnsupportedError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadRequestError("x"), 400),
        (errors.ShapeError("x"), 400),
        (errors.OutOfRangeError("x"), 400),
        (errors.DTypeError("x"), 400),
        (errors.FailedPreconditionError("x"), 400),
        (ServableNotFoundError("x"), 404),
        (errors.AlreadyExistsError("x"), 409),
        (errors.AbortedError("x"), 409),
        (RequestTooLargeError("x"), 413),
        (UnauthenticatedError("x"), 401),
        (QueueFullError("x"), 503),
        (QueueTimeoutError("x"), 429),
        (ClientGoneError("x"), 499),
        (MethodNotAllowedError("x"), 405),
        (RouteNotFoundError("x"), 404),
        (errors.CancelledError("x"), 499),
        (errors.InternalError("x"), 500),
        (errors.DataLossError("x"), 500),
        (UnsupportedError("x"), 501),
        (errors.UnavailableError("x"), 503),
        (errors.DeadlineExceededError("x"), 504),
    ],
)
def test_http_codes(error: errors.HeadraceError, code: int) -> None:
    assert code_of(error).http == code


@pytest.mark.parametrize(
    ("error", "name", "number"),
    [
        (errors.InvalidArgumentError("x"), "INVALID_ARGUMENT", 3),
        (RequestTooLargeError("x"), "RESOURCE_EXHAUSTED", 8),
        (ServableNotFoundError("x"), "NOT_FOUND", 5),
        (QueueFullError("x"), "UNAVAILABLE", 14),
        (errors.DataLossError("x"), "INTERNAL", 13),
    ],
)
def test_grpc_codes(error: errors.HeadraceError, name: str, number: int) -> None:
    assert (code_of(error).name, code_of(error).grpc) == (name, number)
