"""The clients that others wrote, against a server in a thread; each is left out where it is not installed."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn

import headrace as hr
from headrace_checkpoint import load_model, save_model
from headrace_serving import ModelConfig, ModelManager, ModelRepository, ModelServer, create_app
from headrace_serving.listen import listen, url_of

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # theirs
]


@pytest.fixture(name="address", scope="module")
def _address(served: tuple[str, Any]) -> str:
    return served[0]


@pytest.fixture(name="grpc_address", scope="module")
def _grpc_address(served: tuple[str, Any]) -> Iterator[str]:
    pytest.importorskip("grpc")
    from headrace_serving.grpc_service import start_grpc

    server, port = start_grpc(served[1], "127.0.0.1", 0)
    yield f"127.0.0.1:{port}"
    server.stop(None).wait(30)


@pytest.fixture(name="served", scope="module")
def _served_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    folder = tmp_path_factory.mktemp("models") / "m"
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        s = hr.placeholder(hr.string, [None], name="s")
        signature = hr.Signature(inputs={"x": x, "s": s}, outputs={"y": x * 0.5, "t": s})
    with hr.Session(graph) as session:
        save_model(folder / "3", session, {"serving_default": signature})
    yield from _served(folder)


def _served(folder: Path) -> Iterator[tuple[str, Any]]:
    repository = ModelRepository()
    manager = ModelManager(repository, lambda: {"m": ModelConfig(folder)}, load_model)
    manager.reload()
    app = create_app(ModelServer(repository, manager=manager))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url_of(listener).removeprefix("http://"), app.state.endpoint
        finally:
            server.should_exit = True
            thread.join()


X = np.array([[1, 2], [3, np.nan]], np.float32)
S = np.array([b"a", "é".encode()], object)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_tritonclient_infers(address: str, binary: bool, compression: str | None) -> None:
    triton = pytest.importorskip("tritonclient.http")
    with triton.InferenceServerClient(address) as client:
        inputs = [triton.InferInput("x", [2, 2], "FP32"), triton.InferInput("s", [2], "BYTES")]
        for entry, value in zip(inputs, (X, S), strict=True):
            entry.set_data_from_numpy(value, binary_data=binary)
        for outputs in (None, [triton.InferRequestedOutput(name, binary_data=binary) for name in ("t", "y")]):
            answer = client.infer(
                "m",
                inputs,
                outputs=outputs,
                request_id="q",
                request_compression_algorithm=compression,
                response_compression_algorithm=compression,
            )
            np.testing.assert_array_equal(answer.as_numpy("y"), X * np.float32(0.5), strict=True)
            assert [
                element if isinstance(element, bytes) else element.encode() for element in answer.as_numpy("t")
            ] == [
                b"a",
                "é".encode(),
            ]
            assert answer.get_response()["id"] == "q"


def test_tritonclient_asks_about_the_server(address: str) -> None:
    triton = pytest.importorskip("tritonclient.http")
    with triton.InferenceServerClient(address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("m")
        assert client.is_model_ready("m", "3")
        assert not client.is_model_ready("nil")
        assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
        assert client.get_model_metadata("m")["inputs"][0]["name"] == "s"
        client.unload_model("m")
        assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
        client.load_model("m")
        assert client.get_model_repository_index()[0]["state"] == "READY"


def test_tritonclient_understands_errors(address: str) -> None:
    triton = pytest.importorskip("tritonclient.http")
    exceptions: Any = pytest.importorskip("tritonclient.utils")
    with triton.InferenceServerClient(address) as client:
        wrong = triton.InferInput("x", [2, 2], "FP32")
        wrong.set_data_from_numpy(X)
        with pytest.raises(exceptions.InferenceServerException, match="expected 2 inputs but got 1: missing s"):
            client.infer("m", [wrong])
        with pytest.raises(exceptions.InferenceServerException, match="unknown model: 'nil'"):
            client.infer("nil", [wrong])


def test_tritonclient_asks_what_models_have_done(address: str) -> None:
    triton = pytest.importorskip("tritonclient.http")
    with triton.InferenceServerClient(address) as client:
        assert client.get_model_config("m")["max_batch_size"] == 0
        (entry,) = client.get_inference_statistics("m", "3")["model_stats"]
        assert entry["inference_stats"]["success"]["count"] >= 0
        assert [entry["name"] for entry in client.get_inference_statistics()["model_stats"]] == ["m"]


def test_tritonclient_over_grpc(grpc_address: str) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    exceptions: Any = pytest.importorskip("tritonclient.utils")
    with triton.InferenceServerClient(grpc_address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("m", "3")
        assert not client.is_model_ready("nil")
        assert "statistics" in client.get_server_metadata().extensions
        assert [entry.name for entry in client.get_model_metadata("m").inputs] == ["s", "x"]
        assert client.get_model_config("m").config.input[1].data_type == 11  # TYPE_FP32
        inputs = [triton.InferInput("x", [2, 2], "FP32"), triton.InferInput("s", [2], "BYTES")]
        for entry, value in zip(inputs, (X, S), strict=True):
            entry.set_data_from_numpy(value)
        answer = client.infer("m", inputs, request_id="q")
        np.testing.assert_array_equal(answer.as_numpy("y"), X * np.float32(0.5), strict=True)
        assert answer.as_numpy("t").tolist() == [b"a", "é".encode()]
        assert answer.get_response().id == "q"
        assert client.get_inference_statistics("m").model_stats[0].inference_count >= 2
        with pytest.raises(exceptions.InferenceServerException, match="expected 2 inputs but got 1: missing s"):
            client.infer("m", inputs[:1])
        answers: queue.Queue[Any] = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for some in (inputs, inputs[:1], inputs):
            client.async_stream_infer("m", some, request_id="s")
        for good in (True, False, True):
            result, error = answers.get(timeout=30)
            assert (error is None, "missing s" in str(error)) == (good, not good)
            if good:
                np.testing.assert_array_equal(result.as_numpy("y"), X * np.float32(0.5), strict=True)
        client.stop_stream()
        client.unload_model("m")
        assert client.get_model_repository_index().models[0].state == "UNAVAILABLE"
        client.load_model("m")
        assert client.get_model_repository_index().models[0].state == "READY"


def test_kserve_by_both_protocols(address: str) -> None:
    kserve = pytest.importorskip("kserve")
    inference = pytest.importorskip("kserve.inference_client")
    from kserve.protocol.infer_type import InferInput, InferRequest

    def requests(protocol: str, binary: bool) -> Any:
        if protocol == "v1":
            return {"instances": [{"x": [1, 2], "s": "a"}, {"x": [3, 4], "s": "b"}]}
        x = InferInput("x", [2, 2], "FP32")
        x.set_data_from_numpy(np.array([[1, 2], [3, 4]], np.float32), binary_data=binary)
        s = InferInput("s", [2], "BYTES")
        s.set_data_from_numpy(np.array([b"a", b"b"], object), binary_data=binary)
        return InferRequest("m", [x, s])

    async def ask(protocol: str, binary: bool) -> None:
        client = kserve.InferenceRESTClient(inference.RESTConfig(protocol=protocol, timeout=30))
        base = f"http://{address}"
        assert await client.is_server_live(base)
        assert await client.is_model_ready(base, "m")
        answer = await client.infer(base, requests(protocol, binary), model_name="m")
        if protocol == "v1":
            assert answer == {"predictions": [{"t": "a", "y": [0.5, 1.0]}, {"t": "b", "y": [1.5, 2.0]}]}
        else:
            assert await client.is_server_ready(base)
            found = {output.name: output.as_numpy() for output in answer.outputs}
            assert found["y"].tolist() == [[0.5, 1.0], [1.5, 2.0]]
        await client.close()

    for protocol, binary in (("v1", False), ("v2", False), ("v2", True)):
        asyncio.run(ask(protocol, binary))
