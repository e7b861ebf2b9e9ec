"""HTTP: codes, forms and limits, asked of the application itself."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import orjson
import pytest

from headrace import errors
from headrace.types import Array
from headrace_serving.app import create_app
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.body import decoded, encoded
from headrace_serving.repository import ModelRepository, ModelVersion
from headrace_serving.server import ModelServer

GOOD = b'{"instances": [{"x": [1, 2], "n": 3}]}'
PREDICT = "/v1/models/half:predict"


@dataclass(frozen=True)
class Answer:
    """A response."""

    code: int
    body: bytes
    headers: dict[bytes, bytes]

    @property
    def json(self) -> Any:
        """The body, read as strict JSON."""
        return orjson.loads(self.body)


class Client:
    """Asks an ASGI application."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, verb: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request and return the whole answer."""
        return asyncio.run(self.ask(verb, path, body, headers))

    async def ask(
        self, verb: str, path: str, body: bytes, headers: dict[str, str], gone: asyncio.Event | None = None
    ) -> Answer:
        """Send a request; the client goes away at an event."""
        sent: list[MutableMapping[str, Any]] = []
        scope = {
            "type": "http",
            "method": verb,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }

        unread = [body]

        async def receive() -> MutableMapping[str, Any]:
            if not unread:
                await (gone or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": unread.pop()}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *rest = sent
        return Answer(start["status"], b"".join(part.get("body", b"") for part in rest), dict(start["headers"]))


@pytest.fixture(name="client")
def _client(half: Any) -> Client:
    return Client(create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), max_request_bytes=1000))


def test_predict_status_metadata(client: Client) -> None:
    answer = client("POST", PREDICT, GOOD)
    assert (answer.code, answer.json) == (200, {"predictions": [{"y": 1.5, "label": "30"}]})
    assert answer.headers[b"content-type"] == b"application/json"
    assert client("POST", "/v1/models/half/versions/2:predict", GOOD).body == answer.body
    assert client("POST", PREDICT, gzip.compress(GOOD), content_encoding="gzip").body == answer.body
    assert client("GET", "/v1/models/half").json["model_version_status"][0]["state"] == "AVAILABLE"
    assert client("GET", "/v1/models/half/versions/2/metadata").json["model_spec"]["version"] == "2"


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready"])
def test_health(client: Client, path: str) -> None:
    answer = client("GET", path)
    assert (answer.code, answer.json) == (200, {"live": True, "ready": True})


@pytest.mark.parametrize(
    ("verb", "path", "body", "code", "message"),
    [
        ("POST", PREDICT, b"", 400, "JSON Parse error: The document is empty"),
        ("POST", PREDICT, b'{"instances": [1.]}', 400, "JSON Parse error"),
        ("POST", PREDICT, b"[" * 900, 400, "JSON Parse error"),
        ("POST", PREDICT, b'{"inputs": {"x": [[1, 2]], "n": [1.5]}}', 400, "JSON Value: 1.5 Type: Number is not of"),
        (
            "POST",
            PREDICT,
            b'{"inputs": {"x": [[1, 2]], "n": ["\\ud800NaN"]}, "a": NaN}',
            400,
            'JSON Value: "?NaN" Type',
        ),
        ("POST", PREDICT, b'{"signature_name": "z", "inputs": 1}', 400, 'Serving signature name: "z" not found'),
        ("POST", PREDICT, b" " * 1001, 413, "the request is too large"),
        ("GET", PREDICT, b"", 400, "Malformed request: GET /v1/models/half:predict"),
        ("PUT", PREDICT, b"", 400, "Malformed request: PUT"),
        ("POST", "/v1/models/half/metadata", b"", 400, "Malformed request: POST"),
        ("GET", "/v1/models/half/version/5", b"", 400, "Malformed request: GET"),
        ("GET", "/v1/models", b"", 400, "Missing model name in request."),
        ("GET", f"/v1/models/half/versions/{2**63}", b"", 400, "Failed to convert version: "),
        ("POST", "/v1/models/nil:predict", GOOD, 404, "Servable not found for request: Latest(nil)"),
        ("POST", "/v1/models/half/versions/9:predict", GOOD, 404, "Servable not found for request: Specific(half, 9)"),
        ("GET", "/v1/models/nil", b"", 404, "Could not find any versions of model nil"),
        ("GET", "/v1/models/nil/metadata", b"", 404, "Servable not found for request: Latest(nil)"),
        ("POST", "/v1/models/half/labels/a:predict", GOOD, 400, "Unrecognized servable version label: a"),
        ("GET", "/none", b"", 404, "Not Found: /none"),
        ("GET", "/v2/model", b"", 404, "Not Found: /v2/model"),
        ("POST", "/v2/health/live", b"", 405, "Method Not Allowed"),
        ("GET", "/v2/models/nil", b"", 404, "Request for unknown model: 'nil' is not found"),
        ("GET", "/v2/models/nil/ready", b"", 404, "Request for unknown model: 'nil' is not found"),
        ("GET", "/v2/models/half/versions/9", b"", 404, "Request for unknown model: 'half' version 9 is not found"),
        ("POST", "/v2/models/nil/infer", b"{}", 404, "Request for unknown model: 'nil' is not found"),
        ("POST", "/v2/models/half/infer", b"", 400, "JSON Parse error: The document is empty"),
        ("POST", "/v2/models/half/infer", b"{}", 400, "expected 2 inputs but got 0"),
    ],
)
def test_errors_are_json_and_the_next_request_passes(
    client: Client, verb: str, path: str, body: bytes, code: int, message: str
) -> None:
    answer = client(verb, path, body)
    assert (answer.code, list(answer.json), answer.json["error"][: len(message)]) == (code, ["error"], message)
    assert answer.headers[b"content-type"] == b"application/json"
    assert client("POST", PREDICT, GOOD).code == 200


