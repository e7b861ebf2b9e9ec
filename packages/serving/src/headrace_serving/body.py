"""Taking in the body of a request within a limit, before and after inflating."""

from __future__ import annotations

import zlib

import numpy as np
from starlette.types import Receive

from headrace_serving.errors import BadRequestError, EncodingError, RequestTooLargeError
from headrace_serving.protocol import Place

_WINDOWS = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}  # 16: gzip's header instead of zlib's
_ALIGNMENT = 64  # NumPy's own arrays need no more than 16
_LEVEL = 1  # the fastest: tensors hardly get smaller with more effort


async def read_body(
    receive: Receive,
    headers: dict[bytes, bytes],
    limit: int,
    lead: int | None = None,
    place: Place | None = None,
) -> bytes | memoryview:
    """Return the whole body as it was sent.

    Args:
      receive: the ASGI channel.
      headers: the request's headers, names in lower case.
      limit: most bytes to take.
      lead: bytes after which numbers follow that should lie in memory as arrays have them; None for no numbers.
      place: receives the body in given memory; None if the server cannot.
    Raises:
      RequestTooLargeError: the body is longer, or says so.
      BadRequestError: the client went away before its end.
    """
    digits = headers.get(b"content-length", b"")
    stated = int(digits) if digits.isdigit() else 0
    if stated > limit:
        raise _too_large(limit, f"a body of {stated} bytes")
    if place is not None:
        memory = _Placed(stated, -(lead or 0) % _ALIGNMENT)
        try:
            if await place(memory.room()):
                return memory.whole()
        except ConnectionResetError as error:
            raise _gone("a part of it") from error
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit, f"{len(body)} bytes so far")
        return body
    pieces = _Joined() if lead is None else _Placed(stated, -lead % _ALIGNMENT)
    while True:
        if message["type"] == "http.disconnect":
            raise _gone(f"{pieces.size} bytes")
        pieces.add(message.get("body", b""))
        if pieces.size > limit:
            raise _too_large(limit, f"{pieces.size} bytes so far")
        if not message.get("more_body", False):
            return pieces.whole()
        message = await receive()


class _Joined:
    """A body that comes in pieces, for a parser of text. Mutable."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Append a piece."""
        self.size += len(piece)
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """Return all pieces."""
        return b"".join(self._pieces)


class _Placed:
    """A body that comes in pieces, each of which is put at its place at once: that saves two copies. Mutable.

    Args:
      stated: how long it should be; it may turn out to be otherwise.
      start: where its first byte is put, counted from one that is aligned.
    """

    def __init__(self, stated: int, start: int) -> None:
        self.size = 0
        self._start = start
        self._memory = np.empty(start + stated, np.uint8)

    def add(self, piece: bytes) -> None:
        """Append a piece."""
        end = self._start + self.size + len(piece)
        if end > len(self._memory):  # no length was stated
            self._memory = np.concatenate([self._memory, np.empty(end, np.uint8)])
        self._memory[end - len(piece) : end] = np.frombuffer(piece, np.uint8)
        self.size += len(piece)

    def room(self) -> memoryview:
        """Return the memory for all pieces, to be filled at once."""
        self.size = len(self._memory) - self._start
        return self.whole()

    def whole(self) -> memoryview:
        """Return all pieces."""
        return self._memory.data[self._start : self._start + self.size]


def decoded(body: bytes | memoryview, encoding: bytes, limit: int) -> bytes | memoryview:
    """Return a body as it was before its Content-Encoding.

    Args:
      body: as it was sent.
      encoding: value of the header; gzip and deflate are inflated, identity and empty mean the body itself.
      limit: most bytes to inflate to.
    Raises:
      BadRequestError: the body is not so encoded, or damaged.
      RequestTooLargeError: it inflates to more than the limit; no more than that is held.
      EncodingError: another encoding.
    """
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    if name not in _WINDOWS:
        raise EncodingError(
            "the Content-Encoding of the request is not supported",
            expected="gzip, deflate or identity",
            got=name.decode("latin-1"),
            hint="send the body as it is",
        )
    inflater = zlib.decompressobj(_WINDOWS[name])
    try:
        inflated = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise _damaged(name.decode(), str(error)) from error
    if len(inflated) > limit:
        raise _too_large(limit, f"{len(body)} bytes of {name.decode()} that inflate to more")
    if not inflater.eof:
        raise _damaged(name.decode(), "it ends too early")
    return inflated


def encoded(body: bytes, encoding: bytes) -> bytes:
    """Return a body compressed by gzip or deflate.

    Example:
      >>> decoded(encoded(b"abc", b"deflate"), b"deflate", 3)
      b'abc'
    """
    deflater = zlib.compressobj(_LEVEL, wbits=_WINDOWS[encoding])
    return deflater.compress(body) + deflater.flush()


def accepted_encoding(header: bytes) -> bytes | None:
    """Return gzip or deflate, whichever the value of an Accept-Encoding header likes better; None for neither.

    Example:
      >>> accepted_encoding(b"deflate;q=0.5, gzip")
      b'gzip'
    """
    weights: dict[bytes, float] = {}
    for item in header.lower().split(b","):
        name, _, parameter = item.partition(b";")
        try:
            weights[name.strip()] = float(parameter.partition(b"q=")[2] or 1)
        except ValueError:
            weights[name.strip()] = 0
    return max((name for name in _WINDOWS if weights.get(name, 0) > 0), key=lambda name: weights[name], default=None)


def _gone(got: str) -> BadRequestError:
    return BadRequestError(
        "the client went away before the end of the request",
        expected="the whole body",
        got=got,
        hint="keep the connection open until the answer is there",
    )


def _damaged(encoding: str, got: str) -> BadRequestError:
    return BadRequestError(
        f"cannot inflate the {encoding} body",
        expected=f"one whole {encoding} stream",
        got=got,
        hint="compress the body, or leave out the header Content-Encoding",
    )


def _too_large(limit: int, got: str) -> RequestTooLargeError:
    return RequestTooLargeError(
        "the request is too large",
        expected=f"at most {limit} bytes",
        got=got,
        hint="send fewer instances at a time, or start the server with a higher --max-request-bytes",
    )
