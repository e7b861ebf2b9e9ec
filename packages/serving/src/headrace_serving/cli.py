"""The command `headrace serve`."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
import uvicorn

from headrace.errors import HeadraceError
from headrace_checkpoint import load_model
from headrace_serving.app import DEFAULT_MAX_REQUEST_BYTES, create_app
from headrace_serving.repository import ModelRepository, ModelSpec
from headrace_serving.server import ModelServer

_GRACE_SECONDS = 30


class _ModelArgument(click.ParamType[tuple[str, Path]]):
    name = "NAME=DIR"

    def convert(
        self, value: str | tuple[str, Path], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Path]:
        if isinstance(value, tuple):
            return value
        name, separator, folder = value.partition("=")
        if not (name and separator and folder) or set(name) & set("/:"):
            self.fail(f"{value!r} is not NAME=DIR, with no '/' or ':' in the name", param, ctx)
        return name, Path(folder)


@click.command()
@click.option(
    "--model",
    "models",
    type=_ModelArgument(),
    multiple=True,
    required=True,
    help="A model's name and its folder: one exported model, or numbered versions of it. May be given many times.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8501, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on; 0: any free one."
)
@click.option(
    "--max-request-bytes",
    default=DEFAULT_MAX_REQUEST_BYTES,
    show_default=True,
    type=click.IntRange(1),
    help="Longest body of a request.",
)
@click.option("--json", "as_json", is_flag=True, help="Print where the server listens as one line of JSON.")
def serve(models: tuple[tuple[str, Path], ...], host: str, port: int, max_request_bytes: int, as_json: bool) -> None:
    r"""Serve exported models over HTTP by TensorFlow Serving's routes.

    \b
    headrace serve --model mnist=models/mnist --port 8501
    curl -d '{"instances": [...]}' http://127.0.0.1:8501/v1/models/mnist:predict

    Runs until SIGTERM or Ctrl-C, then answers the requests that it has taken and exits with 0.
    """
    folders = dict(models)
    if len(folders) != len(models):
        raise click.UsageError("two models have the same name")
    try:
        repository = ModelRepository.load(folders, load_model)
        listener = _listen(host, port)
    except (HeadraceError, OSError) as error:
        raise click.ClickException(str(error)) from error
    with listener:
        click.echo(_announcement(repository, listener, as_json=as_json))
        app = create_app(ModelServer(repository), max_request_bytes=max_request_bytes)
        _run(
            uvicorn.Server(
                uvicorn.Config(
                    app,
                    access_log=False,
                    log_level="warning",
                    lifespan="off",
                    timeout_graceful_shutdown=_GRACE_SECONDS,
                )
            ),
            listener,
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from error


def _announcement(repository: ModelRepository, listener: socket.socket, *, as_json: bool) -> str:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    models = {
        name: [str(version.number) for version in repository.versions(ModelSpec(name)) if version.model is not None]
        for name in repository.names
    }
    if as_json:
        return json.dumps({"url": url, "host": host, "port": port, "models": models})
    lines = [f"{url}/v1/models/{name} (version {', '.join(numbers)})" for name, numbers in models.items()]
    return "\n".join([f"Listening on {url}; Ctrl-C stops.", *lines])


def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT.

    uvicorn ends gracefully on both, and then raises the signal again for the handler that was there before: with the
    default one the process would die of the signal instead of exiting with 0. So that handler is ours, which also stops
    a server that is only just starting.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    with _handling([signal.SIGTERM, signal.SIGINT], stop):
        server.run(sockets=[listener])


@contextmanager
def _handling(signals: list[signal.Signals], handler: object) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in signals}  # type: ignore[arg-type]  # a handler
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
