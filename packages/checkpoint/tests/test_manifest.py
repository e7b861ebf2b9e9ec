"""The manifest of a step: exact, sealed, and refused when anything in it is not as it must be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import DataLossError, InvalidArgumentError, UnimplementedError
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.checksum import crc32c
from headrace_checkpoint.manifest import Chunk, Manifest, StoredFile, StoredTensor, plain_metrics, plain_objects

MANIFEST = Manifest(
    step=42,
    time=1.5,
    tensors={"größe": StoredTensor("float32", (2, 3), (Chunk(Box((0, 0), (2, 3)), "shard", "0123abcd"),))},
    files={"shard": StoredFile(88, "deadbeef")},
    streams={"dropout": (2**64 - 1, 2**127)},
    objects={"epoch": 3, "seeds": [1, {"a": None}]},
    metrics={"loss": 0.25},
)


CHUNK = {"offset": [], "shape": [], "file": "shard", "crc32c": ""}


def _sealed(content: Any) -> bytes:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return body + f"\ncrc32c {crc32c(body):08x}\n".encode()


def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(MANIFEST.encode().rpartition(b"\ncrc32c")[0])
    return content


def test_round_trip() -> None:
    assert Manifest.decode(MANIFEST.encode(), "here") == MANIFEST


def test_every_flipped_bit_and_every_truncation_is_found() -> None:
    good = MANIFEST.encode()
    for index in range(len(good)):
        for bad in (good[:index], good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :]):
            with pytest.raises(DataLossError, match=r"not a valid manifest[^$]*where: *here\n"):
                Manifest.decode(bad, "here")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "other"),
        ("step", -1),
        ("step", 1.5),
        ("step", None),
        ("time", "x"),
        ("tensors", []),
        ("tensors", {"a": {"dtype": 1, "shape": [], "chunks": []}}),
        ("tensors", {"a": {"dtype": "x", "shape": ["1"], "chunks": []}}),
        (
            "tensors",
            {"a": {"dtype": "x", "shape": [], "chunks": [{"offset": [], "shape": [], "file": [], "crc32c": ""}]}},
        ),
        ("files", {"f": 3}),
        ("files", {"f": {"size": "1", "header_crc32c": ""}}),
        ("streams", {"a": [1]}),
        ("streams", {"a": [1, -1]}),
        ("streams", {"a": 1}),
        ("objects", 3),
        ("metrics", {"a": "b"}),
    ],
)
def test_sealed_nonsense_is_refused(key: str, value: object) -> None:
    with pytest.raises(DataLossError, match="not a valid manifest"):
        Manifest.decode(_sealed({**_content(), key: value}), "here")


@pytest.mark.parametrize("body", [b"[]", b"{}", b"\xff", b"[" * 100_000, b"null"])
def test_sealed_json_of_another_kind_is_refused(body: bytes) -> None:
    with pytest.raises(DataLossError, match="not a valid manifest"):
        Manifest.decode(_sealed(body), "here")


def test_a_missing_key_is_refused() -> None:
    content = _content()
    del content["files"]
    with pytest.raises(DataLossError, match="KeyError: 'files'"):
        Manifest.decode(_sealed(content), "here")


def test_a_later_format_says_what_to_install() -> None:
    with pytest.raises(UnimplementedError, match=r"later version[^$]*got: *7[^$]*upgrade headrace-checkpoint"):
        Manifest.decode(_sealed({**_content(), "version": 7, "min_reader": 4}), "here")


def test_a_later_format_that_old_readers_understand_is_read() -> None:
    assert Manifest.decode(_sealed({**_content(), "version": 7, "new": 1}), "here") == MANIFEST


def test_objects_that_are_not_json() -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be JSON[^$]*got: *bytes: b'x'"):
        Manifest(1, 0.0, {}, {}, objects={"a": b"x"}).encode()
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArgumentError, match="must be JSON"):
        Manifest(1, 0.0, {}, {}, objects={"a": loop}).encode()


@pytest.mark.parametrize(
    ("objects", "got"),
    [
        ({"counts": {1: 2}}, "the key 1 of type int"),
        ({"deep": [{"a": ({True: 1, "True": 2},)}]}, "the key True of type bool"),
        ({"a": {None: 1}}, "the key None of type NoneType"),
        ({"text": "\ud800"}, "surrogates not allowed"),
        ({"\ud800": 1}, "surrogates not allowed"),
        ({"array": {1, 2}}, "set: {1, 2}"),
    ],
)
def test_objects_that_would_be_read_again_as_others_are_refused(objects: dict[str, Any], got: str) -> None:
    """`json` makes text of keys that are none, so that 1 and "1" become one."""
    with pytest.raises(InvalidArgumentError, match="must be JSON") as caught:
        plain_objects(objects)
    assert got in str(caught.value)


def test_objects_that_hold_themselves_or_are_too_deep() -> None:
    itself: list[Any] = []
    itself.append(itself)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in (itself, deep):
        with pytest.raises(InvalidArgumentError, match="must be JSON"):
            plain_objects({"a": wrong})


def test_a_key_that_is_there_twice_is_refused() -> None:
    body = MANIFEST.encode().rpartition(b"\ncrc32c")[0].replace(b'"step": 42,', b'"step": 42, "step": 43,')
    with pytest.raises(DataLossError, match="duplicate key 'step'"):
        Manifest.decode(body + f"\ncrc32c {crc32c(body):08x}\n".encode(), "here")


@pytest.mark.parametrize("metrics", [{"loss": "low"}, {"loss": None}, {"loss": [1, 2]}])
def test_metrics_that_are_no_numbers(metrics: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="a metric of a checkpoint must be a number"):
        plain_metrics(metrics)
