"""Large documents of numbers: read as arrays where nothing is lost by that, and left alone elsewhere."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace_serving import json_numbers
from headrace_serving.errors import BadRequestError
from headrace_serving.infer import parse_infer
from headrace_serving.json_numbers import parse_numbers
from headrace_serving.json_value import show
from headrace_serving.predict import parse_predict

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no simdjson for this Python")
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = NUMBERS | st.booleans() | st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@pytest.fixture(name="however_small")
def _however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_numbers, "_MIN_NUMBERS", 1)


def plain(value: Any) -> Any:
    """Return a value with its arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@given(
    st.recursive(
        PLAIN | st.lists(NUMBERS, max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab["), inner, max_size=3),
        max_leaves=12,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_read_is_what_was_written(however_small: None, document: Any) -> None:
    parsed = parse_numbers(json.dumps({"instances": document}).encode())
    if parsed is not None:
        assert same(parsed, {"instances": document})


def same(read: Any, written: Any) -> bool:
    """Whether a value is what was written; integers among other numbers are read as those."""
    if isinstance(read, np.ndarray) and read.dtype == np.float64:
        return bool(np.array_equal(read, np.array(written, np.float64)))
    if isinstance(read, dict):
        return read.keys() == written.keys() and all(same(read[key], written[key]) for key in read)
    if isinstance(read, list):
        return len(read) == len(written) and all(map(same, read, written))
    return bool(plain(read) == written)


@pytest.mark.parametrize("shape", [(7,), (2, 3), (1, 2, 3), (2, 1, 1, 2)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_lists_of_equal_lengths_become_arrays(however_small: None, shape: tuple[int, ...], dtype: type) -> None:
    numbers = (np.arange(np.prod(shape)) + (0.5 if dtype is np.float64 else 0)).reshape(shape).astype(dtype)
    parsed = parse_numbers(json.dumps({"inputs": {"x": numbers.tolist()}, "name": "[1"}).replace("[1", "1").encode())
    assert isinstance(parsed, dict)
    assert isinstance(parsed["inputs"], dict)
    found = parsed["inputs"]["x"]
    assert isinstance(found, np.ndarray)
    assert found.dtype == dtype
    assert found.tolist() == numbers.tolist()


@pytest.mark.parametrize(
    "text",
    [
        "[[1, 2], [3]]",
        "[[1, 2, 3], [4]]",
        "[[1, 2], 3, 4]",
        "[[1, [2]]]",
        "[[1, 2], [3, [4]]]",
        "[[[1], [2]], [[3], 4]]",
        "[[], [1]]",
        "[1, true]",
        "[1, null]",
        '[1, "2"]',
        "[1, NaN]",
        "[1e400]",
        "[1] 2",
        '[1], "a": [2]',
        '[1], "b": "["',
        "[" * 40 + "1" + "]" * 40,
        "[" * 5000,
        "[" + ", ".join(['{"x": [1]}'] * 100) + "]",
    ],
)
def test_whatever_is_unusual_is_left_alone(however_small: None, text: str) -> None:
    parsed = parse_numbers(f'{{"a": {text}}}'.encode())
    assert parsed is None or not isinstance(plain(parsed)["a"], np.ndarray)
    if parsed is not None:
        assert plain(parsed) == json.loads(f'{{"a": {text}}}')


ROWS = np.random.default_rng(0).normal(size=(200, 30))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_requests_give_the_same_tensors(echo: Any, dtype: str) -> None:
    model = echo(dtype, [None, 30])
    request = parse_predict(json.dumps({"instances": ROWS.tolist()}).encode(), model.signatures)
    assert request.inputs["x"].dtype == dtype
    np.testing.assert_array_equal(request.inputs["x"], ROWS.astype(dtype))
    columns = parse_predict(json.dumps({"inputs": {"x": ROWS.tolist()}}).encode(), model.signatures)
    np.testing.assert_array_equal(columns.inputs["x"], ROWS.astype(dtype))
    entry = {"name": "x", "shape": [200, 30], "datatype": {"float32": "FP32"}.get(dtype, "FP64")}
    for data in (ROWS.tolist(), ROWS.ravel().tolist()):
        body = json.dumps({"inputs": [entry | {"data": data}]}).encode()
        np.testing.assert_array_equal(parse_infer(body, None, model.signatures).inputs["x"], ROWS.astype(dtype))


def test_the_parser_is_kept_but_not_after_errors_nor_for_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one for each document of megabytes waited for the system to clear its memory."""
    numbers = {"a": ROWS.tolist()}
    body = json.dumps(numbers).encode()
    assert plain(parse_numbers(body)) == numbers
    kept = json_numbers._kept.parser
    assert kept is not None
    first = parse_numbers(body)
    assert plain(parse_numbers(memoryview(json.dumps({"a": (ROWS + 1).tolist()}).encode()))) is not None
    assert json_numbers._kept.parser is kept
    assert plain(first) == numbers  # what was read before is its caller's own
    for unusual in (b'{"a": [1, 2], "a": 3}', b'{"a": [[1], 2]}', b"{", body[:-1]):
        assert parse_numbers(unusual) is None
        assert plain(parse_numbers(body)) == numbers
    monkeypatch.setattr(json_numbers, "_KEPT_BYTES", len(body) - 1)
    assert plain(parse_numbers(body)) == numbers
    assert json_numbers._kept.parser is None


def test_large_requests_of_integers(echo: Any) -> None:
    numbers = np.arange(6000).reshape(200, 30)
    body = json.dumps({"instances": numbers.tolist()}).encode()
    assert len(body) > json_numbers.MIN_BYTES
    for dtype in ("int64", "int16", "float32", "uint32"):
        found = parse_predict(body, echo(dtype, [None, 30]).signatures).inputs["x"]
        np.testing.assert_array_equal(found, numbers.astype(dtype))
    with pytest.raises(BadRequestError, match="Type: Number is not of expected type: int8"):
        parse_predict(body, echo("int8", [None, 30]).signatures)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("1.5", "JSON Value: 1.5 Type: Number is not of expected type: int64"),
        ("true", "JSON Value: true Type: True is not of expected type: int64"),
        ('"x"', 'JSON Value: "x" Type: String is not of expected type: int64'),
        ("[1]", "Encountered list at unexpected level"),
        ("9223372036854775808", "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64"),
    ],
)
def test_errors_are_those_of_small_requests(echo: Any, change: str, message: str) -> None:
    rows = json.dumps([[7] * 30] * 300).replace("7", "1000000")
    body = f'{{"instances": {rows.removesuffix("1000000]]")}{change}]]}}'.encode()
    with pytest.raises(BadRequestError) as caught:
        parse_predict(body, echo("int64", [None, 30]).signatures)
    assert message in str(caught.value)


def test_arrays_in_error_texts() -> None:
    assert show({"a": np.arange(3)}) == '{"a": [0, 1, 2]}'
