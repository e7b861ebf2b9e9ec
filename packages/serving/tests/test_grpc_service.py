"""gRPC, asked by a channel that knows only our messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace_serving import BatchingOptions, ModelConfig, ModelManager, ModelRepository, ModelServer, create_app
from headrace_serving.proto import open_inference_pb2 as messages
from headrace_serving.repository import ModelVersion

grpc = pytest.importorskip("grpc")

from headrace_serving.grpc_service import SERVICE, start_grpc  # noqa: E402  # needs the extra

X = np.array([[1, 2], [3, 4]], np.float32)


class Channel:
    """Calls the methods of a server by their names."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def call(self, name: str, request: Any, **options: Any) -> Any:
        """Call a method and return its answer."""
        answer = getattr(messages, type(request).__name__.replace("Request", "Response"))
        method = self.channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return method(request, **{"timeout": 30} | options)


@pytest.fixture(name="serve")
def _serve() -> Iterator[Callable[..., Channel]]:
    ends: list[Callable[[], None]] = []

    def serve(server: ModelServer, **options: Any) -> Channel:
        endpoint = create_app(server, **options).state.endpoint
        grpc_server, port = start_grpc(endpoint, "127.0.0.1", 0)
        channel = Channel(port)

        def end() -> None:
            channel.channel.close()
            grpc_server.stop(None).wait(30)
            endpoint.executor.close()

        ends.append(end)
        return channel

    yield serve
    for end in ends:
        end()


@pytest.fixture(name="half_server")
def _half_server(half: Any) -> ModelServer:
    return ModelServer(ModelRepository([ModelVersion("half", 2, half)]))


def infer(**more: Any) -> messages.ModelInferRequest:
    request = messages.ModelInferRequest(model_name="half", **more)
    request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
    request.inputs.add(name="n", datatype="INT64", shape=[2])
    request.raw_input_contents.extend([X.tobytes(), np.array([3, 4]).tobytes()])
    return request


@pytest.mark.parametrize("batching", [None, BatchingOptions(8)])
def test_infer(half_server: ModelServer, serve: Any, batching: BatchingOptions | None) -> None:
    channel = serve(half_server, batching=batching)
    for version in ("", "2"):
        answer = channel.call("ModelInfer", infer(model_version=version, id="q"))
        assert (answer.model_name, answer.model_version, answer.id) == ("half", "2", "q")
        assert [(output.name, list(output.shape)) for output in answer.outputs] == [("y", [2]), ("label", [2])]
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [1.5, 3.5]
    statistics = channel.call("ModelStatistics", messages.ModelStatisticsRequest(name="half"))
    assert statistics.model_stats[0].inference_stats.success.count == 2
    assert statistics.model_stats[0].inference_count == 4


def stream(channel: Channel, requests: Iterator[Any], **options: Any) -> Any:
    """Call the method that answers a stream of requests."""
    method = channel.channel.stream_stream(
        f"/{SERVICE}/ModelStreamInfer",
        request_serializer=messages.ModelInferRequest.SerializeToString,
        response_deserializer=messages.ModelStreamInferResponse.FromString,
    )
    return method(requests, **{"timeout": 30} | options)


@pytest.mark.parametrize("batching", [None, BatchingOptions(8)])
def test_a_stream_of_requests(half_server: ModelServer, serve: Any, batching: BatchingOptions | None) -> None:
    requests = [infer(id="a"), messages.ModelInferRequest(model_name="none", id="b"), infer(id="c")]
    first, wrong, last = stream(serve(half_server, batching=batching), iter(requests))
    for answer, name in ((first, "a"), (last, "c")):
        assert (answer.error_message, answer.infer_response.id) == ("", name)
        assert np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32).tolist() == [1.5, 3.5]
    assert ("unknown model: 'none'" in wrong.error_message, wrong.infer_response.id) == (True, "b")


def test_each_request_of_a_stream_is_answered_before_the_next_one_comes(half_server: ModelServer, serve: Any) -> None:
    gate: queue.Queue[Any] = queue.Queue()
    answers = stream(serve(half_server), iter(gate.get, None))
    for name in ("a", "b"):
        gate.put(infer(id=name))
        assert next(answers).infer_response.id == name
    gate.put(None)
    assert list(answers) == []


def test_streams_that_wait_leave_threads_for_others(half_server: ModelServer, serve: Any) -> None:
    channel = serve(half_server)
    gates: list[queue.Queue[Any]] = [queue.Queue() for _ in range(17)]
    streams = [stream(channel, iter(gate.get, None)) for gate in gates]
    for gate, answers in zip(gates[:16], streams, strict=False):
        gate.put(infer())
        next(answers)
    with pytest.raises(grpc.RpcError, match="too many streams") as caught:
        next(streams[16])
    error: Any = caught.value
    assert error.code().name == "UNAVAILABLE"
    assert channel.call("ModelInfer", infer()).model_name == "half"
    for gate in gates:
        gate.put(None)
    assert [list(answers) for answers in streams[:16]] == [[]] * 16
    assert len(list(stream(channel, iter([infer()])))) == 1


def test_a_stream_needs_the_key(half_server: ModelServer, serve: Any) -> None:
    channel = serve(half_server, api_key="secret")
    with pytest.raises(grpc.RpcError) as caught:
        list(stream(channel, iter([infer()])))
    error: Any = caught.value
    assert error.code().name == "UNAUTHENTICATED"
    assert len(list(stream(channel, iter([infer()]), metadata=[("x-api-key", "secret")]))) == 1


