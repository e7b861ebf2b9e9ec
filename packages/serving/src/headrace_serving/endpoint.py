"""The routes of both protocols as one ASGI callable, which answers any path, so that every answer has their form.

What a request needs beside the model is done in the event loop if its body is small, for waking a thread costs more
than that; big bodies go to threads of their own, so that they delay nobody. A model that answers as soon is called in
the loop too.

Long, since it holds the way of a request from its first byte to its answer, which is read best in one place.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from starlette.types import Receive, Scope, Send

from headrace.errors import HeadraceError, UnavailableError
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.batcher import Batcher
from headrace_serving.body import accepted_encoding, decoded, encoded, read_body
from headrace_serving.codes import INTERNAL, OK, Code, code_of
from headrace_serving.errors import BadRequestError, EncodingError, QueueFullError, UnauthenticatedError
from headrace_serving.execution import Executor, Outputs, ThreadExecutor, Work
from headrace_serving.infer_answer import InferAnswer
from headrace_serving.json_tensor import dump_json
from headrace_serving.model_statistics import ModelStatistics, parts
from headrace_serving.observation import Exchange, Observer
from headrace_serving.protocol import PLACE, Place
from headrace_serving.repository import ModelSpec
from headrace_serving.server import ModelServer, Prepared
from headrace_serving.siblings import Siblings
from headrace_serving.urls import Call, Method, parse_url
from headrace_serving.waiting import Begun, Waiter, too_slow

_log = logging.getLogger(__name__)

Headers = dict[bytes, bytes]

_INLINE_BODY_BYTES = 16 << 10
_INLINE_OUTPUT_BYTES = 64 << 10
_WORTH_ENCODING_BYTES = 1 << 10
_REMEMBERED_CALLS = 1000
_JSON_BYTES = b"inference-header-content-length"
_LONGEST_LENGTH = 18
_COMPUTED = (Method.PREDICT, Method.CLASSIFY, Method.REGRESS, Method.INFER)
_OPEN_TO_ALL = (Method.SERVER_LIVE, Method.SERVER_READY)
_JSON = (b"content-type", b"application/json")
_BYTES = (b"content-type", b"application/octet-stream")
_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_CORS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"POST, GET"),
    (b"access-control-allow-headers", b"Content-Type"),
]
_METRICS, _STATISTICS = "metrics", "statistics"
_RETRY_AFTER = (b"retry-after", b"1")
_ACCEPT_ENCODING = (b"accept-encoding", b"gzip, deflate")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may take.

    Attributes:
      request_bytes: most bytes of a body, before and after inflating.
      seconds: from a request's arrival to its answer.
      requests: how many requests to models may be in the server.
    """

    request_bytes: int
    seconds: float
    requests: int


class _Request(NamedTuple):
    """What a client sends beside the path.

    Attributes:
      headers: names in lower case.
      receive: the ASGI channel.
      place: receives the body in given memory; None if the server cannot.
      arrival: when it came, on the monotonic clock.
    """

    headers: Headers
    receive: Receive
    place: Place | None
    arrival: float


class _Answer(NamedTuple):
    code: Code
    body: bytes
    headers: list[tuple[bytes, bytes]]  # but for the length


