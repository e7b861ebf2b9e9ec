"""`headrace serve`, as a process of its own, on models that were really exported."""

from __future__ import annotations

import http.client
import json
import math
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from click.testing import CliRunner

import headrace as hr
from headrace_checkpoint import load_model, save_model
from headrace_serving import ModelRepository, ModelServer, ModelSpec
from headrace_serving.cli import serve

COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]


@dataclass
class Served:
    """A server process and where it listens."""

    process: subprocess.Popen[str]
    url: str

    def ask(self, verb: str, path: str, body: bytes | Iterator[bytes] = b"") -> tuple[int, Any]:
        """Send a request on a connection of its own; status and the answer's JSON."""
        address = urlsplit(self.url)
        assert address.hostname is not None
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        try:
            connection.request(verb, path, body)
            response = connection.getresponse()
            assert response.headers["content-type"] == "application/json"
            return response.status, json.loads(response.read())
        finally:
            connection.close()


def export(folder: Path, factor: float) -> None:
    """Export y = x * factor, with a second signature that answers integers and strings as they are."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        y = x * hr.Variable(np.float32(factor), name="factor")
        n = hr.placeholder(hr.int64, [None], name="n")
        s = hr.placeholder(hr.string, [None], name="s")
    echo = hr.Signature(inputs={"n": n, "s": s}, outputs={"n": n, "s_bytes": s})
    with hr.Session(graph) as session:
        signatures = {"serving_default": hr.Signature(inputs={"x": x}, outputs={"y": y}), "echo": echo}
        save_model(folder, session, signatures)


@pytest.fixture(name="models", scope="module")
def _models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = tmp_path_factory.mktemp("models")
    export(models / "half" / "1", 0.5)
    export(models / "half" / "2", 0.25)
    (models / "half" / "3").mkdir()
    (models / "half" / "3" / "saved_model.pb").write_bytes(b"damaged")
    return models


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """Start the command with `--json` on a free port, and kill it at the end if it still runs."""
    command = [*COMMAND, *arguments, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield Served(process, json.loads(line)["url"])
        finally:
            process.kill()


@pytest.fixture(name="served", scope="module")
def _served(models: Path) -> Iterator[Served]:
    options = ["--versions", "all", "--max-request-bytes", "100000", "--label", "half:old=1"]
    with serving("--model", f"half={models / 'half'}", *options) as served:
        yield served


def fails(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the command in this process; exit code and everything that it says."""
    result = CliRunner().invoke(serve, list(arguments))
    return result.exit_code, result.output


def test_predictions_equal_those_of_the_loaded_model(served: Served, models: Path) -> None:
    x = np.random.default_rng(1).normal(size=[5, 2]).astype(np.float32)
    for version, path in [(2, "/v1/models/half"), (2, "/v1/models/half/versions/2"), (1, "/v1/models/half/labels/old")]:
        with load_model(models / "half" / str(version)) as model:
            expected = model.signatures["serving_default"](x=x)["y"]
        for request, answer in [("instances", "predictions"), ("inputs", "outputs")]:
            code, document = served.ask("POST", path + ":predict", json.dumps({request: x.tolist()}).encode())
            assert code == 200
            np.testing.assert_array_equal(np.array(document[answer], np.float32), expected)


def test_the_server_without_a_transport_answers_the_same(served: Served, models: Path) -> None:
    server = ModelServer(ModelRepository.load({"half": models / "half" / "2"}, load_model))
    body = b'{"instances": [[1, 2], [NaN, -Infinity]]}'
    code, document = served.ask("POST", "/v1/models/half:predict", body)
    assert (code, document["predictions"][0]) == (200, [0.25, 0.5])
    nan, infinity = document["predictions"][1]
    assert math.isnan(nan)
    assert infinity == -math.inf
    assert server.predict(ModelSpec("half"), body) == b'{"predictions":[[0.25,0.5],[NaN,-Infinity]]}'


def test_S05_S11_integers_and_bytes_are_exact(served: Served) -> None:
    numbers = [9007199254740993, -(2**63), 2**63 - 1]
    strings = [{"b64": "/9j/4AA="}, {"b64": ""}, {"b64": "YQBi"}]
    rows = [{"n": n, "s": s} for n, s in zip(numbers, strings, strict=True)]
    body = json.dumps({"signature_name": "echo", "instances": rows}).encode()
    code, document = served.ask("POST", "/v1/models/half:predict", body)
    assert (code, document) == (200, {"predictions": [{"n": row["n"], "s_bytes": row["s"]} for row in rows]})


