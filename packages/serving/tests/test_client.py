"""The client against a server in a thread, on a model that was really exported."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import uvicorn

import headrace as hr
from headrace.errors import DeadlineExceededError, InternalError, InvalidArgumentError, UnavailableError
from headrace_checkpoint import load_model, save_model
from headrace_serving import (
    BatchingOptions,
    Client,
    ModelConfig,
    ModelManager,
    ModelRepository,
    ModelServer,
    create_app,
)
from headrace_serving.errors import BadRequestError, ServableNotFoundError, UnauthenticatedError, UnsupportedError
from headrace_serving.listen import listen, url_of

WAYS: list[dict[str, Any]] = [{"protocol": "v1"}, {"protocol": "v2"}, {"protocol": "v2", "binary": False}]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "a b"
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        n = hr.placeholder(hr.int64, [None], name="n")
        s = hr.placeholder(hr.string, [None], name="s")
        signatures = {
            "serving_default": hr.Signature(inputs={"x": x}, outputs={"y": x * 0.1}),
            "echo": hr.Signature(inputs={"n": n, "s": s}, outputs={"n": n, "s_bytes": s}),
        }
    with hr.Session(graph) as session:
        save_model(folder / "3", session, signatures)
    return folder


@pytest.fixture(name="url", scope="module")
def _url(folder: Path) -> Iterator[str]:
    repository = ModelRepository()
    manager = ModelManager(repository, lambda: {"a b": ModelConfig(folder)}, load_model)
    manager.reload()
    with served(create_app(ModelServer(repository, manager=manager), api_key="key")) as url:
        yield url


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application in a thread; its URL."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(name="client", params=WAYS, ids=["v1", "v2", "v2-json"])
def _client(url: str, request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(url, api_key="key", **request.param) as client:
        yield client


def test_answers_are_those_of_the_model_bit_for_bit(client: Client, folder: Path) -> None:
    x = np.random.default_rng(5).normal(size=[7, 2]).astype(np.float32)
    x[0, 0], x[1, 1] = np.nan, np.inf
    with load_model(folder / "3") as model:
        expected = model.signatures["serving_default"](x=x)["y"]
    for version in (None, 3):
        answer = client.predict("a b", {"x": x}, version=version)
        np.testing.assert_array_equal(answer["y"], expected, strict=True)


def test_lists_get_the_dtype_of_the_model(client: Client) -> None:
    assert client.predict("a b", {"x": [[1, 2]]})["y"].dtype == np.float32


def test_integers_and_strings(client: Client) -> None:
    n = np.array([2**53 + 1, -(2**63)])
    for strings in (np.array([b"a\0b", "é".encode()], object), np.array(["a\0b", "é"])):
        answer = client.predict("a b", {"n": n, "s": strings}, signature="echo")
        assert answer["n"].tolist() == n.tolist()
        assert answer["s_bytes"].tolist() == [b"a\0b", "é".encode()]
    chosen = client.predict("a b", {"n": n, "s": strings}, signature="echo", outputs=["n"])
    assert list(chosen) == ["n"]


def test_what_the_server_refuses(client: Client) -> None:
    with pytest.raises(BadRequestError, match="Input 'x' has a shape that the signature does not allow"):
        client.predict("a b", {"x": np.zeros([1, 3], np.float32)})
    with pytest.raises(ServableNotFoundError, match="nil"):
        client.predict("nil", {"x": [[1, 2]]})
    assert client.predict("a b", {"x": [[1, 2]]})["y"].shape == (1, 2)


def test_inputs_that_are_no_arrays_are_refused_as_such(client: Client) -> None:
    with pytest.raises(BadRequestError, match="(?s)input 'x' cannot be made an array.*equal length, of float32"):
        client.predict("a b", {"x": [[1, 2], [3]]})
    with pytest.raises(BadRequestError, match="input 'x' cannot be made an array"):
        client.predict("a b", {"x": [["one", "two"]]})
    with pytest.raises(BadRequestError, match="(?s)the inputs are not named.*a value of type list"):
        client.predict("a b", [[1, 2]])  # type: ignore[arg-type]


def test_names_that_the_model_does_not_have_are_the_servers_to_refuse(client: Client) -> None:
    with pytest.raises(BadRequestError, match="unexpected inference input 'wrong'|Missing named input: x"):
        client.predict("a b", {"wrong": [[1, 2]]})
    with pytest.raises(BadRequestError, match="wrong"):
        client.predict("a b", {"x": np.zeros([1, 2], np.float32)}, signature="wrong")


def test_state_of_the_server(client: Client) -> None:
    assert (client.live(), client.ready(), client.ready("a b"), client.ready("a b", 9)) == (True, True, True, False)
    assert client.models() == ["a b"]
    assert client.metadata("a b", 3)


def test_loading(url: str) -> None:
    with Client(url, api_key="key") as client:
        client.unload("a b")
        assert not client.ready("a b")
        client.load("a b")
        assert client.ready("a b")
        with pytest.raises(ServableNotFoundError, match="failed to load 'nil', no such model"):
            client.load("nil")


def test_a_wrong_key(url: str) -> None:
    with Client(url) as client, pytest.raises(UnauthenticatedError, match="the key of the API is missing or wrong"):
        client.models()


def test_threads_share_a_client(url: str) -> None:
    def ask(number: int) -> float:
        return float(client.predict("a b", {"x": np.full([1, 2], number, np.float32)})["y"][0, 0])

    with Client(url, api_key="key") as client, ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(40))) == [float(np.float32(n) * np.float32(0.1)) for n in range(40)]


@pytest.mark.parametrize(
    "batching", [None, BatchingOptions(8, 0.002, (4, 8), 100), BatchingOptions(5, 0.01, (), 100, adaptive=True)]
)
def test_all_ways_agree_while_shapes_are_mixed(tmp_path: Path, batching: BatchingOptions | None) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, None], name="x")
        signature = hr.Signature(inputs={"x": x}, outputs={"y": x * 0.1, "z": hr.exp(x)})
    with hr.Session(graph) as session:
        save_model(tmp_path / "1", session, {"serving_default": signature})
    numbers = np.random.default_rng(11)
    arrays = [numbers.normal(size=numbers.integers(1, [20, 4])).astype(np.float32) for _ in range(60)]
    with load_model(tmp_path / "1") as model:
        expected = [model.signatures["serving_default"](x=x) for x in arrays]
    server = ModelServer(ModelRepository.load({"m": tmp_path}, load_model))
    with served(create_app(server, batching=batching)) as url, ThreadPoolExecutor(12) as threads, ExitStack() as stack:
        clients = [stack.enter_context(Client(url, **way)) for way in WAYS]

        def ask(number: int) -> list[dict[str, Any]]:
            return [client.predict("m", {"x": arrays[number]}) for client in clients]

        for answers, right in zip(threads.map(ask, range(len(arrays))), expected, strict=True):
            for answer in answers:
                for alias in ("y", "z"):
                    np.testing.assert_array_equal(answer[alias], right[alias], strict=True)


def test_no_server() -> None:
    with listen("127.0.0.1", 0) as listener:
        url = url_of(listener)
    client = Client(url)
    assert not client.live()
    assert not client.ready()
    with pytest.raises(UnavailableError, match=r"the server cannot be reached\n.*127.0.0.1.*\n.*\n.*ConnectionRefused"):
        client.models()


def test_a_server_that_does_not_answer() -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(DeadlineExceededError, match=r"did not answer in time\n"):
        Client(url_of(listener), timeout=0.05).models()


@pytest.mark.parametrize(("url", "protocol"), [("127.0.0.1:80", "v2"), ("ftp://x", "v2"), ("http://x", "v3")])
def test_what_is_no_server(url: str, protocol: Literal["v1", "v2"]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no server can be asked so\n.*'v1' or 'v2'"):
        Client(url, protocol=protocol)


class Foreign(http.server.BaseHTTPRequestHandler):
    """Answers what no model server does, and closes the connection each time."""

    answer = (200, b"{}")

    def do_POST(self) -> None:
        """Answer."""
        status, body = self.answer
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((200, b"{}"), InternalError, r"the server's answer cannot be read\n(.*\n)*.*KeyError: 'outputs'"),
        ((200, b'{"outputs": 3}'), InternalError, r"the server's answer cannot be read\n(.*\n)*.*TypeError"),
        (
            (200, b'{"outputs": [{"name": "y", "datatype": "FP8", "shape": []}]}'),
            UnsupportedError,
            "no such datatype",
        ),
        ((502, b"<html>bad gateway"), InternalError, "^<html>bad gateway$"),
        ((500, b""), InternalError, "^the server answered 500$"),
        ((503, b'{"error": "busy"}'), UnavailableError, "^busy$"),
    ],
)
def test_answers_of_others(answer: tuple[int, bytes], kind: type[Exception], message: str) -> None:
    handler = type("Handler", (Foreign,), {"answer": answer})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{server.server_port}") as client:
                for _ in range(2):  # the second time on a connection that the server has closed
                    with pytest.raises(kind, match=message):
                        client.predict("m", {"x": np.zeros(1)})
        finally:
            server.shutdown()
            thread.join()