class Endpoint:
    """The ASGI callable for the routes of both protocols and for paths that nobody knows.

    Attributes:
      server: what answers.
      limits: what one request may take.
      api_key: what clients must send; None for nothing.
      batching: how requests share calls of a model.
      executor: computes the outputs.
      observer: counts what happens.
      siblings: the other processes of this server; None if there are none.

    Args:
      server: what answers.
      limits: what one request may take.
      threads: how many predictions may be computed at once.
      batching: how requests share calls of a model; None computes each by itself.
      gzip: compress answers of TensorFlow Serving's routes too.
      api_key: what clients must send; None for nothing.
      access_log: log each answer.
      cors: let pages from elsewhere send requests.
    """

    def __init__(
        self,
        server: ModelServer,
        limits: Limits,
        threads: int,
        batching: BatchingOptions | None,
        *,
        gzip: bool,
        api_key: bytes | None,
        access_log: bool,
        cors: bool,
    ) -> None:
        self.server = server
        self.siblings: Siblings | None = None
        self.limits = limits
        self._gzip = gzip
        self.api_key = api_key
        self._cors = _CORS if cors else []
        self._access_log = access_log
        self._active = 0
        self._calls: dict[tuple[str, bytes], Call] = {}
        self._json = ThreadPoolExecutor(2, thread_name_prefix="headrace-serving-json")
        # One thread, for models are loaded one at a time, and each thread that loads keeps memory of its own for it.
        self._management = ThreadPoolExecutor(1, thread_name_prefix="headrace-serving-management")
        self._waiter = Waiter()
        self.batching = batching
        self.executor: Executor = (
            ThreadExecutor(threads, self._called)
            if batching is None
            else Batcher(batching, threads, observe=self._called)
        )
        self.executor.settled = self._waiter.wake
        self.observer = Observer(server.repository, active=lambda: self._active, waiting=self._waiting_rows)
        self._prepare: dict[Method, Callable[[ModelSpec, bytes | memoryview], Prepared[InferAnswer]]] = {
            Method.PREDICT: server.prepare_predict,
            Method.CLASSIFY: server.prepare_classify,
            Method.REGRESS: server.prepare_regress,
        }

    def _called(self, work: Work, rows: int, padded: int, seconds: float) -> None:
        self.server.statistics.called(*work.model, padded, seconds)
        if self.batching is not None:
            self.observer.batch(rows, padded)

    def _waiting_rows(self) -> int:
        return self.executor.waiting_rows if isinstance(self.executor, Batcher) else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        start = time.monotonic()
        verb, path = scope["method"], scope["raw_path"]
        call: Call | None = None
        headers = dict(scope["headers"])
        try:
            call = self._calls.get((verb, path)) or self._parsed(verb, path, headers)
            place = scope["extensions"].get(PLACE) if "extensions" in scope else None
            answer = await self._answer(call, _Request(headers, receive, place, start))
        except _WebOriginAsked:
            answer = _Answer(OK, b"", [])
        except HeadraceError as error:
            code = code_of(error)
            if code.http >= 500 and not isinstance(error, UnavailableError):
                _log.error("%s %s failed", verb, path.decode("latin-1"), exc_info=error)
            answer = _error_answer(error, code)
        except Exception as error:
            _log.error("%s %s failed", verb, path.decode("latin-1"), exc_info=error)
            what = f"internal error: {type(error).__name__}; the server's log has more"
            answer = _Answer(INTERNAL, orjson.dumps({"error": what}), [_JSON])
        code, body, own = answer
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": code.http, "headers": [*own, length, *self._cors]})
        await send({"type": "http.response.body", "body": body})
        seconds = time.monotonic() - start
        model = call.spec.name if call is not None and call.spec.name in self.server.repository else ""
        self.observer.answered(code, seconds, "" if call is None else call.api, model, "REST")
        if self._access_log:
            client = (scope.get("client") or ("",))[0]
            self.observer.log(Exchange(verb, path.decode("latin-1"), model, code.http, seconds, len(body), client))

    def _parsed(self, verb: str, path: bytes, headers: Headers) -> Call:
        if verb == "OPTIONS" and headers.get(b"origin", b"").lower().startswith((b"http://", b"https://")):
            raise _WebOriginAsked
        call = parse_url(verb, path.decode("latin-1"))
        if call.spec.name in self.server.repository:  # names that clients make up are not worth remembering
            if len(self._calls) >= _REMEMBERED_CALLS:
                self._calls.clear()
            self._calls[verb, path] = call
        return call

    async def _answer(self, call: Call, request: _Request) -> _Answer:
        if self.api_key is not None and call.method not in _OPEN_TO_ALL:
            _check_key(request.headers, self.api_key)
        if call.method in _COMPUTED:
            return await self._limited(call, request)
        server = self.server
        match call.method:
            case Method.METRICS:
                return _Answer(OK, await self._metrics(), [_TEXT])
            case Method.SERVER_READY:
                code = OK if server.ready else _NOT_READY
                return _Answer(code, dump_json({"live": True, "ready": server.ready}), [_JSON])
            case Method.INDEX | Method.LOAD | Method.UNLOAD:
                body = await self._manage(call, bytes(await self._body(request)))
            case Method.STATUS:
                body = server.status(call.spec)
            case Method.METADATA:
                body = server.metadata(call.spec)
            case Method.SERVER_METADATA:
                body = server.server_metadata()
            case Method.MODEL_NAMES:
                body = server.model_names()
            case Method.MODEL_METADATA:
                body = server.model_metadata(call.spec)
            case Method.MODEL_READY:
                body = server.model_ready(call.spec)
            case Method.STATISTICS:
                body = await self._statistics(call.spec)
            case Method.CONFIG:
                body = server.model_config(call.spec, self.batching)
            case _:
                body = dump_json({"live": True, "ready": True})
        return _Answer(OK, body, [_JSON])

    async def _manage(self, call: Call, body: bytes) -> bytes:
        if call.method is Method.INDEX:
            return await asyncio.to_thread(self.server.index, body)
        change = self.server.load if call.method is Method.LOAD else self.server.unload
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._management, change, call.spec.name, body)
        await self._others(call.method.value, call.spec.name)
        return answer

    async def _others(self, what: str, about: str = "") -> list[Any]:
        return [] if self.siblings is None else await asyncio.to_thread(self.ask_others, what, about)

    def ask_others(self, what: str, about: str = "") -> list[Any]:
        """Return the answers of the other processes of this server; may take as long as they do.

        Args:
          what: see `respond`.
          about: name of the model that is meant, if any.
        """
        answers = [] if self.siblings is None else self.siblings.ask(what, about)
        return [answer for answer in answers if answer is not None]

    def counts(self) -> dict[str, object]:
        """Return what has been counted, in answers to other processes by what they ask."""
        return {
            _METRICS: [[(labels, numbers) for labels, numbers in state.items()] for state in self.observer.counts()],
            _STATISTICS: self.server.statistics.state(),
        }

    async def _metrics(self) -> bytes:
        others = await self._others(_METRICS)
        text = self.observer.text(
            [[{tuple(labels): numbers for labels, numbers in state} for state in states] for states in others]
        )
        await asyncio.to_thread(self._keep_counts)
        return text

    async def _statistics(self, spec: ModelSpec) -> bytes:
        others = await self._others(_STATISTICS)
        return self.server.model_statistics(spec, await asyncio.to_thread(self.together, others))

    def together(self, others: list[Any]) -> ModelStatistics:
        """Return the sums of this process's statistics and those of others."""
        sums = ModelStatistics()
        for state in (self.server.statistics.state(), *others):
            sums.add(state)
        self._keep_counts()
        return sums

    def _keep_counts(self) -> None:
        """Write down what somebody is told next, so that it is never less, whatever becomes of this process."""
        if self.siblings is not None:
            self.siblings.keep()

    def respond(self, what: str, about: str) -> object:
        """Answer another process of this server.

        Args:
          what: what it asks.
          about: name of the model that it means, if any.
        """
        match what:
            case "load":
                return self.server.load(about, b"").decode()
            case "unload":
                return self.server.unload(about, b"").decode()
            case "statistics":
                found: object = self.server.statistics.state()
            case _:
                found = [[(labels, numbers) for labels, numbers in state.items()] for state in self.observer.states()]
        self._keep_counts()
        return found

    async def _body(self, request: _Request, lead: int | None = None) -> bytes | memoryview:
        try:
            limit = self.limits.request_bytes
            reading = Begun(read_body(request.receive, request.headers, limit, lead, request.place))
            if reading.done:  # as most are, and a timer costs more than to read them
                return reading.result()
            async with asyncio.timeout(self.limits.seconds):
                return await reading
        except TimeoutError as error:
            raise too_slow("the whole request", self.limits.seconds) from error

    async def _limited(self, call: Call, request: _Request) -> _Answer:
        if self._active >= self.limits.requests:
            raise QueueFullError(
                "the server has too much to do",
                expected=f"at most {self.limits.requests} requests at once",
                got="one more",
                hint="send the request again later; or start more servers, or one with a higher --max-concurrency",
            )
        self._active += 1
        try:
            return await self._computed(call, request)
        finally:
            self._active -= 1

    async def _computed(self, call: Call, request: _Request) -> _Answer:
        headers, arrival = request.headers, request.arrival
        json_bytes = _json_bytes(headers) if call.method is Method.INFER and _JSON_BYTES in headers else None
        body = await self._body(request, json_bytes)
        loop = asyncio.get_running_loop()
        encoding = headers.get(b"content-encoding")
        if _parsed_bytes(body, json_bytes, encoding) <= _INLINE_BODY_BYTES:
            prepared = self._checked(call, body, json_bytes, encoding)
        else:
            prepared = await loop.run_in_executor(self._json, self._checked, call, body, json_bytes, encoding)
        work, start = prepared.work, time.monotonic()
        try:
            outputs = await self._outputs(prepared, request)
        except BaseException:
            self.server.statistics.answered(*work.model, {"fail": time.monotonic() - arrival})
            raise
        end = time.monotonic()
        self.observer.computed(call.spec.name, call.api, end - start)
        encodes = b"accept-encoding" in headers
        size = sum(y.nbytes for name, y in outputs.items() if encodes or name not in prepared.raw_outputs)
        if size <= _INLINE_OUTPUT_BYTES:
            answer = self._finish(call, headers, prepared, outputs)
        else:
            answer = await loop.run_in_executor(self._json, self._finish, call, headers, prepared, outputs)
        times = parts(arrival, start, work.started, end, time.monotonic())
        self.server.statistics.answered(*work.model, times)
        return answer

    def _checked(
        self, call: Call, body: bytes | memoryview, json_bytes: int | None, encoding: bytes | None
    ) -> Prepared[InferAnswer]:
        plain = body if encoding is None else decoded(body, encoding, self.limits.request_bytes)
        if call.method is Method.INFER:
            return self.server.prepare_infer(call.spec, plain, json_bytes)
        return self._prepare[call.method](call.spec, plain)

    async def _outputs(self, prepared: Prepared[InferAnswer], request: _Request) -> Outputs:
        seconds = self.limits.seconds if prepared.timeout is None else min(prepared.timeout, self.limits.seconds)
        prepared.work.deadline = deadline = request.arrival + seconds
        try:
            outputs = self.executor.compute_if_short(prepared.work)
            if outputs is not None:
                prepared.lease.release()
                return outputs
            future = self.executor.submit(prepared.work)
        except BaseException:
            prepared.lease.release()
            raise
        future.add_done_callback(prepared.give_back)
        return await self._waiter.outcome(future, request.receive, deadline, seconds)

    def _finish(self, call: Call, headers: Headers, prepared: Prepared[InferAnswer], outputs: Outputs) -> _Answer:
        answer = prepared.finish(outputs)
        body, json_bytes = answer.body, answer.json_bytes
        own = [_JSON] if json_bytes is None else [_BYTES, (_JSON_BYTES, b"%d" % json_bytes)]
        accepted = headers.get(b"accept-encoding")
        if (
            accepted is not None
            and (self._gzip or call.method is Method.INFER)
            and len(body) >= _WORTH_ENCODING_BYTES
            and (encoding := accepted_encoding(accepted)) is not None
        ):
            body = encoded(body, encoding)
            own.append((b"content-encoding", encoding))
        return _Answer(OK, body, own)