def test_status_metadata_and_health(served: Served) -> None:
    _, document = served.ask("GET", "/v1/models/half")
    states = [(version["version"], version["state"]) for version in document["model_version_status"]]
    assert states == [("3", "END"), ("2", "AVAILABLE"), ("1", "AVAILABLE")]
    _, document = served.ask("GET", "/v1/models/half/metadata")
    signature = document["metadata"]["signature_def"]["signature_def"]["serving_default"]
    shape = {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False}
    assert signature["inputs"] == {"x": {"dtype": "DT_FLOAT", "tensor_shape": shape, "name": "x:0"}}
    assert served.ask("GET", "/v2/health/ready") == (200, {"live": True, "ready": True})


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"", 400, "JSON Parse error: The document is empty"),
        (b'{"instances": [[1, 2], [3]]}', 400, "Failed to process element: 1 of 'instances' list."),
        (b'{"instances": [["1.5", 2]]}', 400, "Failed to process element: 0 of 'instances' list. Error: JSON Value"),
        (b'{"instances": [[1, 2, 3]]}', 400, "Input 'x' has a shape that the signature does not allow"),
        (b'{"signature_name": "echo", "instances": [{"n": 3.5, "s": ""}]}', 400, "Failed to process element: 0 key: n"),
        (b"[" * 90_000, 400, "JSON Parse error: nested too deeply"),
        (b'{"instances": ' + b"[" * 900 + b"]" * 900 + b"}", 400, "Failed to process element: 0"),
        (b" " * 100_001, 413, "the request is too large"),
    ],
)
def test_S03_bad_requests_get_an_error_and_the_next_good_one_passes(
    served: Served, body: bytes, code: int, message: str
) -> None:
    status, document = served.ask("POST", "/v1/models/half:predict", body)
    assert (status, list(document), document["error"][: len(message)]) == (code, ["error"], message)
    assert served.ask("POST", "/v1/models/half:predict", b'{"instances": [[1, 2]]}')[0] == 200


def test_bodies_in_chunks_are_joined_and_limited(served: Served) -> None:
    assert served.ask("POST", "/v1/models/half:predict", iter([b'{"instances"', b": [[1, 2]]}"]))[0] == 200
    assert served.ask("POST", "/v1/models/half:predict", iter([b" " * 60_000] * 2))[0] == 413


