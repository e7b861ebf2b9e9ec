"""The HTTP adapter: a FastAPI application around a `ModelServer`.

FastAPI carries the health routes. TensorFlow Serving's routes stay out of its routing and validation, which cost
several times what a small prediction does: they are one ASGI callable that answers whatever no other route takes, so
that every answer, to unknown paths as well, has the protocol's form.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import orjson
from fastapi import FastAPI, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

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
from headrace_serving.body import decoded, read_body
from headrace_serving.errors import RequestTooLargeError
from headrace_serving.server import ModelServer
from headrace_serving.urls import Call, Method, is_v1, parse_url

__all__ = ["DEFAULT_MAX_REQUEST_BYTES", "create_app", "status_code"]

_log = logging.getLogger(__name__)

DEFAULT_MAX_REQUEST_BYTES = 64 << 20
_STATUS_CODES: tuple[tuple[type[HeadraceError], int], ...] = (
    (RequestTooLargeError, 413),
    (NotFoundError, 404),
    (UnimplementedError, 501),
    (AlreadyExistsError, 409),
    (AbortedError, 409),
    (CancelledError, 499),
    (UnavailableError, 503),
    (DeadlineExceededError, 504),
    (InvalidArgumentError, 400),
    (DTypeError, 400),
    (FailedPreconditionError, 400),
)
"""First match wins; what is not here is 500."""


def status_code(error: HeadraceError) -> int:
    """Return the HTTP status of an error, as TensorFlow Serving maps its own codes.

    Example:
      >>> from headrace.errors import UnavailableError
      >>> status_code(UnavailableError("busy"))
      503
    """
    return next((code for kind, code in _STATUS_CODES if isinstance(error, kind)), 500)


def create_app(server: ModelServer, *, max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES, threads: int = 8) -> FastAPI:
    """Return the ASGI application that serves a `ModelServer` over HTTP.

    Args:
      server: what answers.
      max_request_bytes: limit on a request's body, before and after inflating.
      threads: how many predictions may be computed at once.

    Example:
      >>> from headrace_serving import ModelRepository, ModelServer
      >>> create_app(ModelServer(ModelRepository([]))).title
      'Headrace model server'
    """
    app = FastAPI(title="Headrace model server", openapi_url=None, redirect_slashes=False)

    @app.get("/v2/health/live")
    async def live() -> Response:
        """Answer that the process is there."""
        return _json_response(200, {"live": True, "ready": True})

    @app.get("/v2/health/ready")
    async def ready() -> Response:
        """Answer that every model is loaded: they are before the server listens."""
        return _json_response(200, {"live": True, "ready": True})

    app.router.routes.append(Route("/{path:path}", _Everything(server, max_request_bytes, threads)))
    return app


class _Everything:
    """The ASGI callable for TensorFlow Serving's routes and for paths that nobody knows."""

    def __init__(self, server: ModelServer, max_request_bytes: int, threads: int) -> None:
        self._server = server
        self._max_request_bytes = max_request_bytes
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-serving")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["raw_path"].decode("latin-1")
        if not is_v1(path):
            response = _json_response(404, {"error": f"Not Found: {path}"})
        else:
            response = await self._respond(scope, receive, path)
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, path: str) -> Response:
        try:
            call = parse_url(scope["method"], path)
            return Response(await self._answer(call, scope, receive), media_type="application/json")
        except HeadraceError as error:
            code = status_code(error)
            if code >= 500:
                _log.error("%s %s failed", scope["method"], path, exc_info=error)
            return _json_response(code, {"error": _encodable(str(error))})
        except Exception as error:
            _log.error("%s %s failed", scope["method"], path, exc_info=error)
            return _json_response(500, {"error": f"internal error: {type(error).__name__}; the server's log has more"})

    async def _answer(self, call: Call, scope: Scope, receive: Receive) -> bytes:
        if call.method is Method.STATUS:
            return self._server.status(call.spec)
        if call.method is Method.METADATA:
            return self._server.metadata(call.spec)
        headers = dict(scope["headers"])
        body = await read_body(receive, headers, self._max_request_bytes)
        encoding = headers.get(b"content-encoding", b"")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._predict, call, body, encoding)

    def _predict(self, call: Call, body: bytes, encoding: bytes) -> bytes:
        return self._server.predict(call.spec, decoded(body, encoding, self._max_request_bytes))


def _json_response(code: int, document: object) -> Response:
    return Response(orjson.dumps(document), code, media_type="application/json")


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which clients may send and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