class _WebOriginAsked(Exception):
    """A page asks whether it may send requests."""


_NOT_READY = Code("UNAVAILABLE", 503, 14)


def _check_key(headers: Headers, key: bytes) -> None:
    given = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
    if not hmac.compare_digest(given, key):  # takes as long wherever the first difference is
        raise UnauthenticatedError(
            "the key of the API is missing or wrong",
            expected="the server's key",
            got="another" if given else "none",
            hint="send the header 'X-API-Key: KEY' or 'Authorization: Bearer KEY'",
        )


def _parsed_bytes(body: bytes | memoryview, json_bytes: int | None, encoding: bytes | None) -> int:
    """Return how many bytes of a body must be looked at one by one: raw numbers need not be."""
    if json_bytes and encoding is None:
        head = bytes(body[:json_bytes])
        if b"BYTES" not in head and b"\\" not in head:  # strings are; escapes could hide them
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


def _error_answer(error: HeadraceError, code: Code) -> _Answer:
    headers = [_JSON]
    if isinstance(error, EncodingError):
        headers.append(_ACCEPT_ENCODING)
    if code.http == 503:
        headers.append(_RETRY_AFTER)
    # Clients may send lone surrogates, which UTF-8 cannot hold.
    return _Answer(code, orjson.dumps({"error": str(error).encode("utf-8", "replace").decode()}), headers)