def test_what_the_server_tells(half_server: ModelServer, serve: Any) -> None:
    channel = serve(half_server)
    assert channel.call("ServerLive", messages.ServerLiveRequest()).live
    assert channel.call("ServerReady", messages.ServerReadyRequest()).ready
    assert channel.call("ModelReady", messages.ModelReadyRequest(name="half")).ready
    assert not channel.call("ModelReady", messages.ModelReadyRequest(name="none")).ready
    server = channel.call("ServerMetadata", messages.ServerMetadataRequest())
    assert server.name == "headrace-serving"
    assert "statistics" in server.extensions
    model = channel.call("ModelMetadata", messages.ModelMetadataRequest(name="half", version="2"))
    assert [(entry.name, entry.datatype, list(entry.shape)) for entry in model.inputs] == [
        ("x", "FP32", [-1, 2]),
        ("n", "INT64", [-1]),
    ]
    config = channel.call("ModelConfig", messages.ModelConfigRequest(name="half")).config
    assert (config.name, config.output[1].data_type) == ("half", messages.TYPE_STRING)


@pytest.mark.parametrize(
    ("name", "request_", "code", "text"),
    [
        ("ModelInfer", messages.ModelInferRequest(model_name="none"), "NOT_FOUND", "unknown model: 'none'"),
        ("ModelInfer", infer(model_version="1.5"), "INVALID_ARGUMENT", "Failed to convert version"),
        ("ModelInfer", infer(model_version="9"), "NOT_FOUND", "version 9 is not found"),
        ("ModelInfer", messages.ModelInferRequest(model_name="half"), "INVALID_ARGUMENT", "missing x, n"),
        ("ModelMetadata", messages.ModelMetadataRequest(name="none"), "NOT_FOUND", "unknown model"),
        ("ModelConfig", messages.ModelConfigRequest(name="none"), "NOT_FOUND", "unknown model"),
        ("RepositoryModelLoad", messages.RepositoryModelLoadRequest(model_name="half"), "UNIMPLEMENTED", "are fixed"),
    ],
)
def test_errors(half_server: ModelServer, serve: Any, name: str, request_: Any, code: str, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        serve(half_server).call(name, request_)
    error: Any = caught.value
    assert (error.code().name, text in error.details()) == (code, True)


def test_limits(half_server: ModelServer, serve: Any) -> None:
    channel = serve(half_server, max_request_bytes=1000)
    large = infer()
    large.raw_input_contents.append(bytes(2000))
    with pytest.raises(grpc.RpcError) as caught:
        channel.call("ModelInfer", large)
    error: Any = caught.value
    assert error.code().name == "RESOURCE_EXHAUSTED"
    assert channel.call("ModelInfer", infer()).model_name == "half"


def test_a_key(half_server: ModelServer, serve: Any) -> None:
    channel = serve(half_server, api_key="secret")
    assert channel.call("ServerLive", messages.ServerLiveRequest()).live
    for metadata in (None, [("x-api-key", "wrong")]):
        for name, request in (("ModelInfer", infer()), ("ModelReady", messages.ModelReadyRequest(name="half"))):
            with pytest.raises(grpc.RpcError) as caught:
                channel.call(name, request, metadata=metadata)
            error: Any = caught.value
            assert error.code().name == "UNAUTHENTICATED"
    for metadata in ([("x-api-key", "secret")], [("authorization", "Bearer secret")]):
        assert channel.call("ModelInfer", infer(), metadata=metadata).model_version == "2"


def test_deadlines_and_faults_of_the_model(make_signature: Any, serve: Any) -> None:
    free = threading.Event()

    def hold(x: Any) -> Any:
        if x[0] < 0:
            raise ZeroDivisionError("oops")
        assert free.wait(30)
        return {"y": x}

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, hold)
    model: Any = type("Model", (), {"signatures": {"serving_default": signature}})()
    channel = serve(ModelServer(ModelRepository([ModelVersion("half", 1, model)])), threads=1, request_timeout=0.2)

    def ask(value: float) -> Any:
        request = messages.ModelInferRequest(model_name="half")
        request.inputs.add(name="x", datatype="FP32", shape=[1])
        request.raw_input_contents.append(np.float32([value]).tobytes())
        with pytest.raises(grpc.RpcError) as caught:
            channel.call("ModelInfer", request)
        return caught.value

    assert ask(-1).code().name == "INTERNAL"
    assert ask(1).code().name == "DEADLINE_EXCEEDED"
    assert ask(1).code().name == "RESOURCE_EXHAUSTED"  # the first one still has the only thread
    free.set()


def test_the_repository(tmp_path: Path, half: Any, serve: Any) -> None:
    (tmp_path / "half" / "7").mkdir(parents=True)
    (tmp_path / "half" / "7" / "saved_model.pb").touch()
    repository = ModelRepository()
    manager = ModelManager(repository, lambda: {"half": ModelConfig(tmp_path / "half")}, lambda path: half)
    channel = serve(ModelServer(repository, manager=manager))
    channel.call("RepositoryModelLoad", messages.RepositoryModelLoadRequest(model_name="half"))
    (entry,) = channel.call("RepositoryIndex", messages.RepositoryIndexRequest(ready=True)).models
    assert (entry.name, entry.version, entry.state) == ("half", "7", "READY")
    channel.call("RepositoryModelUnload", messages.RepositoryModelUnloadRequest(model_name="half"))
    assert not channel.call("RepositoryIndex", messages.RepositoryIndexRequest(ready=True)).models


def test_a_port_that_is_taken(half_server: ModelServer, serve: Any) -> None:
    endpoint = create_app(half_server).state.endpoint
    first, port = start_grpc(endpoint, "127.0.0.1", 0)
    with pytest.raises(OSError, match="cannot listen on 127.0.0.1 port"):
        start_grpc(endpoint, "127.0.0.1", port)
    first.stop(None).wait(30)
