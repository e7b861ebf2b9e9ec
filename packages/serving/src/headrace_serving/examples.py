"""The bodies of classify and regress requests and of their answers. Pure: bytes and values only.

A signature whose only input is a vector of strings gets each example as a serialized `tf.Example`, as TensorFlow
Serving has it; any other gets each feature as a row of the input of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headrace_serving.errors import BadRequestError
from headrace_serving.json_tensor import dump_json, string_from_json, tensor_to_json
from headrace_serving.json_value import JsonValue, show
from headrace_serving.model import Array, Signature, check_shape, find_signature
from headrace_serving.predict import inputs_from_rows, parse_object, signature_name

_INT64_MAX = 2**63 - 1
_KINDS: dict[type, str] = {int: "int64", bool: "int64", float: "float", str: "bytes", dict: "bytes"}
# Field numbers of tf.train.Example and its parts, shifted by the wire type 2: a length comes before the content.
_FEATURES = _MAP_ENTRY = _MAP_KEY = _LIST_VALUE = b"\x0a"
_MAP_VALUE = b"\x12"
_LIST_OF_KIND = {"bytes": b"\x0a", "float": b"\x12", "int64": b"\x1a"}


@dataclass(frozen=True, slots=True)
class ExamplesRequest:
    """Examples as the inputs of a signature.

    Attributes:
      signature: what is to be called.
      inputs: tensors by alias.
      count: how many examples there are.
    """

    signature: Signature
    inputs: dict[str, Array]
    count: int


def parse_examples(body: bytes, signatures: Mapping[str, Signature], *, strict: bool = False) -> ExamplesRequest:
    """Parse a classify or regress request.

    Args:
      body: the JSON document.
      signatures: signatures of the model by name.
      strict: refuse the bare tokens `NaN` and `Infinity`.
    Raises:
      BadRequestError: the document breaks a rule of the protocol or of the signature.
    """
    document = parse_object(body, strict=strict)
    _, signature = find_signature(signature_name(document), signatures)
    context = document.get("context", {})
    if not isinstance(context, dict):
        raise BadRequestError(f"JSON Value: {show(document)} 'context' is not an object")
    examples = document.get("examples")
    if not isinstance(examples, list) or not examples:
        raise BadRequestError(f"JSON Value: {show(document)} 'examples' must be a list of at least one object")
    merged: list[JsonValue] = []
    for number, example in enumerate(examples):
        if not isinstance(example, dict):
            raise BadRequestError(f"JSON Value: {show(example)} at item {number} of 'examples' is not an object")
        repeated = sorted(example.keys() & context.keys())
        if repeated:
            raise BadRequestError(f"Feature '{repeated[0]}' of example {number} is in 'context' too")
        merged.append({**context, **example})
    infos = list(signature.inputs.items())
    if len(infos) == 1 and infos[0][1].dtype.name == "string":
        alias, info = infos[0]
        serialized = np.empty(len(merged), object)
        serialized[:] = [serialize_example(example) for example in merged if isinstance(example, dict)]
        check_shape(alias, serialized, info)
        return ExamplesRequest(signature, {alias: serialized}, len(merged))
    inputs = inputs_from_rows("examples", document, merged, signature.inputs)
    for alias, tensor in inputs.items():
        check_shape(alias, tensor, signature.inputs[alias])
    return ExamplesRequest(signature, inputs, len(merged))


def serialize_example(features: Mapping[str, JsonValue]) -> bytes:
    """Return a `tf.Example` of features whose types are those of the JSON: integers, decimals, or strings.

    Args:
      features: values or lists of values, all of one type.
    Raises:
      BadRequestError: types are mixed, or null, nested lists or other objects among them.

    Example:
      >>> serialize_example({"n": 3}).hex()
      '0a0c0a0a0a016e12051a030a0103'
    """
    entries = (
        _field(_MAP_ENTRY, _field(_MAP_KEY, string_from_json(name)) + _field(_MAP_VALUE, _feature(name, value)))
        for name, value in sorted(features.items())
    )
    return _field(_FEATURES, b"".join(entries))


def _feature(name: str, value: JsonValue) -> bytes:
    values = value if isinstance(value, list) else [value]
    if not values:
        return b""
    kind = _kind(name, values[0])
    for other in values:
        if _kind(name, other) != kind:
            raise BadRequestError(
                f"Unexpected element type in feature: {name} expecting type: {kind}, got: {show(other)}"
            )
    if kind == "bytes":
        return _field(_LIST_OF_KIND[kind], b"".join(_field(_LIST_VALUE, string_from_json(item)) for item in values))
    if kind == "float":
        with np.errstate(over="ignore"):
            packed = np.array(values, np.float64).astype("<f4").tobytes()
    else:
        packed = b"".join(_varint(number % 2**64) for number in values if isinstance(number, int))
    return _field(_LIST_OF_KIND[kind], _field(_LIST_VALUE, packed))


def _kind(name: str, value: JsonValue) -> str:
    kind = _KINDS.get(type(value))
    if kind is None:
        raise BadRequestError(f"Feature: {name} has a value that is not supported: {show(value)}")
    if isinstance(value, int) and value > _INT64_MAX:
        raise BadRequestError(f"Feature: {name} has a value beyond int64: {value}")
    return kind


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number >= 128:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def format_classify(outputs: Mapping[str, Array], count: int, *, strict: bool = False) -> bytes:
    """Return the answer to a classify request: for each example its pairs of label and score.

    Args:
      outputs: `classes` (strings `[examples, k]`), `scores` (floats of the same shape), or both.
      count: how many examples there were.
      strict: write null instead of the bare tokens `NaN` and `Infinity`.
    Raises:
      BadRequestError: there is neither, or their shapes do not fit.
    """
    classes, scores = outputs.get("classes"), outputs.get("scores")
    found = [(name, tensor) for name, tensor in (("classes", classes), ("scores", scores)) if tensor is not None]
    if not found:
        raise BadRequestError(
            "the signature does not classify",
            expected="an output 'classes', 'scores', or both",
            got=", ".join(outputs),
            hint="choose another by 'signature_name', or predict instead",
        )
    shape = found[0][1].shape
    for name, tensor in found:
        if len(shape) != 2 or tensor.shape != shape or len(tensor) != count:
            raise _wrong_shape(name, tensor, f"[{count}, classes], the same for both outputs")
    labels = [[""] * shape[1]] * count if classes is None else tensor_to_json("classes", classes)
    values = np.zeros(shape, np.float32) if scores is None else scores
    results = [
        [
            [label, tensor_to_json("scores", score, strict=strict)]
            for label, score in zip(row_labels, row_scores, strict=True)
        ]
        for row_labels, row_scores in zip(_rows(labels), values, strict=True)
    ]
    return dump_json({"results": results})


def _rows(labels: object) -> Iterable[Iterable[object]]:
    return labels if isinstance(labels, list) else []


def format_regress(outputs: Mapping[str, Array], count: int, *, strict: bool = False) -> bytes:
    """Return the answer to a regress request: a number for each example.

    Args:
      outputs: `outputs`, floats `[examples]` or `[examples, 1]`.
      count: how many examples there were.
      strict: write null instead of the bare tokens `NaN` and `Infinity`.
    Raises:
      BadRequestError: there is no such output, or its shape does not fit.
    """
    values = outputs.get("outputs")
    if values is None:
        raise BadRequestError(
            "the signature does not regress",
            expected="an output 'outputs'",
            got=", ".join(outputs),
            hint="choose another by 'signature_name', or predict instead",
        )
    if values.shape not in ((count,), (count, 1)):
        raise _wrong_shape("outputs", values, f"[{count}] or [{count}, 1]")
    return dump_json({"results": tensor_to_json("outputs", values.reshape(-1), strict=strict)})


def _wrong_shape(name: str, tensor: Array, expected: str) -> BadRequestError:
    return BadRequestError(
        f"output '{name}' has a shape from which no answer can be made",
        expected=expected,
        got=str(list(tensor.shape)),
        hint="predict instead",
    )
