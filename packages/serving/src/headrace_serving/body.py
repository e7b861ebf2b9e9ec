"""Taking in the body of a request within a limit, before and after inflating."""

from __future__ import annotations

import zlib

from starlette.types import Receive

from headrace_serving.errors import BadRequestError, RequestTooLargeError, UnsupportedError

_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # 16: expect gzip's header


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """Return the whole body as it was sent.

    Args:
      receive: the ASGI channel.
      headers: the request's headers, names in lower case.
      limit: most bytes to take.
    Raises:
      RequestTooLargeError: the body is longer, or says so.
      BadRequestError: the client went away before its end.
    """
    stated = headers.get(b"content-length", b"")
    if stated.isdigit() and int(stated) > limit:
        raise _too_large(limit, f"a body of {stated.decode()} bytes")
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequestError(
                "the client went away before the end of the request",
                expected="the whole body",
                got=f"{size} bytes",
                hint="keep the connection open until the answer is there",
            )
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit, f"{size} bytes so far")
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def decoded(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Return a body as it was before its Content-Encoding.

    Args:
      body: as it was sent.
      encoding: value of the header; gzip is inflated, identity and empty mean the body itself.
      limit: most bytes to inflate to.
    Raises:
      BadRequestError: the body is no gzip, or damaged.
      RequestTooLargeError: it inflates to more than the limit; no more than that is held.
      UnsupportedError: another encoding.
    """
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    if name != b"gzip":
        shown = name.decode("latin-1")
        raise UnsupportedError(
            "the Content-Encoding of the request is not supported",
            expected="gzip or identity",
            got=shown,
            hint="send the body as it is",
        )
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        inflated = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise _damaged(str(error)) from error
    if len(inflated) > limit:
        raise _too_large(limit, f"{len(body)} bytes of gzip that inflate to more")
    if not inflater.eof:
        raise _damaged("it ends too early")
    return inflated


def _damaged(got: str) -> BadRequestError:
    return BadRequestError(
        "cannot inflate the gzip body",
        expected="one whole gzip stream",
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
