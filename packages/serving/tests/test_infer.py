"""Infer bodies and answers: the Open Inference Protocol's rules, each as one row of a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.infer import InferHeads, InferRequest, RequestedOutput, parse_infer
from headrace_serving.infer_answer import format_infer


def entry(**changes: object) -> dict[str, object]:
    """Describe an input x of two numbers, with changes; None leaves a key out."""
    whole = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2.5]} | changes
    return {key: value for key, value in whole.items() if value is not None}


def document(*inputs: object, **more: object) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


@pytest.mark.parametrize(
    ("shape", "data", "expected"),
    [
        ([2], [1, 2.5], [1, 2.5]),
        ([2, 2], [1, 2, 3, 4], [[1, 2], [3, 4]]),
        ([2, 2], [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ([], [3], 3),
        ([0], [], []),
        ([0, 3], [], np.zeros([0, 3])),
        ([2, 0], [[], []], np.zeros([2, 0])),
        ([1], [float("nan")], [np.nan]),
        ([2], [1e39, float("-inf")], [np.inf, -np.inf]),
    ],
)
def test_json_data_nested_or_flat(echo: Callable[..., Any], shape: list[int], data: object, expected: object) -> None:
    request = parse_infer(document(entry(shape=shape, data=data)), None, echo("float32").signatures)
    np.testing.assert_array_equal(request.inputs["x"], np.array(expected, np.float32), strict=True)
    assert request.outputs == (RequestedOutput("y", False),)


@pytest.mark.parametrize(
    ("dtype", "datatype", "data"),
    [
        ("int64", "INT64", [9007199254740993, -(2**63), 2**63 - 1]),
        ("uint64", "UINT64", [18446744073709551615]),
        ("uint16", "UINT16", [65535]),
        ("bool", "BOOL", [True, False]),
        ("float64", "FP64", [0.1, 1e300]),
    ],
)
def test_S11_json_numbers_are_exact(echo: Callable[..., Any], dtype: str, datatype: str, data: list[object]) -> None:
    body = document(entry(datatype=datatype, shape=[len(data)], data=data))
    request = parse_infer(body, None, echo(dtype).signatures)
    assert (request.inputs["x"].dtype, request.inputs["x"].tolist()) == (dtype, data)
    answer = json.loads(format_infer("m", 1, request, {"y": request.inputs["x"]}).body)
    assert answer["outputs"] == [{"name": "y", "datatype": datatype, "shape": [len(data)], "data": data}]


@pytest.mark.parametrize(
    ("dtype", "datatype", "data", "message"),
    [
        ("int32", "INT32", [3.5], "JSON Value: 3.5 Type: Number is not of expected type: int32"),
        ("int32", "INT32", [1e3], "JSON Value: 1000.0 Type: Number is not of"),
        ("int32", "INT32", [2**31], "JSON Value: 2147483648 Type: Number is not"),
        ("uint64", "UINT64", [2**64], "JSON Value: 1.8446744073709552e.?19 Type: Number"),
        ("uint16", "UINT16", [-1], "JSON Value: -1 Type: Number is not"),
        ("float32", "FP32", ["1.5"], 'JSON Value: "1.5" Type: String is not of expected type: float'),
        ("float32", "FP32", [True], "JSON Value: true Type: True is not of expected type: float"),
        ("float32", "FP32", [None], "JSON Value: null Type: Null is not of expected type: float"),
        ("bool", "BOOL", [1], "JSON Value: 1 Type: Number is not of expected type: bool"),
        ("string", "BYTES", [{"b64": "YQ=="}], "Type: Object is not of expected type: string"),
        ("float16", "FP16", [1], r"input 'x' cannot be sent as JSON\n.*raw bytes after"),
        ("bfloat16", "BF16", [1], r"input 'x' cannot be sent as JSON"),
    ],
)
def test_S11_elements_are_not_coerced(
    echo: Callable[..., Any], dtype: str, datatype: str, data: list[object], message: str
) -> None:
    with pytest.raises((BadRequestError, UnsupportedError), match=message):
        parse_infer(document(entry(datatype=datatype, shape=[1], data=data)), None, echo(dtype).signatures)


REFUSED: list[tuple[bytes, str]] = [
    (b"", "JSON Parse error: The document is empty"),
    (b"[]", r"the request is not what the .* has there\n.*a JSON object\n.*\[\]"),
    (document(entry()) + b" x", "JSON Parse error: Extra data at offset: "),
    (document(), r"expected 1 inputs but got 0: missing x\n.*expected: x\n.*got:      none"),
    (b'{"inputs": 3}', r"'inputs' of the request is not what .*\n.*a list of objects\n.*3"),
    (document(3), r"an item of 'inputs' is not what .*\n.*a JSON object"),
    (document(entry(name=None)), r"an item of 'inputs' is not what .*\n.*a name"),
    (document(entry(name=3)), r"'name' of an item of 'inputs' is not what .*\n.*a string"),
    (document(entry(), entry()), "'x' is twice in 'inputs'"),
    (document(entry(), entry(name="z")), r"unexpected inference input 'z'\n.*expected: x"),
    (document(entry(datatype=None)), r"input 'x' has no datatype that the protocol knows\n.*BOOL.*\n.*null"),
    (document(entry(datatype="fp32")), r"input 'x' has no datatype that the protocol knows"),
    (document(entry(datatype="FP64")), r"input 'x' has a datatype that the model does not take\n.*FP32\n.*FP64"),
    (document(entry(shape=None)), r"'shape' of input 'x' is not what .*\n.*a list of integers of 0 or more\n.*null"),
    (document(entry(shape="2")), r"'shape' of input 'x' is not what"),
    (document(entry(shape=[-1])), r"'shape' of input 'x' is not what"),
    (document(entry(shape=[2.0])), r"'shape' of input 'x' is not what"),
    (document(entry(shape=[True])), r"'shape' of input 'x' is not what"),
    (document(entry(shape=[2**32, 2**32], data=[])), "input 'x' has a shape that is too large"),
    (document(entry(shape=[4611686018427387904, 8], data=[])), "input 'x' has a shape that is too large"),
    (document(entry(shape=[3])), r"'data' of input 'x' has another number of elements than its shape\n.*3 for.*\n.*2"),
    (document(entry(shape=[4], data=[[1, 2], [3, 4]])), r"'data' of input 'x' has another shape\n.*\[4\]\n.*\[2, 2\]"),
    (document(entry(shape=[2, 2], data=[[1, 2], [3]])), "Encountered list at unexpected size: 1 at level: 1"),
    (document(entry(data=5)), r"'data' of input 'x' is not what .*\n.*a list"),
    (document(entry(data=None)), "input 'x' must have either 'data' or the parameter 'binary_data_size'"),
    (document(entry(parameters={"binary_data_size": 8})), "input 'x' must have either 'data' or"),
    (document(entry(parameters=[])), r"'parameters' of input 'x' is not what .*\n.*a JSON object"),
    (document(entry(parameters={"shared_memory_region": "r"})), "input 'x' is in shared memory, which this server"),
    (document(entry(data=None, parameters={"binary_data_size": -8})), r"'binary_data_size' of .*\n.*of 0 or more"),
    (document(entry(data=None, parameters={"binary_data_size": True})), r"'binary_data_size' of .*\n.*of 0 or more"),
    (document(entry(), id=3), r"'id' of the request is not what .*\n.*a string"),
    (document(entry(), parameters={"a": [1]}), r"'a' of the parameters of the request is not what .*\n.*a string, a"),
    (document(entry(), parameters={"priority": -1}), r"'priority' of the parameters is not what"),
    (document(entry(), parameters={"timeout": 1.5}), r"'timeout' of the parameters is not what"),
    (document(entry(), parameters={"binary_data_output": 1}), r"'binary_data_output' of .*\n.*true or false"),
    (document(entry(), parameters={"signature_name": "z"}), 'Serving signature name: "z" not found'),
    (document(entry(), outputs=[{"name": "z"}]), r"unexpected inference output 'z'\n.*expected: y"),
    (document(entry(), outputs=[{"name": "y"}, {"name": "y"}]), "'y' is twice in 'outputs'"),
    (document(entry(), outputs=[{"name": "y", "parameters": {"binary_data": "yes"}}]), r"'binary_data' of .*\n.*true"),
    (document(entry(), outputs=[{"name": "y", "parameters": {"classification": 3}}]), "classification of output 'y'"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_S07_refused_with_the_reason(echo: Callable[..., Any], body: bytes, message: str) -> None:
    with pytest.raises((BadRequestError, UnsupportedError), match=message):
        parse_infer(body, None, echo("float32").signatures)


def test_S07_more_dimensions_in_the_signature_than_in_the_request(echo: Callable[..., Any]) -> None:
    with pytest.raises(BadRequestError, match=r"Input 'x' has a shape .*\n.*\[\?, 1\]\n.*\[2\]"):
        parse_infer(document(entry()), None, echo("float32", [None, 1]).signatures)


def test_binary_and_json_tensors_in_one_body(half: Any) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    head = document(
        {"name": "n", "shape": [2], "datatype": "INT64", "data": [5, 6]},
        {"name": "x", "shape": [2, 2], "datatype": "FP32", "parameters": {"binary_data_size": 16}},
        id="q-17",
        outputs=[{"name": "label", "parameters": {"binary_data": False}}, {"name": "y"}],
        parameters={"binary_data_output": True, "priority": 1, "timeout": 20000, "signature_name": "score"},
    )
    request = parse_infer(head + x.tobytes(), len(head), half.signatures)
    np.testing.assert_array_equal(request.inputs["x"], x, strict=True)
    assert request.inputs["n"].tolist() == [5, 6]
    assert (request.id, request.priority, request.timeout, request.signature_name) == ("q-17", 1, 0.02, "score")
    answer = format_infer("half", 7, request, half.signatures["score"](**request.inputs))
    assert answer.json_bytes is not None
    assert json.loads(answer.body[: answer.json_bytes]) == {
        "model_name": "half",
        "model_version": "7",
        "id": "q-17",
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [2], "data": ["50", "60"]},
            {"name": "y", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
        ],
    }
    assert answer.body[answer.json_bytes :] == np.array([1.5, 3.5], np.float32).tobytes()


@pytest.mark.parametrize(
    ("extra", "stated", "message"),
    [
        (b"\0" * 7, None, r"expecting 1 additional bytes for input 'x'\n.*8 bytes, as its binary_data_size says\n.*7"),
        (b"\0" * 9, None, "unexpected additional input data: 1 bytes after those of the last input"),
        (b"", 10_000, r"Inference-Header-Content-Length is beyond the end of the body\n.*at most \d+\n.*10000"),
        (b"\0" * 8, 20, "JSON Parse error"),
    ],
)
def test_lengths_that_do_not_fit(echo: Callable[..., Any], extra: bytes, stated: int | None, message: str) -> None:
    head = document(entry(data=None, parameters={"binary_data_size": 8}))
    with pytest.raises(BadRequestError, match=message):
        parse_infer(head + extra, len(head) if stated is None else stated, echo("float32").signatures)


def test_a_size_that_does_not_fit_the_shape(echo: Callable[..., Any]) -> None:
    head = document(entry(data=None, shape=[3], parameters={"binary_data_size": 8}))
    with pytest.raises(BadRequestError, match=r"expecting 4 additional bytes for input 'x'\n.*12 bytes for shape"):
        parse_infer(head + b"\0" * 8, len(head), echo("float32").signatures)


def test_an_empty_binary_tensor(echo: Callable[..., Any]) -> None:
    head = document(entry(data=None, shape=[0], parameters={"binary_data_size": 0}))
    assert parse_infer(head, len(head), echo("float32").signatures).inputs["x"].shape == (0,)


@pytest.mark.parametrize(
    ("dtype", "dims", "body", "expected"),
    [
        ("float32", [None, 2], np.array([1, 2], np.float32).tobytes(), np.array([[1, 2]], np.float32)),
        ("int16", [None, None, 2], b"\1\0\2\0\3\0\4\0", np.array([[[1, 2], [3, 4]]], np.int16)),
        ("uint8", [3], b"\1\2\3", np.array([1, 2, 3], np.uint8)),
        ("string", [None], b"a\0b", np.array([b"a\0b"], object)),
    ],
)
def test_a_body_that_is_the_only_input(
    echo: Callable[..., Any], dtype: str, dims: list[int | None], body: bytes, expected: Any
) -> None:
    request = parse_infer(body, 0, echo(dtype, dims).signatures)
    np.testing.assert_array_equal(request.inputs["x"], expected, strict=True)
    assert request.outputs == (RequestedOutput("y", True),)


@pytest.mark.parametrize(
    ("dtype", "dims", "got"),
    [("float32", None, "inputs: x"), ("float32", [2, None, None], r"shape \[2, \?, \?\]"), ("string", [2], "strings")],
)
def test_a_raw_body_that_does_not_fit(
    echo: Callable[..., Any], dtype: str, dims: list[int | None] | None, got: str
) -> None:
    with pytest.raises(BadRequestError, match=rf"a raw binary request does not fit this model\n(.*\n)*.*got: +{got}"):
        parse_infer(b"\0" * 8, 0, echo(dtype, dims).signatures)


def test_a_raw_body_for_several_inputs(half: Any) -> None:
    with pytest.raises(BadRequestError, match=r"a raw binary request does not fit this model\n(.*\n)*.*inputs: x, n"):
        parse_infer(b"\0" * 8, 0, half.signatures)


def test_a_raw_body_of_another_size(echo: Callable[..., Any]) -> None:
    with pytest.raises(BadRequestError, match="unexpected additional input data for input 'x'"):
        parse_infer(b"\0" * 9, 0, echo("float32", [None, None, 2]).signatures)


def _request(half: Any, **more: object) -> InferRequest:
    inputs = [
        {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]},
        {"name": "n", "shape": [1], "datatype": "INT64", "data": [5]},
    ]
    return parse_infer(document(*inputs, outputs=[{"name": "y"}], **more), None, half.signatures)


def test_only_requested_outputs_are_answered_and_no_id_is_made_up(half: Any) -> None:
    answer = json.loads(format_infer("half", 2, _request(half), {"y": np.zeros(1), "label": np.zeros(1)}).body)
    assert list(answer) == ["model_name", "model_version", "outputs"]
    assert [output["name"] for output in answer["outputs"]] == ["y"]


def test_values_that_are_not_finite_are_tokens_or_null(half: Any) -> None:
    y = np.array([[np.nan, 1], [np.inf, -np.inf]], np.float32)
    assert b'"data":[NaN,1.0,Infinity,-Infinity]' in format_infer("half", 2, _request(half), {"y": y}).body
    assert b'"data":[null,1.0,null,null]' in format_infer("half", 2, _request(half), {"y": y}, strict=True).body


def test_strict_json_refuses_tokens(echo: Callable[..., Any]) -> None:
    with pytest.raises(BadRequestError, match="JSON Parse error: NaN is no JSON number"):
        parse_infer(document(entry(data=[float("nan"), 1])), None, echo("float32").signatures, strict=True)


@pytest.mark.parametrize(
    ("y", "got"),
    [
        (np.zeros(1, np.float16), "FP16"),
        (np.zeros(1, ml_dtypes.bfloat16), "BF16"),
        (np.array([b"\xff"], object), "bytes that are not UTF-8"),
    ],
)
def test_outputs_that_have_no_json_form(half: Any, y: Any, got: str) -> None:
    with pytest.raises(BadRequestError, match=rf"output 'y' cannot be answered as JSON\n.*raw bytes\n.*{got}"):
        format_infer("half", 2, _request(half), {"y": y})


class Signatures(dict[str, Any]):
    """Signatures as a loaded model has them: a mapping that lives as long as the model."""


def raw(text: bytes, *parts: bytes) -> tuple[bytes, int]:
    return b"".join([text, *parts]), len(text)


def test_a_document_that_is_known_gives_the_same_request_as_one_that_is_not(half: Any) -> None:
    signatures, heads = Signatures(half.signatures), InferHeads()
    text = document(
        entry(shape=[3, 2], data=None, parameters={"binary_data_size": 24}),
        {"name": "n", "shape": [3], "datatype": "INT64", "parameters": {"binary_data_size": 24}},
        parameters={"binary_data_output": True, "priority": 2, "timeout": 5000, "signature_name": "score"},
        outputs=[{"name": "label", "parameters": {"binary_data": False}}, {"name": "y"}],
    )
    for start in range(3):
        x, n = np.arange(start, start + 6, dtype=np.float32).reshape(3, 2), np.arange(start, start + 3)
        request = parse_infer(*raw(text, x.tobytes(), n.tobytes()), signatures, heads=heads)
        assert heads.request(text, memoryview(bytes(48)), signatures) is not None
        np.testing.assert_array_equal(request.inputs["x"], x, strict=True)
        np.testing.assert_array_equal(request.inputs["n"], n, strict=True)
        assert (request.signature_name, request.signature) == ("score", signatures["score"])
        assert (request.priority, request.timeout, request.id) == (2, 0.005, None)
        assert request.outputs == (RequestedOutput("label", False), RequestedOutput("y", True))


@pytest.mark.parametrize(
    ("dtype", "datatype", "part", "expected"),
    [
        ("bool", "BOOL", b"\x00\x07", [False, True]),
        ("string", "BYTES", b"\x01\x00\x00\x00a\x00\x00\x00\x00", [b"a", b""]),
        ("bfloat16", "BF16", b"\x80\x3f\x00\x40", [1.0, 2.0]),
        ("uint16", "UINT16", b"\x01\x00\x00\x01", [1, 256]),
    ],
)
def test_a_document_that_is_known_for_each_kind_of_tensor(
    echo: Callable[..., Any], dtype: str, datatype: str, part: bytes, expected: list[object]
) -> None:
    signatures, heads = Signatures(echo(dtype).signatures), InferHeads()
    text = document(entry(datatype=datatype, data=None, parameters={"binary_data_size": len(part)}))
    for odd in (b"", b" "):  # the tensor lies at an odd address in one of them
        found = [parse_infer(*raw(text + odd, part), signatures, heads=heads).inputs["x"] for _ in range(2)]
        assert [tensor.tolist() for tensor in found] == [expected, expected]
        assert {tensor.dtype for tensor in found} == {found[0].dtype}


def test_a_document_that_is_known_is_checked_against_the_bytes_behind_it(echo: Callable[..., Any]) -> None:
    signatures, heads = Signatures(echo("float32").signatures), InferHeads()
    text = document(entry(data=None, parameters={"binary_data_size": 8}))
    assert parse_infer(*raw(text, bytes(8)), signatures, heads=heads).inputs["x"].tolist() == [0, 0]
    for wrong, message in ((bytes(7), "expecting 1 additional bytes"), (bytes(9), "unexpected additional input data")):
        with pytest.raises(BadRequestError, match=message):
            parse_infer(*raw(text, wrong), signatures, heads=heads)
    others = Signatures(echo("int32").signatures)
    with pytest.raises(BadRequestError, match="datatype"):
        parse_infer(*raw(text, bytes(8)), others, heads=heads)


def test_documents_that_come_once_are_not_kept(echo: Callable[..., Any]) -> None:
    signatures, heads = Signatures(echo("float32").signatures), InferHeads()
    named = document(entry(data=None, parameters={"binary_data_size": 8}), id="7")
    mixed = document(entry())
    for text, part in ((named, bytes(8)), (mixed, b"")):
        assert parse_infer(*raw(text, part), signatures, heads=heads).inputs["x"].shape == (2,)
        assert heads.request(text, memoryview(part), signatures) is None
    texts = [
        document(entry(data=None, parameters={"binary_data_size": 8}), parameters={"other": n}) for n in range(1000)
    ]
    for text in texts:
        parse_infer(*raw(text, bytes(8)), signatures, heads=heads)
    assert sum(heads.request(text, memoryview(bytes(8)), signatures) is not None for text in texts) <= 256