def test_a_client_that_goes_away_does_no_harm(served: Served) -> None:
    address = urlsplit(served.url)
    assert address.hostname is not None
    with socket.create_connection((address.hostname, address.port or 0)) as connection:
        connection.sendall(b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert served.ask("POST", "/v1/models/half:predict", b'{"instances": [[1, 2]]}')[0] == 200


def test_a_folder_of_models_that_changes(tmp_path: Path) -> None:
    export(tmp_path / "a" / "1", 0.5)
    with serving("--models-dir", str(tmp_path), "--poll", "0") as served:
        assert served.ask("GET", "/v2/models") == (200, {"models": ["a"]})
        export(tmp_path / "a" / "2", 0.25)
        export(tmp_path / "b" / "1", 2)
        for name in ("a", "b"):
            assert served.ask("POST", f"/v2/repository/models/{name}/load") == (200, {})
        _, index = served.ask("POST", "/v2/repository/index")
        assert [(entry["name"], entry["version"], entry["state"]) for entry in index] == [
            ("a", "1", "UNAVAILABLE"),
            ("a", "2", "READY"),
            ("b", "1", "READY"),
        ]
        body = b'{"instances": [[1, 2]]}'
        assert served.ask("POST", "/v1/models/a:predict", body) == (200, {"predictions": [[0.25, 0.5]]})
        assert served.ask("POST", "/v2/repository/models/b/unload") == (200, {})
        assert served.ask("POST", "/v1/models/b:predict", body)[0] == 404


def test_a_file_of_models(tmp_path: Path) -> None:
    export(tmp_path / "a" / "1", 0.5)
    file = tmp_path / "models.toml"
    file.write_text('[models.double]\nfolder = "a"\nlabels = { best = 1 }\n')
    with serving("--config", str(file)) as served:
        code, document = served.ask("POST", "/v1/models/double/labels/best:predict", b'{"inputs": [[1, 2]]}')
        assert (code, document) == (200, {"outputs": [[0.5, 1.0]]})


def test_batched_answers_are_those_of_the_model(models: Path) -> None:
    options = ["--max-batch-size", "8", "--batch-timeout", "0.01", "--allowed-batch-sizes", "4,8", "--threads", "2"]
    with serving("--model", f"half={models / 'half' / '1'}", *options) as served, ThreadPoolExecutor(8) as callers:

        def ask(number: int) -> Any:
            body = json.dumps({"instances": [[number, 1]] * (number % 12 + 1)}).encode()
            return served.ask("POST", "/v1/models/half:predict", body)

        for number, answer in enumerate(callers.map(ask, range(40))):
            assert answer == (200, {"predictions": [[number / 2, 0.5]] * (number % 12 + 1)})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(models: Path, number: signal.Signals) -> None:
    with serving("--model", f"half={models / 'half' / '1'}", "--lame-duck", "0") as served:
        assert served.ask("GET", "/v1/models/half/versions/1")[0] == 200
        served.process.send_signal(number)
        assert served.process.wait(30) == 0


def test_grpc_ends_with_the_rest(models: Path) -> None:
    pytest.importorskip("grpc")
    options = ["--model", f"half={models / 'half' / '1'}", "--grpc-port", "0", "--lame-duck", "0"]
    with serving(*options) as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0


def test_a_lame_duck_is_not_ready_but_answers(models: Path) -> None:
    with serving("--model", f"half={models / 'half' / '1'}", "--lame-duck", "60") as served:
        served.process.send_signal(signal.SIGTERM)
        while served.ask("GET", "/v2/health/ready")[0] == 200:
            pass
        assert served.ask("POST", "/v1/models/half:predict", b'{"instances": [[1, 2]]}')[0] == 200
        served.process.send_signal(signal.SIGTERM)  # a second time means now
        assert served.process.wait(30) == 0


def test_a_hangup_loads_new_versions(tmp_path: Path) -> None:
    export(tmp_path / "m" / "1", 0.5)
    with serving("--model", f"m={tmp_path / 'm'}", "--poll", "0") as served:
        export(tmp_path / "m" / "2", 2)
        served.process.send_signal(signal.SIGHUP)
        while served.ask("GET", "/v1/models/m/versions/2")[0] != 200:
            pass
        while served.ask("POST", "/v1/models/m:predict", b'{"inputs": [[1, 2]]}')[1] != {"outputs": [[2.0, 4.0]]}:
            pass


def test_the_access_log_goes_to_standard_error(models: Path) -> None:
    arguments = [*COMMAND, "--model", f"half={models / 'half' / '1'}", "--port", "0", "--json", "--access-log"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            Served(process, json.loads(process.stdout.readline())["url"]).ask("GET", "/v2/health/live")
            assert json.loads(process.stderr.readline())["path"] == "/v2/health/live"
        finally:
            process.kill()


def test_it_says_where_it_listens(models: Path) -> None:
    arguments = [*COMMAND, "--model", f"half={models / 'half' / '1'}", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first, second = process.stdout.readline().strip(), process.stdout.readline().strip()
        finally:
            process.kill()
    url = first.removeprefix("Listening on ").removesuffix("; Ctrl-C stops.")
    assert second == f"{url}/v1/models/half (version 1)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--model', '--models-dir' or '--config'"),
        (["--models-dir", "/nowhere"], "Directory '/nowhere' does not exist"),
        (["--model", "a=b", "--versions", "new"], "no such choice of versions"),
        (["--model", "a=b", "--label", "a=1"], "'a=1' is not NAME:LABEL=VERSION"),
        (["--model", "a=b", "--label", "c:x=1"], "--label names 'c', which is no model of --model"),
        (["--model", "half"], "'half' is not NAME=DIR"),
        (["--model", "=models"], "'=models' is not NAME=DIR"),
        (["--model", "a/b=models"], "'a/b=models' is not NAME=DIR"),
        (["--model", "a=b", "--port", "65536"], "Invalid value for '--port'"),
        (["--model", "a=b", "--allowed-batch-sizes", "1,x"], "'1,x' is not a list of numbers such as 1,8,32"),
        (["--model", "a=b", "--request-timeout", "0"], "Invalid value for '--request-timeout'"),
        (["--model", "a=b", "--model", "a=c"], "two models have the name 'a'"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], message: str) -> None:
    code, output = fails(arguments)
    assert code == 2
    assert message in output


def test_what_cannot_be_served_ends_with_1(tmp_path: Path, models: Path) -> None:
    code, output = fails(["--model", f"nil={tmp_path}"])
    assert code == 1
    assert "no exported model to serve" in output
    code, output = fails(["--model", f"bad={models / 'half' / '3'}"])
    assert code == 1
    assert "no version of model 'bad' can be loaded" in output
    sizes = ["--max-batch-size", "8", "--allowed-batch-sizes", "2,4"]
    code, output = fails(["--model", f"half={models / 'half' / '1'}", *sizes])
    assert code == 1
    assert "the allowed batch sizes cannot be so" in output
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output = fails(["--model", f"half={models / 'half' / '1'}", "--port", str(port)])
    assert code == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in output
    assert "0 is any free port" in output


def test_the_command_is_found_by_name() -> None:
    (entry,) = metadata.entry_points(group="headrace.commands", name="serve")
    assert entry.load() is serve


def test_help_shows_the_two_commands_on_lines_of_their_own() -> None:
    text = CliRunner().invoke(serve, ["--help"]).output
    assert "\n  headrace serve --model mnist=models/mnist --port 8501\n  curl -d " in text


def test_workers_need_posix(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGHUP")
    code, said = fails(["--model", f"half={models / 'half'}", "--workers", "2"])
    assert code == 2
    assert "--workers need a system that lets processes share a socket, which Windows does not." in said
