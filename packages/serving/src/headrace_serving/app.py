"""The HTTP adapter: a FastAPI application around a `ModelServer`.

The routes of both protocols stay out of FastAPI's routing and validation, which cost several times what a small
prediction does: they are one ASGI callable that answers whatever no other route takes, so that every answer, to unknown
paths as well, has the protocol's form. What a request needs beside the model is done in the event loop if its body is
small, for waking a thread costs more than that; big bodies go to threads of their own, so that they delay nobody.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar

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
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.batcher import Batcher
from headrace_serving.body import accepted_encoding, decoded, encoded, read_body
from headrace_serving.errors import (
    BadRequestError,
    ClientGoneError,
    EncodingError,
    MethodNotAllowedError,
    QueueFullError,
    QueueTimeoutError,
    RequestTooLargeError,
    UnauthenticatedError,
)
from headrace_serving.execution import Executor, Outputs, ThreadExecutor
from headrace_serving.json_tensor import dump_json
from headrace_serving.observation import Exchange, Observer
from headrace_serving.server import ModelServer, Prepared
from headrace_serving.urls import Call, Method, parse_url

__all__ = ["DEFAULT_MAX_REQUEST_BYTES", "create_app", "status_code"]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Headers = dict[bytes, bytes]

DEFAULT_MAX_REQUEST_BYTES = 64 << 20
_INLINE_BYTES = 16 << 10
_WORTH_ENCODING_BYTES = 1 << 10
_JSON_BYTES = b"inference-header-content-length"
_LONGEST_LENGTH = 18
_COMPUTED = (Method.PREDICT, Method.CLASSIFY, Method.REGRESS, Method.INFER)
_OPEN_TO_ALL = (Method.SERVER_LIVE, Method.SERVER_READY)
_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "Content-Type",
}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_RETRY_AFTER_SECONDS = "1"
DEFAULT_THREADS = 8
DEFAULT_REQUEST_TIMEOUT = 30.0
DEFAULT_MAX_CONCURRENCY = 1024
_STATUS_CODES: tuple[tuple[type[HeadraceError], int], ...] = (
    (RequestTooLargeError, 413),
    (UnauthenticatedError, 401),
    (MethodNotAllowedError, 405),
    (NotFoundError, 404),
    (UnimplementedError, 501),
    (AlreadyExistsError, 409),
    (AbortedError, 409),
    (CancelledError, 499),
    (UnavailableError, 503),
    (QueueTimeoutError, 429),
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


def create_app(
    server: ModelServer,
    *,
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES,
    threads: int = DEFAULT_THREADS,
    gzip: bool = False,
    batching: BatchingOptions | None = None,
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
    max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
    api_key: str | None = None,
    access_log: bool = False,
    cors: bool = False,
) -> FastAPI:
    """Return the ASGI application that serves a `ModelServer` over HTTP.

    Args:
      server: what answers.
      max_request_bytes: limit on a request's body, before and after inflating.
      threads: how many predictions may be computed at once.
      gzip: compress answers of TensorFlow Serving's routes too for clients that accept it; it never does.
      batching: how requests share calls of a model; None computes each by itself.
      request_timeout: seconds from a request's arrival to its answer.
      max_concurrency: how many requests to models may be in the server; more are refused.
      api_key: what clients must send as `Authorization: Bearer KEY` or `X-API-Key: KEY`, but for health routes; None
        for nothing.
      access_log: log each answer as a line of JSON by the logger `headrace_serving.access`.
      cors: let pages from elsewhere send requests, as TensorFlow Serving's option of this name does.

    Example:
      >>> from headrace_serving import ModelRepository, ModelServer
      >>> create_app(ModelServer(ModelRepository([]))).title
      'Headrace model server'
    """
    limits = _Limits(max_request_bytes, request_timeout, max_concurrency)
    key = None if api_key is None else api_key.encode()
    everything = _Everything(
        server, limits, threads, batching, gzip=gzip, api_key=key, access_log=access_log, cors=cors
    )
    app = _Application(everything)
    app.state.executor = everything.executor
    app.router.routes.append(Route("/{path:path}", everything))
    return app


class _Application(FastAPI):
    """A FastAPI application that hands the protocols' paths on before any of its own layers."""

    def __init__(self, everything: _Everything) -> None:
        super().__init__(title="Headrace model server", openapi_url=None, redirect_slashes=False)
        self._everything = everything

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(("/v1/", "/v2/")):
            await self._everything(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Limits:
    request_bytes: int
    seconds: float
    requests: int


class _Everything:
    """The ASGI callable for the routes of both protocols and for paths that nobody knows."""

    def __init__(
        self,
        server: ModelServer,
        limits: _Limits,
        threads: int,
        batching: BatchingOptions | None,
        *,
        gzip: bool,
        api_key: bytes | None,
        access_log: bool,
        cors: bool,
    ) -> None:
        self._cors = cors
        self._server = server
        self._limits = limits
        self._gzip = gzip
        self._api_key = api_key
        self._active = 0
        self._json = ThreadPoolExecutor(2, thread_name_prefix="headrace-serving-json")
        self.executor: Executor = (
            ThreadExecutor(threads) if batching is None else Batcher(batching, threads, observe=self._observe_batch)
        )
        self._observer = Observer(
            server.repository, access_log=access_log, active=lambda: self._active, waiting=self._waiting_rows
        )

    def _observe_batch(self, rows: int, padded: int) -> None:
        self._observer.batch(rows, padded)

    def _waiting_rows(self) -> int:
        return self.executor.waiting_rows if isinstance(self.executor, Batcher) else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.monotonic()
        path = scope["raw_path"].decode("latin-1")
        if scope["method"] == "OPTIONS" and _has_web_origin(scope):
            call, response = None, Response()
        else:
            call, response = await self._respond(scope, receive, path)
        if self._cors:
            response.headers.update(_CORS)
        await response(scope, receive, send)
        name = "" if call is None else call.spec.name
        self._observer.exchanged(
            Exchange(
                verb=scope["method"],
                path=path,
                api=call.method.value.capitalize() if call is not None and call.method in _COMPUTED else "",
                model=name if name in self._server.repository else "",
                code=response.status_code,
                seconds=time.monotonic() - start,
                answer_bytes=len(response.body),
                client=(scope.get("client") or ("",))[0],
            )
        )

    async def _respond(self, scope: Scope, receive: Receive, path: str) -> tuple[Call | None, Response]:
        call: Call | None = None
        try:
            call = parse_url(scope["method"], path)
            return call, await self._answer(call, scope, receive)
        except HeadraceError as error:
            code = status_code(error)
            if code >= 500 and not isinstance(error, UnavailableError):
                _log.error("%s %s failed", scope["method"], path, exc_info=error)
            return call, _error_response(error, code)
        except Exception as error:
            _log.error("%s %s failed", scope["method"], path, exc_info=error)
            what = f"internal error: {type(error).__name__}; the server's log has more"
            return call, _json_response(500, {"error": what})

    async def _answer(self, call: Call, scope: Scope, receive: Receive) -> Response:
        headers = dict(scope["headers"])
        if self._api_key is not None and call.method not in _OPEN_TO_ALL:
            _check_key(headers, self._api_key)
        if call.method in _COMPUTED:
            return await self._limited(call, headers, receive)
        match call.method:
            case Method.METRICS:
                return Response(self._observer.text(), media_type=_METRICS_TYPE)
            case Method.SERVER_READY:
                ready = self._server.ready
                return _json_response(200 if ready else 503, {"live": True, "ready": ready})
            case Method.INDEX | Method.LOAD | Method.UNLOAD:
                body = await self._manage(call, await read_body(receive, headers, self._limits.request_bytes))
            case Method.STATUS:
                body = self._server.status(call.spec)
            case Method.METADATA:
                body = self._server.metadata(call.spec)
            case Method.SERVER_METADATA:
                body = self._server.server_metadata()
            case Method.MODEL_NAMES:
                body = self._server.model_names()
            case Method.MODEL_METADATA:
                body = self._server.model_metadata(call.spec)
            case Method.MODEL_READY:
                body = self._server.model_ready(call.spec)
            case _:
                body = dump_json({"live": True, "ready": True})
        return Response(body, media_type="application/json")

    async def _manage(self, call: Call, body: bytes) -> bytes:
        if call.method is Method.INDEX:
            return await asyncio.to_thread(self._server.index, body)
        change = self._server.load if call.method is Method.LOAD else self._server.unload
        return await asyncio.to_thread(change, call.spec.name, body)

    async def _limited(self, call: Call, headers: Headers, receive: Receive) -> Response:
        if self._active >= self._limits.requests:
            raise QueueFullError(
                "the server has too much to do",
                expected=f"at most {self._limits.requests} requests at once",
                got="one more",
                hint="send the request again later; or start more servers, or one with a higher --max-concurrency",
            )
        self._active += 1
        try:
            return await self._computed(call, headers, receive)
        finally:
            self._active -= 1

    async def _computed(self, call: Call, headers: Headers, receive: Receive) -> Response:
        arrival = time.monotonic()
        try:
            async with asyncio.timeout(self._limits.seconds):
                body = await read_body(receive, headers, self._limits.request_bytes)
        except TimeoutError as error:
            raise _too_slow("the whole request", self._limits.seconds) from error
        prepared = await self._off_loop(_parsed_bytes(headers, body), self._prepare, call, headers, body)
        seconds = self._limits.seconds if prepared.timeout is None else min(prepared.timeout, self._limits.seconds)
        start = time.monotonic()
        outputs = await _outcome(self._submit(prepared, arrival + seconds), receive, arrival + seconds, seconds)
        self._observer.computed(call.spec.name, call.method.value.capitalize(), time.monotonic() - start)
        encodes = b"accept-encoding" in headers
        size = sum(y.nbytes for name, y in outputs.items() if encodes or name not in prepared.raw_outputs)
        return await self._off_loop(size, self._finish, call, headers, prepared, outputs)

    def _submit(self, prepared: Prepared, deadline: float) -> Future[Outputs]:
        try:
            future = self.executor.submit(replace(prepared.work, deadline=deadline))
        except BaseException:
            prepared.lease.release()
            raise
        future.add_done_callback(lambda _: prepared.lease.release())
        return future

    async def _off_loop(self, size: int, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """Call a function here if it has little to do, which is faster than waking a thread; else on a thread."""
        if size <= _INLINE_BYTES:
            return function(*arguments, **named)
        return await asyncio.get_running_loop().run_in_executor(self._json, partial(function, *arguments, **named))

    def _prepare(self, call: Call, headers: Headers, body: bytes) -> Prepared:
        plain = decoded(body, headers.get(b"content-encoding", b""), self._limits.request_bytes)
        if call.method is Method.PREDICT:
            return self._server.prepare_predict(call.spec, plain)
        if call.method is Method.CLASSIFY:
            return self._server.prepare_classify(call.spec, plain)
        if call.method is Method.REGRESS:
            return self._server.prepare_regress(call.spec, plain)
        return self._server.prepare_infer(call.spec, plain, _json_bytes(headers))

    def _finish(self, call: Call, headers: Headers, prepared: Prepared, outputs: Outputs) -> Response:
        answer = prepared.finish(outputs)
        extra = {} if answer.json_bytes is None else {_JSON_BYTES.decode(): str(answer.json_bytes)}
        body, encoding = answer.body, accepted_encoding(headers.get(b"accept-encoding", b""))
        if encoding is not None and (self._gzip or call.method is Method.INFER) and len(body) >= _WORTH_ENCODING_BYTES:
            body = encoded(body, encoding)
            extra["content-encoding"] = encoding.decode()
        return Response(
            body,
            headers=extra,
            media_type="application/octet-stream" if extra.get(_JSON_BYTES.decode()) else "application/json",
        )


def _has_web_origin(scope: Scope) -> bool:
    origin: bytes = dict(scope["headers"]).get(b"origin", b"")
    return origin.lower().startswith((b"http://", b"https://"))


def _check_key(headers: Headers, key: bytes) -> None:
    given = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
    if not hmac.compare_digest(given, key):  # takes as long wherever the first difference is
        raise UnauthenticatedError(
            "the key of the API is missing or wrong",
            expected="the server's key",
            got="another" if given else "none",
            hint="send the header 'X-API-Key: KEY' or 'Authorization: Bearer KEY'",
        )


async def _outcome(future: Future[Outputs], receive: Receive, deadline: float, seconds: float) -> Outputs:
    """Wait for outputs until the deadline, or until the client is gone; then they are not computed if not begun yet."""
    if future.done():
        return future.result()
    outputs = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(_disconnect(receive))
    await asyncio.wait(
        (outputs, gone), timeout=max(0.0, deadline - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
    )
    if outputs.done():
        gone.cancel()
        return outputs.result()
    queued = future.cancel()
    if gone.done():
        raise ClientGoneError(
            "the client went away before its answer was there",
            expected="a connection that stays open",
            got="its end",
            hint="grant the server more time",
        )
    gone.cancel()
    if queued:
        raise QueueTimeoutError(
            "Run() timeout exceeded while waiting in batching queue",
            expected=f"a free thread within {seconds:g} seconds",
            got="none",
            hint="grant the request more time, or start more servers",
        )
    raise _too_slow("an answer of the model", seconds)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_slow(what: str, seconds: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        "the request took too long",
        expected=f"{what} within {seconds:g} seconds of the request's arrival",
        got="none in time",
        hint="send less at a time, or start the server with a longer --request-timeout",
    )


def _parsed_bytes(headers: Headers, body: bytes) -> int:
    """Return how many bytes of a body must be looked at one by one: raw numbers need not be."""
    digits = headers.get(_JSON_BYTES, b"")
    if digits.isdigit() and len(digits) <= _LONGEST_LENGTH and b"content-encoding" not in headers:
        head = body[: int(digits)]
        if head and b"BYTES" not in head and b"\\" not in head:  # strings are; escapes could hide them
            return len(head)
    return len(body)


def _json_bytes(headers: Headers) -> int | None:
    text = headers.get(_JSON_BYTES)
    if text is None:
        return None
    if not text.isdigit() or len(text) > _LONGEST_LENGTH:
        raise BadRequestError(
            "the header Inference-Header-Content-Length is no length",
            expected="a number of bytes",
            got=text[:100].decode("latin-1"),
            hint="it counts the bytes of the JSON document, before any compression",
        )
    return int(text)


def _error_response(error: HeadraceError, code: int) -> Response:
    response = _json_response(code, {"error": _encodable(str(error))})
    if isinstance(error, EncodingError):
        response.headers["accept-encoding"] = "gzip, deflate"
    if code == 503:
        response.headers["retry-after"] = _RETRY_AFTER_SECONDS
    return response


def _json_response(code: int, document: object) -> Response:
    return Response(orjson.dumps(document), code, media_type="application/json")


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which clients may send and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()