INFER = "/v2/models/half/infer"
GOOD_INFER = orjson.dumps(
    {
        "inputs": [
            {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]},
            {"name": "n", "shape": [1], "datatype": "INT64", "data": [3]},
        ]
    }
)


@pytest.mark.parametrize("path", [PREDICT, INFER])
def test_an_encoding_that_is_not_supported(client: Client, path: str) -> None:
    answer = client("POST", path, GOOD, content_encoding="br")
    assert (answer.code, answer.json["error"][:20]) == (501, "the Content-Encoding")
    assert answer.headers[b"accept-encoding"] == b"gzip, deflate"


def test_open_inference(client: Client) -> None:
    answer = client("POST", INFER, GOOD_INFER)
    assert answer.json == {
        "model_name": "half",
        "model_version": "2",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [1], "data": [1.5]},
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["30"]},
        ],
    }
    assert answer.headers[b"content-type"] == b"application/json"
    assert client("POST", "/v2/models/half/versions/2/infer", GOOD_INFER).body == answer.body
    for encoding in ("gzip", "deflate"):
        body = encoded(GOOD_INFER, encoding.encode())
        assert client("POST", INFER, body, content_encoding=encoding).body == answer.body


def test_classify_and_regress(make_signature: Callable[..., Any], echo: Callable[..., Any]) -> None:
    model = echo("float32")
    inputs = {"x": ("float32", [None])}
    model.signatures["cls"] = make_signature(inputs, {}, lambda x: {"scores": np.stack([x, 1 - x], 1)})
    model.signatures["reg"] = make_signature(inputs, {}, lambda x: {"outputs": x * 2})
    client = Client(create_app(ModelServer(ModelRepository([ModelVersion("m", 1, model)]))))
    answer = client("POST", "/v1/models/m:classify", b'{"signature_name": "cls", "examples": [{"x": 0.25}]}')
    assert (answer.code, answer.json) == (200, {"results": [[["", 0.25], ["", 0.75]]]})
    answer = client("POST", "/v1/models/m/versions/1:regress", b'{"signature_name": "reg", "examples": [{"x": 2}]}')
    assert (answer.code, answer.json) == (200, {"results": [4.0]})
    answer = client("POST", "/v1/models/m:regress", b'{"examples": [{"x": 2}]}')
    assert (answer.code, answer.json["error"].split("\n")[0]) == (400, "the signature does not regress")


def test_tensorflow_routes_compress_only_if_told(echo: Callable[..., Any]) -> None:
    body = orjson.dumps({"instances": [1.5] * 1000})
    for gzip_too in (False, True):
        server = ModelServer(ModelRepository([ModelVersion("m", 1, echo("float32"))]))
        answer = Client(create_app(server, gzip=gzip_too))("POST", "/v1/models/m:predict", body, accept_encoding="gzip")
        assert answer.headers.get(b"content-encoding") == (b"gzip" if gzip_too else None)
        assert orjson.loads(gzip.decompress(answer.body) if gzip_too else answer.body) == {"predictions": [1.5] * 1000}


