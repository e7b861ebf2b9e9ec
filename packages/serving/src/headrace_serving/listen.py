"""The thin shell: a socket, the signals that end the process, and uvicorn between them."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from headrace_serving.acceptor import Acceptor, Turns
from headrace_serving.protocol import HttpProtocol

_BACKLOG = 2048
_SWITCH_SECONDS = 0.0005
"""How long a thread that computes in Python keeps the event loop from going on; the default is ten times as long, and
the loop waits so long after each of its calls of the system."""
DEFAULT_GRACE = 30  # seconds


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
      host: address or name; one with a colon is IPv6.
      port: 0 means any free one.
    Raises:
      OSError: the address cannot be had; the text names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends small answers at once only on sockets that name it; on others they
    # wait some 40 ms for the client's acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno, f"cannot listen on {host} port {port}: {error.strerror}; 0 is any free port"
        ) from error
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Return the URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def run(
    app: ASGIApp,
    listener: socket.socket,
    announce: Callable[[], None],
    *,
    certificate: tuple[Path, Path] | None = None,
    stopping: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    hangup: Callable[[], None] = lambda: None,
    lame_duck: float = 0.0,
    grace: int = DEFAULT_GRACE,
    turns: Turns | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then answer the requests that were taken and return.

    uvicorn ends gracefully on both signals, and then raises the signal again for the handler that was there before:
    with the default one the process would die of the signal instead of exiting with 0. So that handler is ours; it also
    stops a server that is only just starting.

    Args:
      app: the application.
      listener: from `listen`; closed at the end. Must be called from the main thread.
      announce: tells whoever waits for the server; called once, when connections are taken and signals handled.
      certificate: files of the server's certificate and of its key, for TLS; None for none.
      stopping: called at once on SIGTERM, to turn new clients away.
      ending: called when no more connections are taken and those that there are end, for what else should end then.
      hangup: called on SIGHUP, on a thread of its own.
      lame_duck: seconds that the server goes on taking connections after SIGTERM, until nobody sends it any.
      grace: seconds that requests have to be answered in at the end.
      turns: whose turn it is to take a connection, if other processes listen on the socket too.
    """
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        lifespan="off",
        proxy_headers=False,
        http=HttpProtocol,
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
        timeout_graceful_shutdown=grace,
    )
    server = _Server(config, stopping, ending, lame_duck, turns)

    def reload(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=hangup, name="headrace-serving-hangup", daemon=True).start()

    handlers: dict[signal.Signals, _Handler] = dict.fromkeys([signal.SIGTERM, signal.SIGINT], server.handle_exit)
    if hasattr(signal, "SIGHUP"):  # Windows has none
        handlers[signal.SIGHUP] = reload
    sys.setswitchinterval(_SWITCH_SECONDS)
    with listener, _handling(handlers):
        announce()
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        stopping: Callable[[], None],
        ending: Callable[[], None],
        lame_duck: float,
        turns: Turns | None,
    ) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._ending = ending
        self._lame_duck = lame_duck
        self._told = False
        self._turns = turns
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections."""
        if self._turns is None or not sockets:
            await super().startup(sockets)
            return
        await super().startup([])
        state = self.server_state
        self._acceptor = Acceptor(
            sockets[0],
            self._turns,
            lambda: HttpProtocol(self.config, state, self.lifespan.state),
            lambda: len(state.connections),
            self.config.ssl,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all connections."""
        if self._acceptor is not None:
            self._acceptor.close()
        self._ending()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take the first SIGTERM as the beginning of the end, and any other signal as the end."""
        if sig != signal.SIGTERM or self._told or not self._lame_duck:
            self._stopping()
            super().handle_exit(sig, frame)
            return
        self._told = True
        self._stopping()
        timer = threading.Timer(self._lame_duck, super().handle_exit, (sig, frame))
        timer.daemon = True
        timer.start()


_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def _handling(handlers: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
