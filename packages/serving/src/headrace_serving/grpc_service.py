"""The gRPC adapter: `inference.GRPCInferenceService` of the Open Inference Protocol. Needs the extra `grpc`.

Each call has a thread of its own, which checks the request and waits for the executor that HTTP's requests share.
"""

from __future__ import annotations

import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import orjson
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from headrace.errors import HeadraceError, UnavailableError
from headrace_serving.codes import INTERNAL, OK, Code, code_of
from headrace_serving.endpoint import Endpoint
from headrace_serving.errors import BadRequestError, ClientGoneError, QueueFullError, UnauthenticatedError
from headrace_serving.execution import Outputs
from headrace_serving.model_statistics import parts
from headrace_serving.proto import open_inference_pb2 as messages
from headrace_serving.repository import MAX_VERSION, ModelSpec
from headrace_serving.server import Prepared
from headrace_serving.waiting import too_slow, waited_too_long

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
_Context = Any
"""`grpc.ServicerContext`, which has no types."""

SERVICE = "inference.GRPCInferenceService"
_OPEN_TO_ALL = ("ServerLive", "ServerReady")
_STATUSES = {status.value[0]: status for status in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server shows to prove who it is.

    Attributes:
      chain: its certificate and those above it, in PEM.
      key: its private key, in PEM.
    """

    chain: bytes
    key: bytes


def start_grpc(
    endpoint: Endpoint,
    host: str,
    port: int,
    *,
    threads: int = 32,
    certificate: Certificate | None = None,
    shared_port: bool = False,
) -> tuple[Any, int]:
    """Serve what an endpoint serves over gRPC too, on threads of its own.

    Args:
      endpoint: tells the models, the limits and the key, and counts.
      host: address to listen on.
      port: 0 for any free one.
      threads: how many calls may be in progress.
      certificate: for TLS; None for none.
      shared_port: whether other processes may listen on the same port.
    Returns:
      the `grpc.Server`, to be stopped by `stop(grace)`, and its port.
    Raises:
      OSError: the address cannot be had.
    """
    limits = endpoint.limits
    server = grpc.server(
        futures.ThreadPoolExecutor(threads, thread_name_prefix="headrace-serving-grpc"),
        maximum_concurrent_rpcs=limits.requests,
        options=[
            ("grpc.max_receive_message_length", limits.request_bytes),
            ("grpc.max_send_message_length", -1),
            (
                "grpc.so_reuseport",
                int(shared_port),
            ),  # else a port may be taken twice
        ],
    )
    service = _Service(endpoint, most_streams=max(1, threads // 2))  # which wait; the others must go on
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, service.handlers()),))
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if certificate is None:
            bound = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials([(certificate.key, certificate.chain)])
            bound = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(f"cannot listen on {host} port {port} for gRPC; 0 is any free port") from error
    server.start()
    return server, bound


class _Service:
    def __init__(self, endpoint: Endpoint, most_streams: int) -> None:
        self._endpoint = endpoint
        self._server = endpoint.server
        self._most_streams = most_streams
        self._streams = threading.Semaphore(most_streams)

    def handlers(self) -> dict[str, Any]:
        """Return gRPC's handler of each method."""
        server = self._server
        methods: dict[str, tuple[type[Message], Callable[[Any], Message]]] = {
            "ServerLive": (messages.ServerLiveRequest, lambda _: messages.ServerLiveResponse(live=True)),
            "ServerReady": (messages.ServerReadyRequest, lambda _: messages.ServerReadyResponse(ready=server.ready)),
            "ModelReady": (messages.ModelReadyRequest, self._model_ready),
            "ServerMetadata": (
                messages.ServerMetadataRequest,
                lambda _: _filled(messages.ServerMetadataResponse(), server.server_metadata()),
            ),
            "ModelMetadata": (
                messages.ModelMetadataRequest,
                lambda request: _filled(
                    messages.ModelMetadataResponse(), server.model_metadata(_spec(request.name, request.version))
                ),
            ),
            "ModelConfig": (messages.ModelConfigRequest, self._model_config),
            "ModelStatistics": (messages.ModelStatisticsRequest, self._statistics),
            "RepositoryIndex": (messages.RepositoryIndexRequest, self._index),
            "RepositoryModelLoad": (messages.RepositoryModelLoadRequest, self._load),
            "RepositoryModelUnload": (messages.RepositoryModelUnloadRequest, self._unload),
        }
        handlers = {name: self._handler(name, kind, method) for name, (kind, method) in methods.items()}
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(
            self._infer,
            request_deserializer=messages.ModelInferRequest.FromString,
            response_serializer=messages.ModelInferResponse.SerializeToString,
        )
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._stream,
            request_deserializer=messages.ModelInferRequest.FromString,
            response_serializer=messages.ModelStreamInferResponse.SerializeToString,
        )
        return handlers

    def _handler(self, name: str, kind: type[Message], method: Callable[[Any], Message]) -> Any:
        def handle(request: Any, context: _Context) -> Message:
            try:
                if name not in _OPEN_TO_ALL:
                    self._check_key(context)
                return method(request)
            except Exception as error:
                raise self._abort(error, context, name) from error

        return grpc.unary_unary_rpc_method_handler(
            handle, request_deserializer=kind.FromString, response_serializer=lambda answer: answer.SerializeToString()
        )

    def _check_key(self, context: _Context) -> None:
        if self._endpoint.api_key is None:
            return
        sent = dict(context.invocation_metadata())
        given = str(sent.get("x-api-key") or sent.get("authorization", "").removeprefix("Bearer "))
        if not hmac.compare_digest(given.encode(), self._endpoint.api_key):
            raise UnauthenticatedError(
                "the key of the API is missing or wrong",
                expected="the server's key",
                got="another" if given else "none",
                hint="send the metadata 'x-api-key: KEY' or 'authorization: Bearer KEY'",
            )

    def _abort(self, error: Exception, context: _Context, name: str) -> Exception:
        """Answer an error; returns it only for the type checker, since `abort` raises."""
        code, text = _told(error, name)
        context.abort(_STATUSES[code.grpc], text)
        return error

    def _infer(self, request: messages.ModelInferRequest, context: _Context) -> Message:
        call = _Call(context)
        try:
            self._check_key(context)
            return self._answer(request, call)
        except Exception as error:
            raise self._abort(error, context, "ModelInfer") from error

    def _stream(
        self, requests: Iterator[messages.ModelInferRequest], context: _Context
    ) -> Iterator[messages.ModelStreamInferResponse]:
        """Answer requests one after the other; what is wrong with one of them ends none of the others."""
        if not self._streams.acquire(blocking=False):
            raise self._abort(_too_many_streams(self._most_streams), context, "ModelStreamInfer")
        try:
            try:
                self._check_key(context)
            except HeadraceError as error:
                raise self._abort(error, context, "ModelStreamInfer") from error
            call = _Call(context)
            for request in requests:
                try:
                    yield messages.ModelStreamInferResponse(infer_response=self._answer(request, call))
                except Exception as error:
                    _, text = _told(error, "ModelStreamInfer")
                    empty = messages.ModelInferResponse(id=request.id)  # tells which request it is about
                    yield messages.ModelStreamInferResponse(error_message=text, infer_response=empty)
        finally:
            self._streams.release()

    def _answer(self, request: messages.ModelInferRequest, call: _Call) -> messages.ModelInferResponse:
        arrival = time.monotonic()
        code, model = OK, ""
        try:
            spec = _spec(request.model_name, request.model_version)
            model = spec.name if spec.name in self._server.repository else ""
            prepared = self._server.prepare_message(spec, request)
            return self._computed(prepared, call, arrival)
        except Exception as error:
            code = code_of(error) if isinstance(error, HeadraceError) else INTERNAL
            raise
        finally:
            self._endpoint.observer.answered(code, time.monotonic() - arrival, "Infer", model, "GRPC")

    def _computed(self, prepared: Prepared[M], call: _Call, arrival: float) -> M:
        work, statistics, submitted = prepared.work, self._server.statistics, time.monotonic()
        granted = (self._endpoint.limits.seconds, prepared.timeout, call.context.time_remaining())
        seconds = min(limit for limit in granted if limit is not None)
        work.deadline = arrival + seconds
        try:
            outputs = self._outputs(prepared, call, seconds)
        except BaseException:
            statistics.answered(*work.model, {"fail": time.monotonic() - arrival})
            raise
        computed = time.monotonic()
        self._endpoint.observer.computed(work.model[0], "Infer", computed - submitted)
        answer = prepared.finish(outputs)
        statistics.answered(*work.model, parts(arrival, submitted, work.started, computed, time.monotonic()))
        return answer

    def _outputs(self, prepared: Prepared[M], call: _Call, seconds: float) -> Outputs:
        try:
            short = self._endpoint.executor.compute_if_short(prepared.work)
            if short is not None:
                prepared.lease.release()
                return short
            future = self._endpoint.executor.submit(prepared.work)
        except BaseException:
            prepared.lease.release()
            raise
        future.add_done_callback(prepared.give_back)
        call.wait_for(future)
        try:
            return future.result(seconds)
        except futures.TimeoutError as error:
            raise (waited_too_long(seconds) if future.cancel() else too_slow("an answer", seconds)) from error
        except futures.CancelledError as error:
            raise ClientGoneError("the client went away before its answer was there") from error

    def _model_ready(self, request: messages.ModelReadyRequest) -> Message:
        try:
            self._server.model_ready(_spec(request.name, request.version))
        except HeadraceError:
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=True)

    def _model_config(self, request: messages.ModelConfigRequest) -> Message:
        config = self._server.model_config(_spec(request.name, request.version), self._endpoint.batching)
        return messages.ModelConfigResponse(config=_filled(messages.ModelConfig(), config))

    def _index(self, request: messages.RepositoryIndexRequest) -> Message:
        entries = orjson.loads(self._server.index(orjson.dumps({"ready": request.ready})))
        return messages.RepositoryIndexResponse(
            models=[messages.RepositoryIndexResponse.ModelIndex(**entry) for entry in entries]
        )

    def _statistics(self, request: messages.ModelStatisticsRequest) -> Message:
        sums = self._endpoint.together(self._endpoint.ask_others("statistics"))
        document = self._server.model_statistics(_spec(request.name, request.version), sums)
        return _filled(messages.ModelStatisticsResponse(), document)

    def _load(self, request: messages.RepositoryModelLoadRequest) -> Message:
        self._server.load(request.model_name, orjson.dumps({"parameters": dict.fromkeys(request.parameters, "")}))
        self._endpoint.ask_others("load", request.model_name)
        return messages.RepositoryModelLoadResponse()

    def _unload(self, request: messages.RepositoryModelUnloadRequest) -> Message:
        self._server.unload(request.model_name, b"")
        self._endpoint.ask_others("unload", request.model_name)
        return messages.RepositoryModelUnloadResponse()


