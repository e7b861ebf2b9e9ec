"""The functions of `hr.strings`, in one small pipeline and one by one."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def run(build, *values):
    """Build a function of string placeholders and run it on values."""
    graph = hr.Graph()
    arrays = [np.array(value, object) for value in values]
    with graph.as_default():
        inputs = [hr.placeholder(hr.string, array.shape) for array in arrays]
        output = build(*inputs)
    return hr.Session(graph).run(output, feeds=dict(zip(inputs, arrays, strict=True)))


def test_lines_of_numbers_become_a_tensor() -> None:
    def parse(lines):
        _, pieces, _ = hr.strings.split(lines, ",")
        return hr.reshape(hr.strings.to_number(pieces), [2, 2])

    assert run(parse, [b"1,2", b"3,4.5"]).tolist() == [[1, 2], [3, 4.5]]


def test_bytes_of_images_become_numbers() -> None:
    pixels = run(lambda x: hr.strings.decode_raw(x, hr.uint8), [b"\x00\xff", b"\x01\x02"])
    assert pixels.tolist() == [[0, 255], [1, 2]]


def test_case_length_and_parts() -> None:
    words = ["Größe".encode(), b"AB"]
    assert run(hr.strings.length, words).tolist() == [7, 2]
    assert run(lambda x: hr.strings.length(x, "UTF8_CHAR"), words).tolist() == [5, 2]
    assert run(hr.strings.lower, words).tolist() == ["größe".encode(), b"ab"]
    assert run(lambda x: hr.strings.upper(x, "utf-8"), words).tolist() == ["GRÖSSE".encode(), b"AB"]
    assert run(lambda x: hr.strings.substr(x, -2, 1), words).tolist() == [b"\x9f", b"A"]


def test_numbers_are_written_and_joined() -> None:
    def label(x):
        return hr.strings.join([x, hr.strings.as_string([1, 2], width=3, fill="0")], separator=":")

    assert run(label, [b"a", b"b"]).tolist() == [b"a:001", b"b:002"]


@pytest.mark.parametrize("text", [b"0x", b"9" * 1000, b"--1"])
def test_text_that_is_not_a_number_is_named(text) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="a string is not a number"):
        run(lambda x: hr.strings.to_number(x, hr.int64), [text])


def test_strings_have_no_derivative_and_say_so() -> None:
    with hr.Graph().as_default():
        x = hr.constant([1.0])
        y = hr.strings.to_number(hr.strings.as_string(x))
        assert hr.gradients(y, [x]) == [None]
        assert "its input is a string" in hr.explain_gradient(y, x)


@pytest.mark.parametrize("text", [b"a+/b", b"abcde", b"ab=c", b"a b "])
def test_what_is_no_base64_is_refused(text: bytes) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="a string is no base64[^$]*letters, digits, - and _"):
        run(lambda x: hr.apply_op("DecodeBase64", x), [text])
    assert run(lambda x: hr.apply_op("DecodeBase64", x), [b"_-8=", b"_-8"]).tolist() == [b"\xff\xef"] * 2
