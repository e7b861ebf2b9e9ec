"""uvicorn's protocol of HTTP, with a limit on the time of headers, and bodies that are received where they will lie.

A large body goes through five copies on its usual way: of the receiver's buffer, of the parser, and of the pieces in
three stages. Here its reader may name memory for it; the parser stays out of it then, for it has told how long it is,
and the system's call writes to that memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Awaitable, Callable
from typing import cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["HEADER_SECONDS", "PLACE", "READING_SECONDS", "HttpProtocol", "Place"]

HEADER_SECONDS = 10.0
"""How long a client may take until the end of its headers."""
READING_SECONDS = 30.0
"""How long a client may read nothing of an answer that does not fit into the system's buffers."""
PLACE = "headrace_serving.place"
"""Name of the ASGI extension by which a body is received in given memory."""
Place = Callable[[memoryview], Awaitable[bool]]
"""Fills memory of the length that the headers state with the body; False if it has to be received as usual."""
_LARGE_BYTES = 64 << 10
_SCRATCH_BYTES = 64 << 10
_LEAVE = b"HTTP/1.1 100 "
"""How the answer begins that lets a client send its body; the answer itself comes later."""


class HttpProtocol(HttpToolsProtocol):
    """One connection. Clients that take their time to say what they want are cut off.

    The body has its own limit, the request's; and uvicorn ends connections that are idle between requests.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for headers."""
        super().connection_made(transport)
        self.ws_protocol_class = None  # else what is installed decides who answers requests for WebSockets
        self._heading = True
        self._lost = False
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(HEADER_SECONDS, self._cut_off)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._heading = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the application."""
        self._heading = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # whose answer has no body
            self.cycle.transport = cast(asyncio.Transport, _Together(self.transport))
        length = _stated_length(self.headers)
        if length is not None and length >= _LARGE_BYTES:
            scope = cast(dict[str, object], self.scope)
            scope["extensions"] = {PLACE: functools.partial(self._place, self.cycle, length)}

    def data_received(self, data: bytes) -> None:
        """Parse what has come."""
        super().data_received(data)
        if self._heading and self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._cut_off)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to look whether the client reads: more of its answer waits than the system takes."""
        super().pause_writing()
        self._look_again()

    def _look_again(self) -> None:
        self.loop.call_later(READING_SECONDS, self._look, self._unread())

    def _look(self, before: int) -> None:
        """Cut off a client that has read nothing since the last look: it would keep its answer in memory for ever."""
        if self.flow.write_paused and not self._lost:
            if self._unread() >= before:
                self.transport.abort()
            else:
                self._look_again()

    def _unread(self) -> int:
        """How many bytes the client has not received; those count that the system has taken, as many as megabytes."""
        taken = _taken_by_system(self.transport.get_extra_info("socket").fileno())
        return self.transport.get_write_buffer_size() + taken

    def _cut_off(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    async def _place(self, cycle: RequestResponseCycle, length: int, memory: memoryview) -> bool:
        """Fill memory with the body of a request; see `Place`."""
        begun = len(cycle.body)
        usual = cycle is not self.cycle or cycle.disconnected or cycle.waiting_for_100_continue
        if usual or len(memory) != length or begun > length or cycle.more_body != (begun < length):
            return False
        memory[:begun] = cycle.body
        cycle.body = type(cycle.body)()
        cycle.message_event.clear()
        if begun < length:
            filling = _Filling(self, memory[begun:])
            self._hand_over(filling)
            try:
                await filling.done
            except asyncio.CancelledError:
                filling.discard()
                raise
            finally:
                cycle.more_body = False
        return True

    def _hand_over(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol receive; reading has to stop for that, for it may read in another way."""
        self.flow.pause_reading()
        self.transport.set_protocol(protocol)
        self.flow.resume_reading()

    def take_back(self) -> None:
        """Receive again, from the end of a body that another protocol has received."""
        self.parser = httptools.HttpRequestParser(self)  # the old one waits for that body
        if hasattr(self.parser, "set_dangerous_leniencies"):
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._hand_over(self)


class _Together:
    """A transport that sends the head of an answer with the first piece of its body. Mutable.

    Each call of the system, and the packet that it makes, cost a fifth of a small request.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        self._begun = False

    def write(self, data: bytes) -> None:
        """Send data, or keep it if it is the head."""
        head, self._head = self._head, None
        if not self._begun and not data.startswith(_LEAVE):
            self._begun = True
            self._head = data
        elif head is None:
            self._transport.write(data)
        elif len(data) < _LARGE_BYTES:
            self._transport.write(b"".join((head, data)))
        else:
            self._transport.write(head)
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Return whether nothing can be sent any more."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Send what is kept, and end."""
        if self._head is not None:
            self.write(b"")
        self._transport.close()


class _Filling(asyncio.BufferedProtocol):
    """Receives the rest of a body in given memory.

    Attributes:
      done: is settled when it is full, or the connection lost; then with an error.
    """

    def __init__(self, http: HttpProtocol, memory: memoryview) -> None:
        self._http = http
        self._memory = memory
        self._left = len(memory)
        self._scratch: bytearray | None = None
        self.done: asyncio.Future[None] = http.loop.create_future()

    def discard(self) -> None:
        """Let go of the memory; what comes is read and forgotten, so that the client can read its answer."""
        self._scratch = bytearray(_SCRATCH_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        if self._scratch is not None:
            return memoryview(self._scratch)[: self._left]
        return self._memory[len(self._memory) - self._left :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count what has come."""
        self._left -= nbytes
        if not self._left:
            self._http.take_back()
            self._settle(None)

    def eof_received(self) -> None:
        """End the connection."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell both who waits for the body and the application."""
        self._http.connection_lost(exc)
        self._settle(ConnectionResetError("the connection was lost before the end of the body"))

    def _settle(self, error: Exception | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _taken_by_system(number: int) -> int:
    """Return how many bytes the system still has to send for a socket, known by its number; 0 where nothing tells."""
    try:
        from fcntl import ioctl  # POSIX has these; elsewhere a client counts as reading while the server's own
        from termios import TIOCOUTQ  # buffer gets smaller
    except ImportError:
        return 0
    with contextlib.suppress(OSError):  # not every system knows what is asked
        return int.from_bytes(ioctl(number, TIOCOUTQ, bytes(4)), sys.byteorder)
    return 0


def _stated_length(headers: list[tuple[bytes, bytes]]) -> int | None:
    """Return the length of a body, if it is stated and the body not sent in chunks."""
    length = None
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            length = int(value)
        elif name == b"transfer-encoding":
            return None
    return length