def test_repository_calls(client: Client) -> None:
    ready = [{"name": "half", "version": "2", "state": "READY", "reason": ""}]
    assert client("POST", "/v2/repository/index").json == ready
    for call in ("load", "unload"):
        answer = client("POST", f"/v2/repository/models/half/{call}")
        assert (answer.code, answer.json["error"][:37]) == (501, "the models of this server are fixed\n ")


def test_open_inference_metadata(client: Client) -> None:
    extensions = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]
    assert client("GET", "/v2").json["extensions"] == extensions
    assert client("GET", "/v2/models").json == {"models": ["half"]}
    assert client("GET", "/v2/models/half/ready").json == {"name": "half", "ready": True}
    assert client("GET", "/v2/models/half").json == {
        "name": "half",
        "versions": ["2"],
        "platform": "headrace_savedmodel",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "n", "datatype": "INT64", "shape": [-1]},
        ],
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [-1]},
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
        ],
    }


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_binary_tensors_compressed_or_not(echo: Callable[..., Any], encoding: str) -> None:
    client = Client(create_app(ModelServer(ModelRepository([ModelVersion("m", 1, echo("float32"))]))))
    x = np.arange(5000, dtype=np.float32)
    entry = {"name": "x", "shape": [5000], "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
    head = orjson.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}})
    body = head + x.tobytes()
    answer = client(
        "POST",
        "/v2/models/m/infer",
        encoded(body, encoding.encode()) if encoding else body,
        content_encoding=encoding,
        accept_encoding=encoding,
        inference_header_content_length=str(len(head)),
    )
    assert answer.headers[b"content-type"] == b"application/octet-stream"
    assert answer.headers.get(b"content-encoding", b"") == encoding.encode()
    plain = decoded(answer.body, encoding.encode(), 1_000_000)
    length = int(answer.headers[b"inference-header-content-length"])
    assert orjson.loads(plain[:length])["outputs"][0]["parameters"] == {"binary_data_size": x.nbytes}
    assert plain[length:] == x.tobytes()


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, ""])
def test_a_header_that_is_no_length(client: Client, length: str) -> None:
    answer = client("POST", INFER, GOOD_INFER, inference_header_content_length=length)
    assert (answer.code, answer.json["error"][:59]) == (
        400,
        "the header Inference-Header-Content-Length is no length\n  e",
    )
    assert client("POST", INFER, GOOD_INFER).code == 200


def test_a_failure_is_500_logged_and_told(
    echo: Callable[..., Any], make_signature: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(x: object) -> Any:
        raise ZeroDivisionError("oops")

    model = echo("float32")
    model.signatures["serving_default"] = make_signature({"x": ("float32", None)}, {}, fail)
    client = Client(create_app(ModelServer(ModelRepository([ModelVersion("m", 1, model)]))))
    answer = client("POST", "/v1/models/m:predict", b'{"inputs": 1}')
    assert (answer.code, answer.json["error"].split("\n")[0]) == (500, "the model failed")
    assert "ZeroDivisionError: oops" in caplog.text


def test_a_fault_of_the_server_is_500_too(
    half: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = ModelServer(ModelRepository([ModelVersion("half", 2, half)]))
    monkeypatch.setattr(server, "status", None)
    with caplog.at_level(logging.ERROR):
        answer = Client(create_app(server))("GET", "/v1/models/half")
    assert (answer.code, answer.json["error"]) == (500, "internal error: TypeError; the server's log has more")
    assert "TypeError" in caplog.text


def test_not_ready_when_told_to_end_or_a_model_is_missing(half: Any) -> None:
    repository = ModelRepository([ModelVersion("half", 2, half)])
    server = ModelServer(repository)
    client = Client(create_app(server))
    server.accepts = False
    answer = client("GET", "/v2/health/ready")
    assert (answer.code, answer.json) == (503, {"live": True, "ready": False})
    assert client("GET", "/v2/health/live").code == 200
    assert client("POST", PREDICT, GOOD).code == 200
    server.accepts = True
    repository.publish(ModelVersion("other", 1, None, "damaged"))
    assert client("GET", "/v2/health/ready").code == 503


def test_a_key(half: Any) -> None:
    app = create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), api_key="secret")
    client = Client(app)
    for headers in ({}, {"x_api_key": "wrong"}, {"authorization": "Bearer "}, {"authorization": "secretive"}):
        answer = client("POST", PREDICT, GOOD, **headers)
        assert (answer.code, answer.json["error"][:38]) == (401, "the key of the API is missing or wrong")
    for headers in ({"x_api_key": "secret"}, {"authorization": "Bearer secret"}):
        assert client("POST", PREDICT, GOOD, **headers).code == 200
    assert client("GET", "/v2/health/ready").code == 200
    assert client("GET", "/monitoring/prometheus/metrics").code == 401


