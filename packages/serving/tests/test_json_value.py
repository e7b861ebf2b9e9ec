"""JSON: TensorFlow Serving's two liberties, and limits everywhere else."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_serving.errors import BadRequestError
from headrace_serving.json_value import json_type, parse_json, show


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
        max_leaves=20,
    )
)
def test_ordinary_documents(document: object) -> None:
    assert parse_json(json.dumps(document).encode()) == document


def test_S11_bare_tokens_are_numbers() -> None:
    parsed = parse_json(b'  {"a": [NaN, Infinity, -Infinity, 1, 2.5, 18446744073709551615, 18446744073709551616]}')
    assert isinstance(parsed, dict)
    assert isinstance(parsed["a"], list)
    nan, *rest = parsed["a"]
    assert isinstance(nan, float)
    assert math.isnan(nan)
    assert rest == [math.inf, -math.inf, 1, 2.5, 2**64 - 1, 2.0**64]
    assert [type(number) for number in rest[-2:]] == [int, float]


def test_what_follows_the_document_is_ignored() -> None:
    assert parse_json(b'{"a": 1} and more') == {"a": 1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b" \n", "JSON Parse error: The document is empty"),
        (b'{"instances": [1.]}', "JSON Parse error: .* at offset: 16"),
        (b"{'a': 1}", "JSON Parse error: .* at offset: 1"),
        (b'{"a": ', "JSON Parse error: .* at offset: "),
        (b'{"a": "\xff"}', "JSON Parse error: not UTF-8 at offset: 7"),
        (b"[" * 100_000, "JSON Parse error: nested too deeply"),
        (b'{"a": ' * 100_000, "JSON Parse error: nested too deeply"),
        (b'{"a": 1e400}', "JSON Parse error: Number too big to be stored in double: 1e400"),
        (b'{"a": [NaN, ' + b"9" * 5000 + b"]}", "JSON Parse error: Number too big to be stored in double: 9999"),
    ],
)
def test_what_is_no_json(body: bytes, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_json(body)


def test_long_values_are_shown_in_part() -> None:
    assert show({"a": [1, "é", None]}) == '{"a": [1, "é", null]}'
    assert show("x" * 1000) == '"' + "x" * 255 + "..."
    assert len(show(list(range(100_000)))) == 259
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert show(deep) == "[" * 256 + "..."  # type: ignore[arg-type]  # recursive types of test data


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, "Null"), (True, "True"), (False, "False"), (1, "Number"), (1.5, "Number"), ("", "String"), ([], "Array")],
)
def test_type_names(value: bool | float | str | None, name: str) -> None:
    assert re.fullmatch(name, json_type(value))


def test_without_tokens_and_trailing_text() -> None:
    assert parse_json(b"[1] \n", tokens=False, trailing=False) == [1]
    with pytest.raises(BadRequestError, match="JSON Parse error: -Infinity is no JSON number"):
        parse_json(b"[-Infinity]", tokens=False)
    with pytest.raises(BadRequestError, match="JSON Parse error: Extra data at offset: 5"):
        parse_json(b"[NaN] x", trailing=False)
