"""`headrace bench-serve`, and the loads that it puts on a server."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from click.testing import CliRunner

from headrace.errors import DeadlineExceededError, UnavailableError
from headrace_serving import ModelRepository, ModelServer, create_app, load
from headrace_serving.bench import bench_serve, made_up, plot
from headrace_serving.listen import listen, url_of
from headrace_serving.load import Load, LoadRequest, closed_loop, open_loop
from headrace_serving.repository import ModelVersion


@pytest.fixture(name="serve")
def _serve() -> Iterator[Callable[[Any], str]]:
    ends: list[Callable[[], None]] = []

    def serve(app: Any) -> str:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        listener = listen("127.0.0.1", 0)
        url = url_of(listener)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()

        def end() -> None:
            server.should_exit = True
            thread.join()
            listener.close()

        ends.append(end)
        return url

    yield serve
    for end in ends:
        end()


@pytest.fixture(name="url")
def _url(serve: Callable[[Any], str], half: Any) -> str:
    return serve(create_app(ModelServer(ModelRepository([ModelVersion("half", 2, half)])), api_key="k"))


@pytest.mark.parametrize("protocol", ["v1", "v2"])
@pytest.mark.parametrize("loop", [["--clients", "3"], ["--rate", "200"]])
def test_numbers_file_and_plot(url: str, tmp_path: Path, protocol: str, loop: list[str]) -> None:
    files = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.svg")]
    options = ["--model", "half", "--protocol", protocol, "--rows", "3", "--seconds", "0.3", "--api-key", "k"]
    done = CliRunner().invoke(bench_serve, [url, *options, *loop, *files])
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["failed"] == 0
    assert result["answers"] > 10
    assert result["p50"] <= result["p99"] <= result["p999"]
    assert f"{result['per_second']:.1f} answers/s" in done.output
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_what_cannot_be_measured(url: str) -> None:
    for options, message in (
        (["--model", "none", "--api-key", "k"], "Servable not found"),
        (["--model", "half"], "the key of the API is missing or wrong"),
        (["--model", "half", "--api-key", "k", "--signature", "z"], "no signature 'z', but score, serving_default"),
    ):
        done = CliRunner().invoke(bench_serve, [url, *options, "--seconds", "0.1"])
        assert (done.exit_code, message in done.output) == (1, True), done.output


def test_answers_that_are_not_200_fail_the_command(serve: Callable[[Any], str], make_signature: Any) -> None:
    def fail(x: Any) -> Any:
        raise ZeroDivisionError

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, fail)
    model: Any = type("Model", (), {"signatures": {"serving_default": signature}})()
    url = serve(create_app(ModelServer(ModelRepository([ModelVersion("m", 1, model)]))))
    done = CliRunner().invoke(bench_serve, [url, "--model", "m", "--seconds", "0.1"])
    assert done.exit_code == 1
    assert "answers were not 200" in done.output


def test_nobody_there() -> None:
    with listen("127.0.0.1", 0) as listener:
        url = url_of(listener)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        closed_loop(url, LoadRequest("/", b""), clients=1, seconds=0.1)


@pytest.mark.parametrize("run", [partial(closed_loop, clients=2), partial(open_loop, rate=20.0)])
def test_a_server_that_does_not_answer(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "PATIENCE", 0.1)
    refused = pytest.raises(DeadlineExceededError, match=r"does not answer any more(.|\n)*within 0.1 seconds")
    with listen("127.0.0.1", 0) as listener, refused:  # the system takes connections, nobody reads
        run(url_of(listener), LoadRequest("/", b""), seconds=0.1)


def test_an_open_loop_counts_from_when_a_request_was_due(serve: Callable[[Any], str]) -> None:
    start = time.monotonic()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(max(0.0, start + 0.3 - time.monotonic()))  # nobody is answered in the first 0.3 seconds
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    url = serve(app)
    start = time.monotonic()
    load = open_loop(url, LoadRequest("/", b"{}"), rate=100, seconds=0.2)
    assert len(load.latencies) == 20
    assert load.quantile(0) > 80  # the last one was due at 0.2
    assert load.quantile(1) > 280


def test_quantiles() -> None:
    load = Load(2.0, tuple(number / 1000 for number in range(1, 1001)), 0)
    assert (load.per_second, load.quantile(0.5), load.quantile(0.999), load.quantile(1)) == (500, 500, 999, 1000)
    assert math.isnan(Load(1.0, (), 0).quantile(0.5))
    assert "polyline" in plot(Load(1.0, (), 0), "a < b")
    assert "a &lt; b" in plot(load, "a < b")


def test_inputs_are_made_up_from_what_a_signature_takes() -> None:
    def info(dtype: str, *sizes: int) -> dict[str, Any]:
        return {"dtype": dtype, "tensor_shape": {"dim": [{"size": str(size)} for size in sizes]}}

    inputs = made_up(
        {"x": info("DT_FLOAT", -1, 3), "s": info("DT_STRING", 2), "n": info("DT_INT64"), "b": info("DT_BOOL", -1, -1)},
        4,
    )
    assert {alias: (tensor.dtype.name, tensor.shape) for alias, tensor in inputs.items()} == {
        "x": ("float32", (4, 3)),
        "s": ("object", (2,)),
        "n": ("int64", ()),
        "b": ("bool", (4, 1)),
    }
    assert np.array_equal(inputs["x"], made_up({"x": info("DT_FLOAT", -1, 3)}, 4)["x"])
