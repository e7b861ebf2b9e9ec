"""Infer requests as messages: each rule of the protocol's gRPC form."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.infer_message import format_infer_message, parse_infer_message
from headrace_serving.proto.open_inference_pb2 import InferParameter, InferTensorContents, ModelInferRequest

NUMBERS = {
    "int8": ("INT8", "int_contents"),
    "int16": ("INT16", "int_contents"),
    "int32": ("INT32", "int_contents"),
    "int64": ("INT64", "int64_contents"),
    "uint8": ("UINT8", "uint_contents"),
    "uint16": ("UINT16", "uint_contents"),
    "uint32": ("UINT32", "uint_contents"),
    "uint64": ("UINT64", "uint64_contents"),
    "float32": ("FP32", "fp32_contents"),
    "float64": ("FP64", "fp64_contents"),
    "bool": ("BOOL", "bool_contents"),
}


def ask(datatype: str, shape: list[int], raw: bytes | None = None, **contents: Any) -> ModelInferRequest:
    request = ModelInferRequest(model_name="m", id="q")
    entry = request.inputs.add(name="x", datatype=datatype, shape=shape)
    if raw is not None:
        request.raw_input_contents.append(raw)
    if contents:
        entry.contents.CopyFrom(InferTensorContents(**contents))
    return request


@pytest.mark.parametrize("dtype", NUMBERS)
def test_contents_and_raw_contents_are_the_same(echo: Any, dtype: str) -> None:
    datatype, field = NUMBERS[dtype]
    model = echo(dtype, [None, 2])
    x = np.array([[0, 1], [1, 0]], dtype)
    by_contents = parse_infer_message(ask(datatype, [2, 2], **{field: x.ravel().tolist()}), model.signatures)
    by_bytes = parse_infer_message(ask(datatype, [2, 2], raw=x.tobytes()), model.signatures)
    for request in (by_contents, by_bytes):
        assert request.inputs["x"].dtype == dtype
        assert request.inputs["x"].tolist() == x.tolist()
    answer = format_infer_message("m", 3, by_bytes, {"y": x})
    assert (answer.model_name, answer.model_version, answer.id) == ("m", "3", "q")
    assert (answer.outputs[0].name, answer.outputs[0].datatype, list(answer.outputs[0].shape)) == (
        "y",
        datatype,
        [2, 2],
    )
    assert list(answer.raw_output_contents) == [x.tobytes()]


def test_strings(echo: Any) -> None:
    model = echo("string", [None])
    framed = b"".join(struct.pack("<I", len(text)) + text for text in (b"a\0b", b""))
    for request in (ask("BYTES", [2], bytes_contents=[b"a\0b", b""]), ask("BYTES", [2], raw=framed)):
        parsed = parse_infer_message(request, model.signatures)
        assert parsed.inputs["x"].tolist() == [b"a\0b", b""]
    assert list(format_infer_message("m", 1, parsed, {"y": parsed.inputs["x"]}).raw_output_contents) == [framed]


def test_half_precision_is_raw_only(echo: Any) -> None:
    model = echo("float16", [None])
    x = np.array([1, 2], np.float16)
    assert parse_infer_message(ask("FP16", [2], raw=x.tobytes()), model.signatures).inputs["x"].tolist() == [1, 2]
    with pytest.raises(UnsupportedError, match="cannot be sent as contents"):
        parse_infer_message(ask("FP16", [2], fp32_contents=[1, 2]), model.signatures)


def test_parameters(half: Any) -> None:
    request = ModelInferRequest(model_name="m")
    request.inputs.add(name="n", datatype="INT64", shape=[1], contents=InferTensorContents(int64_contents=[1]))
    request.inputs.add(name="x", datatype="FP32", shape=[1, 2], contents=InferTensorContents(fp32_contents=[1, 2]))
    request.outputs.add(name="label")
    request.parameters["signature_name"].string_param = "score"
    request.parameters["priority"].uint64_param = 2
    request.parameters["timeout"].int64_param = 1_500_000
    parsed = parse_infer_message(request, half.signatures)
    assert (parsed.signature_name, parsed.priority, parsed.timeout, parsed.id) == ("score", 2, 1.5, None)
    assert [output.name for output in parsed.outputs] == ["label"]


def shared(request: ModelInferRequest) -> None:
    request.inputs[0].parameters["shared_memory_region"].string_param = "r"


def classified(request: ModelInferRequest) -> None:
    request.outputs.add(name="y").parameters["classification"].int64_param = 3


def prioritised(request: ModelInferRequest) -> None:
    request.parameters["priority"].CopyFrom(InferParameter(string_param="high"))


def twice(request: ModelInferRequest) -> None:
    request.inputs.add().CopyFrom(request.inputs[0])


def other_output(request: ModelInferRequest) -> None:
    request.outputs.add(name="z")


def other_input(request: ModelInferRequest) -> None:
    request.inputs[0].name = "z"


def none_at_all(request: ModelInferRequest) -> None:
    del request.inputs[:]


def both(request: ModelInferRequest) -> None:
    request.raw_input_contents.append(b"12345678")


def too_many_raw(request: ModelInferRequest) -> None:
    request.raw_input_contents.extend([b"12345678", b""])


def negative(request: ModelInferRequest) -> None:
    request.inputs[0].shape[0] = -1


def overflowing(request: ModelInferRequest) -> None:
    request.inputs[0].shape[0] = 2**62


def fewer(request: ModelInferRequest) -> None:
    request.inputs[0].shape[0] = 1


def two_kinds(request: ModelInferRequest) -> None:
    request.inputs[0].contents.fp64_contents.append(1)


def other_datatype(request: ModelInferRequest) -> None:
    request.inputs[0].datatype = "fp32"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (shared, UnsupportedError, "input 'x' is in shared memory"),
        (classified, UnsupportedError, "classification of output 'y' is not supported"),
        (prioritised, BadRequestError, "the parameter 'priority' is not what"),
        (twice, BadRequestError, "'x' is twice in 'inputs'"),
        (other_output, BadRequestError, "unexpected inference output 'z'"),
        (other_input, BadRequestError, "unexpected inference input 'z'"),
        (none_at_all, BadRequestError, "expected 1 inputs but got 0: missing x"),
        (both, BadRequestError, "either contents or raw contents"),
        (too_many_raw, BadRequestError, "the raw contents are not as many as the inputs"),
        (negative, BadRequestError, "a shape with a negative size"),
        (overflowing, BadRequestError, "a shape that is too large"),
        (fewer, BadRequestError, "do not fit its datatype and shape"),
        (two_kinds, BadRequestError, "do not fit its datatype and shape"),
        (other_datatype, BadRequestError, "a datatype that the model does not take"),
    ],
)
def test_what_is_wrong(echo: Any, change: Any, error: type[Exception], message: str) -> None:
    request = ask("FP32", [2], fp32_contents=[1, 2])
    change(request)
    with pytest.raises(error, match=message):
        parse_infer_message(request, echo("float32", [None]).signatures)


def test_an_element_beyond_its_datatype(echo: Any) -> None:
    with pytest.raises(BadRequestError, match=r"beyond its datatype\n.*-128 to 127\n.*300"):
        parse_infer_message(ask("INT8", [2], int_contents=[1, 300]), echo("int8", [None]).signatures)
