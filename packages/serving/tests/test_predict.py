"""Predict bodies and answers: TensorFlow Serving's rules, each as one row of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from headrace.types import Array
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.predict import format_predict, parse_predict

Case = tuple[str, str, str]

TWO = 'instances": [{"x": [1, 2], "n": 3}'
"""The beginning of a good request to the model of two inputs."""

ACCEPTED_ONE = [
    ('{"instances": [[1, 2], [3, 4]]}', [[1, 2], [3, 4]]),
    ('{"instances": [4, 9]}', [4, 9]),
    ('{"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}', [[1, 2], [3, 4]]),
    ('{"instances": [[]]}', [[]]),
    ('{"inputs": [[1, 2], [3, 4]]}', [[1, 2], [3, 4]]),
    ('{"inputs": {"x": [1, 2], "more": "ignored"}}', [1, 2]),
    ('{"inputs": 3.25}', 3.25),
    ('{"inputs": []}', []),
    ('{"unknown": [], "signature_name": "", "inputs": 1} trailing', 1),
    ('{"signature_name": "serving_default", "inputs": 1}', 1),
]

REFUSED_ONE: list[tuple[str, str]] = [
    ("", "JSON Parse error: The document is empty"),
    ("[1]", r"JSON Value: \[1\] Is not object"),
    ("3", "JSON Value: 3 Is not object"),
    ('{"instances": [1.]}', "JSON Parse error"),
    ('{"instances": [1], "inputs": [1]}', "Not formatted correctly expecting only one of 'inputs' or 'instances' keys"),
    ('{"instances": 5}', "Excepting 'instances' to be an list/array"),
    ('{"instances": {"x": 1}}', "Excepting 'instances' to be an list/array"),
    ('{"instances": []}', "No values in 'instances' array"),
    ("{}", "Missing 'inputs' or 'instances' key"),
    ('{"signature_name": 5, "instances": [1]}', "'signature_name' key must be a string value"),
    ('{"signature_name": "z", "instances": [1]}', 'Serving signature name: "z" not found in signature def'),
    (
        '{"instances": [[1, 2], [3]]}',
        "Failed to process element: 1 of 'instances' list. Error: Expecting tensor size: 2 but got: 1",
    ),
    (
        '{"instances": [[1, 2], [[3, 4]]]}',
        r"Failed to process element: 1 of 'instances' list. Error: Expecting shape \[2\] but got: \[1,2\]",
    ),
    (
        '{"instances": [[[1, 2], [3]]]}',
        "Failed to process element: 0 of 'instances' list. Error: Encountered list at unexpected size: 1 at level: 1",
    ),
    ('{"instances": [1, "x"]}', 'element: 1 of .* JSON Value: "x" Type: String is not of expected type: float'),
    ('{"instances": [1, [2]]}', r"element: 1 of .* Expecting shape \[\] but got: \[1\]"),
    ('{"instances": [1, {"x": 1}]}', "Expecting value/list but got object at item 1 of input list"),
    ('{"instances": [{"x": 1}, 1]}', "Expecting object but got list at item 1 of input list"),
    ('{"instances": [{"x": 1}, {"b64": ""}]}', "Expecting object but got list at item 1 of input list"),
    ('{"instances": [{"y": 1}]}', "element: 0 of 'instances' list. JSON object: .* keys must be equal to: x"),
    ('{"instances": [{"x": 1, "y": 1}]}', "element: 0 of 'instances' list. JSON object: .* keys must be equal to: x"),
    ('{"instances": [{"b64": "/9j/4AA="}]}', "element: 0 of .* Type: Object is not of expected type: float"),
    ('{"inputs": {"y": 1}}', "Missing named input: x in 'inputs' object"),
    ('{"inputs": null}', "JSON Value: null Type: Null is not of expected type: float"),
    ('{"inputs": {"x": [[1, 2], [3]]}}', "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
]

REFUSED_TWO: list[tuple[str, str]] = [
    (
        '{"instances": [1]}',
        "instances is a plain list, but expecting list of objects as multiple input tensors required",
    ),
    ('{"inputs": [1]}', "inputs is a plain value/list, but expecting an object as multiple input tensors required"),
    ('{"inputs": {"x": [[1, 2]]}}', "Missing named input: n in 'inputs' object"),
    ('{"instances": [{"x": [1, 2]}]}', "element: 0 of .* keys must be equal to: n,x"),
    (f'{{"{TWO}, {{"x": [1, 2]}}]}}', "element: 1 of .* keys must be equal to: n,x"),
    (
        f'{{"{TWO}, {{"x": [1, 2], "n": 2.5}}]}}',
        "element: 1 key: n of 'instances' list. Error: JSON Value: 2.5 Type: Num",
    ),
    (
        f'{{"{TWO}, {{"x": [1], "n": 2}}]}}',
        "element: 1 key: x of 'instances' list. Error: Expecting tensor size: 2 but",
    ),
    (
        '{"inputs": {"x": [[1, 2, 3]], "n": [1]}}',
        r"Input 'x' has a shape .*\n  expected: \[\?, 2\]\n  got:      \[1, 3\]",
    ),
    ('{"inputs": {"x": [1, 2], "n": [1]}}', r"Input 'x' has a shape .*\n  expected: \[\?, 2\]\n  got:      \[2\]"),
]


@pytest.mark.parametrize(("body", "expected"), ACCEPTED_ONE)
def test_one_input(echo: Callable[..., Any], body: str, expected: object) -> None:
    request = parse_predict(body.encode(), echo("float32").signatures)
    assert request.by_row == ("instances" in body)
    np.testing.assert_array_equal(request.inputs["x"], np.array(expected, np.float32), strict=True)


@pytest.mark.parametrize(("body", "message"), REFUSED_ONE)
def test_S03_refused_with_the_reason(echo: Callable[..., Any], body: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_predict(body.encode(), echo("float32").signatures)


@pytest.mark.parametrize(("body", "message"), REFUSED_TWO)
def test_refused_with_several_inputs(half: Any, body: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_predict(body.encode(), half.signatures)


def test_S07_more_dimensions_in_the_signature_than_in_the_request(make_signature: Callable[..., Any]) -> None:
    signature = make_signature({"x": ("int32", [None, 1])}, {}, lambda x: {})
    with pytest.raises(BadRequestError, match=r"Input 'x' has a shape .*\n  expected: \[\?, 1\]\n  got:      \[1\]"):
        parse_predict(b'{"instances": [5]}', {"serving_default": signature})


def test_several_inputs_by_row_and_by_column(half: Any) -> None:
    by_row = parse_predict(
        b'{"signature_name": "score", "instances": [{"x": [1, 2], "n": 3}, {"n": 4, "x": [5, 6]}]}', half.signatures
    )
    by_column = parse_predict(b'{"inputs": {"n": [3, 4], "x": [[1, 2], [5, 6]]}}', half.signatures)
    assert (by_row.by_row, by_column.by_row) == (True, False)
    for alias in ("x", "n"):
        np.testing.assert_array_equal(by_row.inputs[alias], by_column.inputs[alias], strict=True)


def test_columns_may_have_different_batches(make_signature: Callable[..., Any]) -> None:
    signature = make_signature({"a": ("int32", [None]), "t": ("float64", [])}, {}, lambda a, t: {})
    inputs = parse_predict(b'{"inputs": {"a": [1, 2], "t": 0.7}}', {"serving_default": signature}).inputs
    assert (inputs["a"].tolist(), inputs["t"].shape, inputs["t"].item()) == ([1, 2], (), 0.7)


def test_rows_that_together_have_too_many_dimensions(echo: Callable[..., Any]) -> None:
    body = b'{"instances": [' + b"[" * 32 + b"]" * 32 + b"]}"
    with pytest.raises(BadRequestError, match="^Encountered list at unexpected level: 32 expected < 32"):
        parse_predict(body, echo("float32").signatures)


def test_base64_strings_by_row_and_by_column(echo: Callable[..., Any]) -> None:
    signatures = echo("string").signatures
    assert parse_predict(b'{"instances": [{"b64": "aGk="}, "x"]}', signatures).inputs["x"].tolist() == [b"hi", b"x"]
    assert parse_predict(b'{"inputs": {"b64": "aGk="}}', signatures).inputs["x"].item() == b"hi"


def test_an_unsupported_dtype_stays_unsupported(echo: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedError, match="Conversion of JSON Value: 1 to type: half"):
        parse_predict(b'{"instances": [1]}', echo("float16").signatures)


F32 = np.float32
ANSWERS: list[tuple[dict[str, Array], bool, object]] = [
    ({"y": np.array([0.25, 0.75], F32)}, True, {"predictions": [0.25, 0.75]}),
    (
        {"p": np.array([0.25, 0.75], F32), "cls": np.array([0, 1])},
        True,
        {"predictions": [{"p": 0.25, "cls": 0}, {"p": 0.75, "cls": 1}]},
    ),
    (
        {"p": np.array([[0.25], [0.75]], F32), "name_bytes": np.array([b"a", b"b"], object)},
        True,
        {"predictions": [{"p": [0.25], "name_bytes": {"b64": "YQ=="}}, {"p": [0.75], "name_bytes": {"b64": "Yg=="}}]},
    ),
    ({"y": np.zeros([0, 3], F32)}, True, {"predictions": []}),
    ({"y": np.zeros([0], F32), "z": np.zeros([0])}, True, {"predictions": []}),
    ({"y": np.array([[0.25], [0.75]], F32)}, False, {"outputs": [[0.25], [0.75]]}),
    ({"y": np.array(1.5, F32)}, False, {"outputs": 1.5}),
    ({"p": np.array([0.25]), "n": np.array(3)}, False, {"outputs": {"p": [0.25], "n": 3}}),
]


@pytest.mark.parametrize(("outputs", "by_row", "expected"), ANSWERS)
def test_answers(outputs: dict[str, Array], by_row: bool, expected: object) -> None:
    assert orjson.loads(format_predict(outputs, by_row=by_row)) == expected


def test_rows_with_values_that_are_not_finite() -> None:
    outputs = {"p": np.array([np.nan, 1], F32), "q": np.array([[1, np.inf], [2, 3]], F32)}
    assert (
        format_predict(outputs, by_row=True)
        == b'{"predictions":[{"p":NaN,"q":[1.0,Infinity]},{"p":1.0,"q":[2.0,3.0]}]}'
    )


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"y": np.array(1.5)}, "Tensor name: y has no shape information"),
        ({"y": np.zeros(2), "z": np.array(1.5)}, "Tensor name: z has no shape information"),
        ({"y": np.zeros(2), "z": np.zeros(3)}, "Tensor name: z has inconsistent batch size: 3 expecting: 2"),
        ({}, "Cannot convert empty tensor map to JSON"),
    ],
)
def test_outputs_without_rows(outputs: dict[str, Array], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        format_predict(outputs, by_row=True)
