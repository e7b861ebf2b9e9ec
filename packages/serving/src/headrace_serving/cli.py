"""The command `headrace serve`. Long, since each option says what it is for."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from headrace.errors import HeadraceError
from headrace_checkpoint import load_model
from headrace_serving.app import (
    DEFAULT_MAX_CONCURRENCY,
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_REQUEST_TIMEOUT,
    DEFAULT_THREADS,
    create_app,
)
from headrace_serving.batch_queue import BatchingOptions, usual_sizes
from headrace_serving.catalog import ModelConfig, VersionPolicy, models_in, parse_policy, read_models
from headrace_serving.endpoint import Endpoint
from headrace_serving.execution import Executor, limit_blas
from headrace_serving.listen import DEFAULT_GRACE, listen, run, url_of
from headrace_serving.manager import ModelManager
from headrace_serving.memory import keep_out_of_collections
from headrace_serving.repository import ModelRepository, ModelSpec, State, no_version_loads, version_folders
from headrace_serving.server import ModelServer
from headrace_serving.siblings import Siblings
from headrace_serving.workers import supervise, worker_place

_LAST_SECONDS = 0.5
_ARGUMENTS = "headrace_serving.arguments"


def _folders(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    """Return the folder of each model by name."""
    folders: dict[str, Path] = {}
    for value in values:
        name, separator, folder = value.partition("=")
        if not (name and separator and folder) or set(name) & set("/:"):
            raise click.BadParameter(f"{value!r} is not NAME=DIR, with no '/' or ':' in the name")
        if name in folders:
            raise click.BadParameter(f"two models have the name {name!r}")
        folders[name] = Path(folder)
    return folders


def _policy(context: click.Context, parameter: click.Parameter, value: str) -> VersionPolicy:
    try:
        return parse_policy(value)
    except HeadraceError as error:
        raise click.BadParameter(str(error)) from error


def _labels(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """Return the version of each label by model."""
    labels: dict[str, dict[str, int]] = {}
    for value in values:
        match = re.fullmatch(r"([^/:=]+):([^/:=]+)=([0-9]+)", value)
        if match is None:
            raise click.BadParameter(f"{value!r} is not NAME:LABEL=VERSION")
        labels.setdefault(match[1], {})[match[2]] = int(match[3])
    return labels


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in value.split(",") if value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,8,32") from error


class _Remembering(click.Command):
    """A command that remembers its arguments, for workers that are started with the same."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Remembering)
