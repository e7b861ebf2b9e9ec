"""Bodies within their limit, as sent and as inflated."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import MutableMapping
from typing import Any

import numpy as np
import pytest

from headrace_serving.body import accepted_encoding, decoded, encoded, read_body
from headrace_serving.errors import BadRequestError, EncodingError, RequestTooLargeError


def _read(
    messages: list[MutableMapping[str, Any]], limit: int, lead: int | None = None, **headers: str
) -> bytes | memoryview:
    left = iter(messages)

    async def receive() -> MutableMapping[str, Any]:
        return next(left)

    encoded = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return asyncio.run(read_body(receive, encoded, limit, lead))


def _pieces(*pieces: bytes) -> list[MutableMapping[str, Any]]:
    last = len(pieces) - 1
    return [{"type": "http.request", "body": piece, "more_body": n < last} for n, piece in enumerate(pieces)]


def test_pieces_are_joined_up_to_the_limit() -> None:
    assert _read(_pieces(b"abc", b"", b"de"), 5) == b"abcde"
    assert _read([{"type": "http.request"}], 5) == b""


@pytest.mark.parametrize("stated", ["9", "2", "20", ""])
@pytest.mark.parametrize("lead", [0, 1, 5, 64])
def test_numbers_that_come_in_pieces_lie_as_arrays_have_them(stated: str, lead: int) -> None:
    headers = {"content_length": stated} if stated else {}
    body = _read(_pieces(b"abc", b"", b"defg", b"hi"), 20, lead, **headers)
    assert bytes(body) == b"abcdefghi"
    assert np.frombuffer(body, np.uint8).ctypes.data % 16 == -lead % 16


def test_a_body_that_grows_beyond_the_limit() -> None:
    with pytest.raises(
        RequestTooLargeError, match=r"too large\n.*at most 5 bytes\n.*6 bytes so far\n.*max-request-bytes"
    ):
        _read(_pieces(b"abc", b"def", b"never read"), 5)


def test_a_body_that_says_it_is_beyond_the_limit_is_not_read() -> None:
    with pytest.raises(RequestTooLargeError, match=r"at most 5 bytes\n.*a body of 6 bytes"):
        _read([], 5, content_length="6")


def test_a_client_that_goes_away() -> None:
    with pytest.raises(BadRequestError, match=r"the client went away before the end of the request\n(.*\n)*.*3 bytes"):
        _read([{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}], 5)


@pytest.mark.parametrize("encoding", [b"", b"identity", b" Identity "])
def test_plain_bodies_stay(encoding: bytes) -> None:
    assert decoded(b"abc", encoding, 1) == b"abc"


def test_gzip_is_inflated() -> None:
    assert decoded(gzip.compress(b"abc" * 100), b"GZIP", 300) == b"abc" * 100


def test_a_body_that_inflates_beyond_the_limit() -> None:
    with pytest.raises(RequestTooLargeError, match=r"at most 299 bytes\n.*gzip that inflate to more"):
        decoded(gzip.compress(b"abc" * 100), b"gzip", 299)
    with pytest.raises(RequestTooLargeError, match="at most 1000 bytes"):
        decoded(gzip.compress(b"\0" * 50_000_000), b"gzip", 1000)


@pytest.mark.parametrize(
    ("body", "got"),
    [(b"abc", "incorrect header"), (b"", "too early"), (gzip.compress(b"abc", mtime=0)[:-9], "too early")],
)
def test_what_is_no_gzip(body: bytes, got: str) -> None:
    with pytest.raises(BadRequestError, match=rf"cannot inflate the gzip body\n(.*\n)*.*{got}"):
        decoded(body, b"gzip", 1000)


def test_other_encodings() -> None:
    with pytest.raises(
        EncodingError, match=r"Content-Encoding of the request is not supported\n.*gzip, deflate or identity\n.*br"
    ):
        decoded(b"abc", b"br", 1000)


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_both_encodings_both_ways(encoding: bytes) -> None:
    assert decoded(encoded(b"abc" * 100, encoding), encoding, 300) == b"abc" * 100
    with pytest.raises(RequestTooLargeError, match=rf"bytes of {encoding.decode()} that inflate to more"):
        decoded(encoded(b"\0" * 1001, encoding), encoding, 1000)


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        (b"", None),
        (b"br, *", None),
        (b"gzip", b"gzip"),
        (b"Deflate", b"deflate"),
        (b"gzip, deflate, br", b"gzip"),
        (b"gzip;q=0.3, deflate; q=0.7", b"deflate"),
        (b"gzip;q=0", None),
        (b"gzip;q=x", None),
    ],
)
def test_what_a_client_accepts(header: bytes, encoding: bytes | None) -> None:
    assert accepted_encoding(header) == encoding