def test_pages_from_elsewhere(half: Any, client: Client) -> None:
    allowed = b"access-control-allow-origin"
    assert client("OPTIONS", PREDICT, origin="https://a.org").code == 200
    assert client("OPTIONS", PREDICT, origin="file://a").code == 400
    assert allowed not in client("POST", PREDICT, GOOD).headers
    open_to_pages = Client(create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), cors=True))
    for answer in (open_to_pages("OPTIONS", PREDICT, origin="http://a.org"), open_to_pages("POST", PREDICT, GOOD)):
        assert (answer.code, answer.headers[allowed]) == (200, b"*")
        assert answer.headers[b"access-control-allow-methods"] == b"POST, GET"
        assert answer.headers[b"access-control-allow-headers"] == b"Content-Type"


def test_metrics(client: Client) -> None:
    for body in (GOOD, GOOD, b""):
        client("POST", PREDICT, body)
    client("POST", INFER, GOOD_INFER)
    client("POST", "/v1/models/any name:predict", GOOD)
    answer = client("GET", "/monitoring/prometheus/metrics")
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    for line in (
        "# TYPE :tensorflow:serving:request_latency histogram",
        ':tensorflow:serving:request_count{model_name="half",status="OK"} 3',
        ':tensorflow:serving:request_count{model_name="half",status="INVALID_ARGUMENT"} 1',
        ':tensorflow:serving:request_count{model_name="",status="NOT_FOUND"} 1',
        ':tensorflow:serving:request_latency_count{model_name="half",API="Predict",entrypoint="REST"} 3',
        ':tensorflow:serving:runtime_latency_bucket{model_name="half",API="Infer",runtime="Headrace",le="+Inf"} 1',
        'headrace_serving_answers_total{code="200"} 3',
        'headrace_serving_versions{model_name="half",state="AVAILABLE"} 1',
        "headrace_serving_active_requests 0",
        "headrace_serving_waiting_rows 0",
    ):
        assert line in lines


def test_metrics_of_batches(echo: Callable[..., Any]) -> None:
    server = ModelServer(ModelRepository([ModelVersion("m", 1, echo("float32", [None]))]))
    client = Client(create_app(server, batching=BatchingOptions(8, allowed_sizes=(4, 8))))
    assert client("POST", "/v1/models/m:predict", b'{"instances": [1, 2, 3]}').json == {"predictions": [1, 2, 3]}
    lines = client("GET", "/monitoring/prometheus/metrics").body.decode().splitlines()
    assert ":tensorflow:serving:batching_session:processed_batch_size_sum 4" in lines
    assert ":tensorflow:serving:batching_session:input_batch_size_sum 3" in lines


def test_the_access_log(half: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), access_log=True)
    with caplog.at_level(logging.INFO, "headrace_serving.access"):
        size = len(Client(app)("POST", PREDICT, GOOD).body)
        Client(app)("GET", "/none")
    first, second = (orjson.loads(record.message) for record in caplog.records)
    assert first.pop("ms") > 0
    assert abs(datetime.fromisoformat(first.pop("time")) - datetime.now(UTC)) < timedelta(minutes=5)
    assert first == {
        "client": "",
        "method": "POST",
        "path": PREDICT,
        "model": "half",
        "status": 200,
        "bytes": size,
    }
    assert (second["status"], second["model"]) == (404, "")