class _Call:
    """A call, which may be for many requests, and the one of them that is being computed. Mutable."""

    def __init__(self, context: _Context) -> None:
        self.context = context
        self._future: futures.Future[Outputs] | None = None
        context.add_callback(self._cancel)

    def wait_for(self, future: futures.Future[Outputs]) -> None:
        """Let the client's going away cancel a future, in the place of the one before."""
        self._future = future
        if not self.context.is_active():
            future.cancel()

    def _cancel(self) -> None:
        if self._future is not None:
            self._future.cancel()


def _told(error: Exception, name: str) -> tuple[Code, str]:
    """Return the code and text of an error, and log it if it is a fault of ours."""
    code = code_of(error) if isinstance(error, HeadraceError) else INTERNAL
    if code.http >= 500 and not isinstance(error, UnavailableError):
        _log.error("%s failed", name, exc_info=error)
    return code, str(error) if isinstance(error, HeadraceError) else f"internal error: {type(error).__name__}"


def _too_many_streams(most: int) -> QueueFullError:
    return QueueFullError(
        "the server has too many streams",
        expected=f"at most {most} at once",
        got="one more",
        hint="send several requests by one stream, or by ModelInfer",
    )


def _filled(message: M, document: bytes) -> M:
    return ParseDict(orjson.loads(document), message)


def _spec(name: str, version: str) -> ModelSpec:
    if not version:
        return ModelSpec(name)
    if not (version.isascii() and version.isdigit()) or len(version) > len(str(MAX_VERSION)):
        raise BadRequestError(f"Failed to convert version: {version[:40]} to numeric.")
    return ModelSpec(name, int(version))
