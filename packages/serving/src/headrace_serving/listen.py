"""The thin shell: a socket, the signals that end the process, and uvicorn between them."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

_BACKLOG = 2048
_GRACE_SECONDS = 30


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
      host: address or name; one with a colon is IPv6.
      port: 0 means any free one.
    Raises:
      OSError: the address cannot be had; the text names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from error


def url_of(listener: socket.socket) -> str:
    """Return the URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: ASGIApp, listener: socket.socket, announce: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests that were taken and return.

    uvicorn ends gracefully on both signals, and then raises the signal again for the handler that was there before:
    with the default one the process would die of the signal instead of exiting with 0. So that handler is ours; it also
    stops a server that is only just starting.

    Args:
      app: the application.
      listener: from `listen`; closed at the end. Must be called from the main thread.
      announce: tells whoever waits for the server; called once, when connections are taken and signals handled.
    """
    config = uvicorn.Config(
        app, access_log=False, log_level="warning", lifespan="off", timeout_graceful_shutdown=_GRACE_SECONDS
    )
    server = uvicorn.Server(config)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    with listener, _handling([signal.SIGTERM, signal.SIGINT], stop):
        announce()
        server.run(sockets=[listener])


@contextmanager
def _handling(signals: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