class Slow:
    """A model that tells when it is called, and answers when it may."""

    def __init__(self, make_signature: Callable[..., Any]) -> None:
        self.called = threading.Semaphore(0)
        self.may = threading.Event()
        self.calls = 0
        signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, self._answer)
        self.signatures = {"serving_default": signature}

    def _answer(self, x: Array) -> dict[str, Array]:
        self.calls += 1
        self.called.release()
        assert self.may.wait(30)
        return {"y": x}

    async def wait_until_called(self) -> None:
        """Wait without blocking the loop."""
        assert await asyncio.to_thread(self.called.acquire, timeout=30)


@pytest.fixture(name="slow")
def _slow(make_signature: Callable[..., Any]) -> Iterator[Slow]:
    slow = Slow(make_signature)
    yield slow
    slow.may.set()


SLOW_PREDICT = ("POST", "/v1/models/m:predict", b'{"instances": [1]}', {})


def serve_slowly(slow: Slow, **options: Any) -> Client:
    return Client(create_app(ModelServer(ModelRepository([ModelVersion("m", 1, slow)])), threads=1, **options))


@pytest.mark.parametrize("batching", [None, BatchingOptions()])
def test_too_late(slow: Slow, batching: BatchingOptions | None, caplog: pytest.LogCaptureFixture) -> None:
    client = serve_slowly(slow, batching=batching, request_timeout=0.2)

    async def both() -> tuple[Answer, Answer]:
        first = asyncio.create_task(client.ask(*SLOW_PREDICT))
        await slow.wait_until_called()
        return await client.ask(*SLOW_PREDICT), await first

    queued, running = asyncio.run(both())
    assert (running.code, running.json["error"][:25]) == (504, "the request took too long")
    assert (queued.code, queued.json["error"][:54]) == (429, "Run() timeout exceeded while waiting in batching queue")
    assert slow.calls == 1


def test_a_client_may_shorten_its_time(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    entry = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
    body = orjson.dumps({"inputs": [entry], "parameters": {"timeout": 20_000}})
    answer = serve_slowly(slow)("POST", "/v2/models/m/infer", body)
    assert answer.code == 504
    assert "within 0.02 seconds of the request's arrival" in answer.json["error"]


@pytest.mark.parametrize("batching", [None, BatchingOptions(max_batch_size=1)])
def test_the_work_of_a_client_that_is_gone_is_dropped(slow: Slow, batching: BatchingOptions | None) -> None:
    client = serve_slowly(slow, batching=batching)

    async def go_away() -> tuple[Answer, Answer]:
        first = asyncio.create_task(client.ask(*SLOW_PREDICT))
        await slow.wait_until_called()
        gone = asyncio.Event()
        second = asyncio.create_task(client.ask(*SLOW_PREDICT, gone))
        await asyncio.sleep(0)
        gone.set()
        answer = await second
        slow.may.set()
        return answer, await first

    dropped, answered = asyncio.run(go_away())
    assert (dropped.code, dropped.json["error"][:23]) == (499, "the client went away be")
    assert (answered.code, slow.calls) == (200, 1)


def test_more_requests_than_may_be_there_are_told_to_come_again(slow: Slow) -> None:
    client = serve_slowly(slow, max_concurrency=1)

    async def two() -> tuple[Answer, Answer]:
        first = asyncio.create_task(client.ask(*SLOW_PREDICT))
        await slow.wait_until_called()
        second = await client.ask(*SLOW_PREDICT)
        slow.may.set()
        return await first, second

    first, second = asyncio.run(two())
    assert (first.code, second.code, second.headers[b"retry-after"]) == (200, 503, b"1")
    assert "at most 1 requests at once" in second.json["error"]
    assert client(*SLOW_PREDICT[:3]).code == 200


def test_a_full_queue_is_503(slow: Slow) -> None:
    client = serve_slowly(slow, batching=BatchingOptions(max_batch_size=1, max_queued_batches=1))

    async def three() -> list[Answer]:
        tasks = [asyncio.create_task(client.ask(*SLOW_PREDICT))]
        await slow.wait_until_called()
        tasks += [asyncio.create_task(client.ask(*SLOW_PREDICT)) for _ in range(2)]
        await asyncio.wait([tasks[2]])
        slow.may.set()
        return list(await asyncio.gather(*tasks))

    answers = asyncio.run(three())
    assert [answer.code for answer in answers] == [200, 200, 503]
    assert answers[2].headers[b"retry-after"] == b"1"


def test_a_body_that_comes_too_slowly(client: Client, half: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), request_timeout=0.05)

    async def never() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": PREDICT, "raw_path": PREDICT.encode(), "headers": []}
    asyncio.run(app(scope | {"root_path": "", "query_string": b""}, never, send))
    assert sent[0]["status"] == 504
    assert b"the whole request within 0.05 seconds" in sent[1]["body"]