@click.pass_context
@click.option(
    "--model",
    "folders",
    metavar="NAME=DIR",
    callback=_folders,
    multiple=True,
    help="A model's name and its folder: one exported model, or numbered versions of it. May be given many times.",
)
@click.option(
    "--models-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of models, each a folder of numbered versions.",
)
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A TOML file that names models."
)
@click.option(
    "--versions",
    "policy",
    default="latest",
    show_default=True,
    callback=_policy,
    metavar="latest[:N]|all|N,N,...",
    help="Which versions of each model to serve, but for those of --config.",
)
@click.option(
    "--label",
    "labels",
    metavar="NAME:LABEL=VERSION",
    callback=_labels,
    multiple=True,
    help="Another name for a version of a model of --model. May be given many times.",
)
@click.option(
    "--poll",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds between looks for new versions; 0: none.",
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
@click.option(
    "--max-batch-size",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Most rows in one call of a model, which several requests may share; 0: each is computed by itself.",
)
@click.option(
    "--batch-timeout",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds that a batch waits for more rows.",
)
@click.option("--adaptive-batching", is_flag=True, help="Wait for more rows only while that saves time.")
@click.option(
    "--allowed-batch-sizes",
    metavar="N,N,...",
    callback=_numbers,
    default="",
    help="Sizes to which batches are filled up; the last is the largest. Default: 1, 2, 4, 8 and eighths of the "
    "largest, for the first call of each size takes longer than filling up.",
)
@click.option(
    "--max-queued-batches",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="How many full batches may wait; more are refused with 503.",
)
@click.option(
    "--threads", default=DEFAULT_THREADS, show_default=True, type=click.IntRange(1), help="How many calls run at once."
)
@click.option(
    "--blas-threads",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Threads of NumPy's linear algebra in each call; more than the cores that are idle make it slower.",
)
@click.option(
    "--request-timeout",
    default=DEFAULT_REQUEST_TIMEOUT,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Seconds from a request's arrival to its answer.",
)
@click.option(
    "--max-concurrency",
    default=DEFAULT_MAX_CONCURRENCY,
    show_default=True,
    type=click.IntRange(1),
    help="How many requests may be in the server; more are refused with 503.",
)
@click.option(
    "--lame-duck",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds after SIGTERM in which the server is not ready but still takes requests.",
)
@click.option(
    "--grace",
    default=DEFAULT_GRACE,
    show_default=True,
    type=click.IntRange(1),
    help="Seconds that requests have to be answered in at the end.",
)
@click.option(
    "--workers",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Processes that serve; --threads are divided among them.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    help="Port for the Open Inference Protocol over gRPC; 0: any free one. Default: none. Needs the extra 'grpc'.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of the server's certificate, in PEM; HTTP becomes HTTPS.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="File of the certificate's key."
)
@click.option(
    "--api-key",
    envvar="HEADRACE_API_KEY",
    help="Key that clients must send as X-API-Key; better set by the environment's HEADRACE_API_KEY.",
)
@click.option("--access-log", is_flag=True, help="Write each answer to standard error as a line of JSON.")
@click.option("--cors", is_flag=True, help="Let web pages from elsewhere send requests.")
@click.option("--gzip", is_flag=True, help="Compress the answers of /v1 too, for clients that accept it.")
@click.option("--strict-json", is_flag=True, help="Write null for NaN and infinities, and refuse them as bare tokens.")
@click.option("--json", "as_json", is_flag=True, help="Print where the server listens as one line of JSON.")
def serve(
    context: click.Context,
    folders: dict[str, Path],
    models_dir: Path | None,
    config: Path | None,
    policy: VersionPolicy,
    labels: dict[str, dict[str, int]],
    poll: float,
    host: str,
    port: int,
    max_request_bytes: int,
    max_batch_size: int,
    batch_timeout: float,
    adaptive_batching: bool,
    allowed_batch_sizes: tuple[int, ...],
    max_queued_batches: int,
    threads: int,
    blas_threads: int,
    request_timeout: float,
    max_concurrency: int,
    lame_duck: float,
    grace: int,
    workers: int,
    grpc_port: int | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    api_key: str | None,
    access_log: bool,
    cors: bool,
    gzip: bool,
    strict_json: bool,
    as_json: bool,
) -> None:
    """Serve exported models over HTTP by TensorFlow Serving's routes.

    \b
    headrace serve --model mnist=models/mnist --port 8501
    curl -d '{"instances": [...]}' http://127.0.0.1:8501/v1/models/mnist:predict

    Runs until SIGTERM or Ctrl-C, then answers the requests that it has taken and exits with 0.
    """  # noqa: D301  click keeps lines apart after the character that \b stands for
    if not (folders or models_dir or config):
        raise click.UsageError("Missing option '--model', '--models-dir' or '--config'.")
    unknown = [name for name in labels if name not in folders]
    if unknown:
        raise click.UsageError(f"--label names {unknown[0]!r}, which is no model of --model")
    if (tls_certificate is None) != (tls_key is None):
        raise click.UsageError("--tls-certificate and --tls-key need each other.")
    if workers > 1 and not hasattr(signal, "SIGHUP"):
        raise click.UsageError("--workers need a system that lets processes share a socket, which Windows does not.")
    if workers > 1 and grpc_port == 0:
        raise click.UsageError("--workers need a --grpc-port that all of them can have, not 0.")
    place = worker_place()
    if workers > 1 and place is None:
        context.exit(_supervise(context.meta[_ARGUMENTS], host, port, workers, lame_duck + grace, as_json=as_json))
    threads = max(1, threads // workers)
    try:
        batching = (
            BatchingOptions(
                max_batch_size,
                batch_timeout,
                allowed_batch_sizes or usual_sizes(max_batch_size),
                max_queued_batches,
                adaptive_batching,
            )
            if max_batch_size
            else None
        )
        models = Models(folders, labels, policy, models_dir, config)
        repository = ModelRepository()
        load = functools.partial(load_model, mapped=place is not None)  # workers share the files' pages
        manager = ModelManager(repository, models.catalog, load, _warm_up_sizes(batching))
        keep_out_of_collections()
        manager.reload()
        _check_loaded(repository, folders)
        listener = listen(host, port) if place is None else place.listener
    except (HeadraceError, OSError) as error:
        raise click.ClickException(str(error)) from error
    limit_blas(blas_threads)
    server = ModelServer(repository, manager=manager, strict_json=strict_json)
    app = create_app(
        server,
        max_request_bytes=max_request_bytes,
        threads=threads,
        gzip=gzip,
        batching=batching,
        request_timeout=request_timeout,
        max_concurrency=max_concurrency,
        api_key=api_key or None,
        access_log=access_log,
        cors=cors,
    )
    if access_log:
        _log_to_standard_error("headrace_serving.access")
    endpoint = app.state.endpoint
    if place is not None:
        endpoint.siblings = Siblings(place.folder)
        endpoint.siblings.answer(endpoint.respond, endpoint.counts)
    grpc = None if grpc_port is None else _start_grpc(endpoint, host, grpc_port, tls_certificate, tls_key, workers)
    if poll:
        manager.start_polling(poll)

    grpc_ended: list[threading.Event] = []

    def stopping() -> None:
        server.accepts = False

    def ending() -> None:
        if grpc is not None:
            grpc_ended.append(grpc[0].stop(grace))  # returns at once

    def announce() -> None:
        as_line = as_json or place is not None
        scheme = "http" if tls_certificate is None else "https"
        click.echo(_announcement(repository, url_of(listener, scheme), grpc and grpc[1], as_json=as_line))

    run(
        app,
        listener,
        announce,
        certificate=None if tls_certificate is None or tls_key is None else (tls_certificate, tls_key),
        stopping=stopping,
        ending=ending,
        hangup=manager.retry,
        lame_duck=lame_duck,
        grace=grace,
        turns=None if place is None else place.turns,
    )
    for event in grpc_ended:
        event.wait(grace)
    if endpoint.siblings is not None:
        endpoint.siblings.close()
    _end(endpoint.executor)


def _supervise(arguments: list[str], host: str, port: int, workers: int, last_seconds: float, *, as_json: bool) -> int:
    """Run workers with these arguments, and return the exit code."""
    try:
        listener = listen(host, port)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    return supervise(
        arguments,
        listener,
        workers,
        lambda line: click.echo(line.strip() if as_json else _spelt(json.loads(line))),
        last_seconds,
    )


def _start_grpc(
    endpoint: Endpoint, host: str, port: int, certificate: Path | None, key: Path | None, workers: int
) -> tuple[Any, int]:
    """Serve over gRPC too; the server and its port."""
    try:
        from headrace_serving.grpc_service import Certificate, start_grpc
    except ImportError as error:
        raise click.ClickException("--grpc-port needs grpcio: pip install 'headrace-serving[grpc]'") from error
    shown = None if certificate is None or key is None else Certificate(certificate.read_bytes(), key.read_bytes())
    try:
        return start_grpc(endpoint, host, port, certificate=shown, shared_port=workers > 1)
    except OSError as error:
        raise click.ClickException(str(error)) from error


def _log_to_standard_error(name: str) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler())
    logger.propagate = False


def _end(executor: Executor) -> None:
    """End the process by itself, or at once with 0 if a model goes on computing what nobody waits for any more."""
    closing = threading.Thread(target=executor.close, daemon=True)
    closing.start()
    closing.join(_LAST_SECONDS)
    if closing.is_alive():
        sys.stdout.flush()
        os._exit(0)


@dataclass(frozen=True, slots=True)
class Models:
    """Where the options say that models are."""

    folders: Mapping[str, Path]
    labels: Mapping[str, Mapping[str, int]]
    policy: VersionPolicy
    models_dir: Path | None
    config: Path | None

    def catalog(self) -> dict[str, ModelConfig]:
        """Return the models that there are now; --model goes before --config, and --config before --models-dir."""
        found = {} if self.models_dir is None else models_in(self.models_dir, self.policy)
        found |= {} if self.config is None else read_models(self.config)
        return found | {
            name: ModelConfig(folder, self.policy, self.labels.get(name, {})) for name, folder in self.folders.items()
        }


def _warm_up_sizes(batching: BatchingOptions | None) -> tuple[int, ...]:
    return (1,) if batching is None else batching.allowed_sizes or (1, batching.max_batch_size)


def _check_loaded(repository: ModelRepository, folders: Mapping[str, Path]) -> None:
    """Check that each model that was named has a version that answers."""
    for name, folder in folders.items():
        versions = repository.versions(ModelSpec(name)) if name in repository.names else []
        if all(version.state is not State.AVAILABLE for version in versions):
            version_folders(folder)  # tells more where there is no version at all
            raise no_version_loads(name, folder, versions)


def _announcement(repository: ModelRepository, url: str, grpc_port: int | None, *, as_json: bool) -> str:
    models = {
        name: [
            str(version.number) for version in repository.versions(ModelSpec(name)) if version.state is State.AVAILABLE
        ]
        for name in repository.names
    }
    address = urlsplit(url)
    found: dict[str, Any] = {"url": url, "host": address.hostname, "port": address.port, "models": models}
    if grpc_port is not None:
        found["grpc_port"] = grpc_port
    return json.dumps(found) if as_json else _spelt(found)


def _spelt(found: dict[str, Any]) -> str:
    lines = [f"Listening on {found['url']}; Ctrl-C stops."]
    if "grpc_port" in found:
        lines.append(f"gRPC on port {found['grpc_port']}")
    lines += [
        f"{found['url']}/v1/models/{name} (version {', '.join(numbers)})" for name, numbers in found["models"].items()
    ]
    return "\n".join(lines)
