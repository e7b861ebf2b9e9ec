"""Classify and regress: TensorFlow Serving's rules, each as one row of a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace_serving.errors import BadRequestError
from headrace_serving.examples import format_classify, format_regress, parse_examples, serialize_example


def test_examples_are_serialized_with_their_context(echo: Callable[..., Any]) -> None:
    body = b'{"context": {"site": "A7"}, "examples": [{"n": 3}, {"n": [1, 2]}]}'
    request = parse_examples(body, echo("string", [None]).signatures)
    assert request.count == 2
    assert request.inputs["x"].tolist() == [
        serialize_example({"site": "A7", "n": 3}),
        serialize_example({"site": "A7", "n": [1, 2]}),
    ]


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        (-1, "1a0c0a0affffffffffffffffff01"),
        ([300, 1], "1a050a03ac0201"),
        ([True, False], "1a040a020100"),
        ([1.5], "12060a040000c03f"),
        (1e39, "12060a040000807f"),
        ("ab", "0a040a026162"),
        ([{"b64": "/w=="}, "a"], "0a060a01ff0a0161"),
        ([], ""),
    ],
)
def test_the_type_of_a_feature_is_that_of_its_json(value: Any, feature: str) -> None:
    content = bytes.fromhex(feature)
    entry = b"\x0a\x01f\x12" + bytes([len(content)]) + content
    whole = b"\x0a" + bytes([len(entry)]) + entry
    assert serialize_example({"f": value}) == b"\x0a" + bytes([len(whole)]) + whole


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2.5], "Unexpected element type in feature: f expecting type: int64, got: 2.5"),
        (["a", 1], "Unexpected element type in feature: f expecting type: bytes, got: 1"),
        (None, "Feature: f has a value that is not supported: null"),
        ([[1]], r"Feature: f has a value that is not supported: \[1\]"),
        ({"a": 1}, r'JSON Value: {"a": 1} not formatted correctly for base64 data'),
        (2**63, "Feature: f has a value beyond int64: 9223372036854775808"),
    ],
)
def test_values_that_are_no_feature(value: Any, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        serialize_example({"f": value})


def test_other_signatures_get_features_by_name(half: Any) -> None:
    body = b'{"signature_name": "score", "context": {"n": 4}, "examples": [{"x": [1, 2]}, {"x": [3, 4]}]}'
    request = parse_examples(body, half.signatures)
    np.testing.assert_array_equal(request.inputs["x"], np.array([[1, 2], [3, 4]], np.float32), strict=True)
    assert request.inputs["n"].tolist() == [4, 4]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "JSON Parse error: The document is empty"),
        ("{}", "'examples' must be a list of at least one object"),
        ('{"examples": []}', "'examples' must be a list of at least one object"),
        ('{"examples": 3}', "'examples' must be a list of at least one object"),
        ('{"examples": [3]}', "JSON Value: 3 at item 0 of 'examples' is not an object"),
        ('{"context": 3, "examples": [{}]}', "'context' is not an object"),
        ('{"context": {"n": 1}, "examples": [{"x": 1}, {"n": 2}]}', "Feature 'n' of example 1 is in 'context' too"),
        ('{"signature_name": "z", "examples": [{}]}', 'Serving signature name: "z" not found'),
        ('{"examples": [{"x": [1, 2]}]}', "element: 0 of 'examples' list. JSON object: .* keys must be equal to: n,x"),
        ('{"examples": [{"x": [1], "n": 1}]}', r"Input 'x' has a shape .*\n.*\[\?, 2\]"),
    ],
)
def test_refused_with_the_reason(half: Any, body: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_examples(body.encode(), half.signatures)


CLASSES = np.array([[b"setosa", b"other"], [b"setosa", b"other"]], object)
SCORES = np.array([[0.875, 0.125], [0.25, np.nan]], np.float32)


def test_pairs_of_label_and_score() -> None:
    both = format_classify({"classes": CLASSES, "scores": SCORES}, 2)
    assert both == b'{"results":[[["setosa",0.875],["other",0.125]],[["setosa",0.25],["other",NaN]]]}'
    assert json.loads(format_classify({"scores": SCORES[:1]}, 1)) == {"results": [[["", 0.875], ["", 0.125]]]}
    assert json.loads(format_classify({"classes": CLASSES[:1]}, 1)) == {"results": [[["setosa", 0.0], ["other", 0.0]]]}
    assert b'["",null]' in format_classify({"scores": SCORES}, 2, strict=True)


@pytest.mark.parametrize(
    ("outputs", "count", "message"),
    [
        ({"y": SCORES}, 2, r"the signature does not classify\n.*'classes', 'scores', or both\n.*y"),
        ({"scores": SCORES}, 3, r"output 'scores' has a shape .*\n.*\[3, classes\].*\n.*\[2, 2\]"),
        ({"scores": SCORES[0]}, 2, r"output 'scores' has a shape .*\n.*\[2, classes\].*\n.*\[2\]"),
        ({"classes": CLASSES, "scores": SCORES[:, :1]}, 2, r"output 'scores' has a shape .*\n.*\n.*\[2, 1\]"),
    ],
)
def test_outputs_that_do_not_classify(outputs: dict[str, Any], count: int, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        format_classify(outputs, count)


def test_a_number_for_each_example() -> None:
    values = np.array([[3.5], [4.0]], np.float32)
    assert format_regress({"outputs": values}, 2) == b'{"results":[3.5,4.0]}'
    assert format_regress({"outputs": values[:, 0], "more": values}, 2) == b'{"results":[3.5,4.0]}'
    assert format_regress({"outputs": np.array([np.inf])}, 1, strict=True) == b'{"results":[null]}'
    with pytest.raises(BadRequestError, match=r"the signature does not regress\n.*'outputs'\n.*y"):
        format_regress({"y": values}, 2)
    with pytest.raises(BadRequestError, match=r"output 'outputs' has a shape .*\n.*\[3\] or \[3, 1\]\n.*\[2, 1\]"):
        format_regress({"outputs": values}, 3)