def test_statistics_of_what_models_have_done(client: Client) -> None:
    empty = client("GET", "/v2/models/half/stats").json["model_stats"]
    assert [(entry["name"], entry["version"], entry["inference_count"]) for entry in empty] == [("half", "2", 0)]
    rows = b'{"instances": [{"x": [1, 2], "n": 3}, {"x": [1, 2], "n": 3}]}'
    assert client("POST", PREDICT, rows).code == 200
    assert client("POST", PREDICT, b'{"instances": 1}').code == 400
    for path in ("/v2/models/stats", "/v2/models/half/stats", "/v2/models/half/versions/2/stats"):
        (entry,) = client("GET", path).json["model_stats"]
        assert (entry["inference_count"], entry["execution_count"]) == (2, 1)
        assert entry["last_inference"] > 0
        parts = entry["inference_stats"]
        assert [parts[name]["count"] for name in ("success", "fail", "compute_infer")] == [1, 0, 1]
        assert parts["success"]["ns"] >= parts["compute_infer"]["ns"] > 0
        assert [batch["batch_size"] for batch in entry["batch_stats"]] == [2]
    assert client("GET", "/v2/models/none/stats").code == 404
    assert client("POST", "/v2/models/half/stats").code == 405


def test_statistics_of_what_fails(make_signature: Any) -> None:
    def fail(x: Array) -> dict[str, Array]:
        raise errors.InternalError("oops")

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, fail)
    model: Any = type("Model", (), {"signatures": {"serving_default": signature}})()
    client = Client(create_app(ModelServer(ModelRepository([ModelVersion("half", 1, model)]))))
    assert client("POST", PREDICT, b'{"instances": [1]}').code == 500
    (entry,) = client("GET", "/v2/models/stats").json["model_stats"]
    assert [entry["inference_stats"][name]["count"] for name in ("success", "fail")] == [0, 1]


def test_configuration_leaves_out_the_dimension_that_requests_share(half: Any) -> None:
    server = ModelServer(ModelRepository([ModelVersion("half", 2, half)]))
    alone = Client(create_app(server))("GET", "/v2/models/half/config").json
    assert (alone["max_batch_size"], [entry["dims"] for entry in alone["input"]]) == (0, [[-1, 2], [-1]])
    batching = BatchingOptions(8, timeout=0.001, allowed_sizes=(4, 8))
    shared = Client(create_app(server, batching=batching))("GET", "/v2/models/half/versions/2/config").json
    assert shared == {
        "name": "half",
        "platform": "headrace_savedmodel",
        "backend": "headrace",
        "max_batch_size": 8,
        "input": [
            {"name": "x", "data_type": "TYPE_FP32", "dims": [2]},
            {"name": "n", "data_type": "TYPE_INT64", "dims": []},
        ],
        "output": [
            {"name": "y", "data_type": "TYPE_FP32", "dims": []},
            {"name": "label", "data_type": "TYPE_STRING", "dims": []},
        ],
        "dynamic_batching": {"preferred_batch_size": [4, 8], "max_queue_delay_microseconds": 1000},
    }


def test_pages_for_browsers(client: Client) -> None:
    page = client("GET", "/", accept="text/html")
    assert (page.code, b"Headrace model server" in page.body) == (200, True)
    assert b"default-src 'self'" in page.headers[b"content-security-policy"]
    assert client("GET", "/").json == {"status": "alive"}
    assert client("GET", "/docs").code == 200
    assert "/v1/models/{model}:predict" in client("GET", "/openapi.json").json["paths"]
    assert client("GET", "/assets/page.js").headers[b"content-type"].startswith(b"text/javascript")
    for name in ("none.js", "__init__.py", "index.html", "%2e%2e"):
        missing = client("GET", f"/assets/{name}")
        assert (missing.code, missing.json) == (404, {"error": f"Not Found: /assets/{name}"})
