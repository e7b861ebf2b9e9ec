"""The body of a predict request and of its answer, in row and columnar form. Pure: bytes and values only."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.json_numbers import MIN_BYTES, parse_numbers
from headrace_serving.json_tensor import dump_json, is_base64_object, shape_text, tensor_from_json, tensor_to_json
from headrace_serving.json_value import JsonValue, parse_json, show
from headrace_serving.model import Array, Signature, TensorInfo, check_shape, find_signature


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A request whose tensors have the dtypes of the signature and shapes that it allows.

    Attributes:
      signature_name: name of what is to be called.
      signature: what is to be called.
      inputs: tensors by alias.
      by_row: True for `instances`, answered by `predictions`; False for `inputs`, answered by `outputs`.
    """

    signature_name: str
    signature: Signature
    inputs: dict[str, Array]
    by_row: bool


def parse_predict(
    body: bytes | memoryview, signatures: Mapping[str, Signature], *, strict: bool = False
) -> PredictRequest:
    """Parse a predict request.

    Args:
      body: the JSON document.
      signatures: signatures of the model by name.
      strict: refuse the bare tokens `NaN` and `Infinity`, and anything after the document.
    Raises:
      BadRequestError: the document breaks a rule of the protocol or of the signature.
      UnsupportedError: the signature has an input whose dtype has no JSON form.
    """
    if len(body) >= MIN_BYTES and isinstance(document := parse_numbers(body), dict):
        with contextlib.suppress(BadRequestError, UnsupportedError):  # which are told better of the other form
            return _from_document(document, signatures)
    return _from_document(parse_object(bytes(body), strict=strict), signatures)


def _from_document(document: dict[str, JsonValue], signatures: Mapping[str, Signature]) -> PredictRequest:
    name, signature = find_signature(signature_name(document), signatures)
    if "instances" in document and "inputs" in document:
        raise BadRequestError(
            f"JSON Value: {show(document)} Not formatted correctly expecting only one of 'inputs' or 'instances' keys "
            "to exist"
        )
    if "instances" in document:
        inputs = inputs_from_rows("instances", document, document["instances"], signature.inputs)
    elif "inputs" in document:
        inputs = _from_columns(document["inputs"], signature.inputs)
    else:
        raise BadRequestError("Missing 'inputs' or 'instances' key")
    for alias, tensor in inputs.items():
        check_shape(alias, tensor, signature.inputs[alias])
    return PredictRequest(name, signature, inputs, "instances" in document)


def parse_object(body: bytes, *, strict: bool) -> dict[str, JsonValue]:
    """Parse a body that must be a JSON object.

    Raises:
      BadRequestError: it is none.
    """
    document = parse_json(body, tokens=not strict, trailing=not strict)
    if not isinstance(document, dict):
        raise BadRequestError(f"JSON Value: {show(document)} Is not object")
    return document


def signature_name(document: dict[str, JsonValue]) -> str:
    """Return the signature's name that a document gives; empty if it gives none.

    Raises:
      BadRequestError: it is no string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise BadRequestError(
            f"JSON Value: {show(document)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name


def _from_columns(value: JsonValue, infos: Mapping[str, TensorInfo]) -> dict[str, Array]:
    if not isinstance(value, dict) or is_base64_object(value):
        return {
            alias: tensor_from_json(value, info.dtype)
            for alias, info in [_only_input("inputs is a plain value/list, but expecting an object", infos)]
        }
    for alias in infos:
        if alias not in value:
            raise BadRequestError(f"Missing named input: {alias} in 'inputs' object.")
    return {alias: tensor_from_json(value[alias], info.dtype) for alias, info in infos.items()}


def _only_input(complaint: str, infos: Mapping[str, TensorInfo]) -> tuple[str, TensorInfo]:
    if len(infos) != 1:
        raise BadRequestError(f"{complaint} as multiple input tensors required as per tensorinfo_map")
    ((alias, info),) = infos.items()
    return alias, info


def inputs_from_rows(
    key: str, document: dict[str, JsonValue], instances: JsonValue, infos: Mapping[str, TensorInfo]
) -> dict[str, Array]:
    """Return the tensors by alias whose rows a list gives.

    Args:
      key: the list's key in the document, for error texts.
      document: the whole document, for error texts.
      instances: rows of the only input, or objects with a row of each.
      infos: the inputs by alias.
    Raises:
      BadRequestError: it is no list, or empty, or a row does not fit.
    """
    if isinstance(instances, np.ndarray):
        alias, info = _only_input(f"{key} is a plain list, but expecting list of objects", infos)
        return {alias: tensor_from_json(instances, info.dtype)}
    if not isinstance(instances, list):
        raise BadRequestError(f"JSON Value: {show(document)} Excepting '{key}' to be an list/array")
    if not instances:
        raise BadRequestError(f"JSON Value: {show(document)} No values in '{key}' array")
    if _names_inputs(instances[0]):
        return _from_named_rows(key, instances, infos)
    for number, row in enumerate(instances):
        if _names_inputs(row):
            raise BadRequestError(f"Expecting value/list but got object at item {number} of input list")
    alias, info = _only_input(f"{key} is a plain list, but expecting list of objects", infos)
    return {alias: _batch(instances, info, "", key)}


def _names_inputs(row: JsonValue) -> bool:
    return isinstance(row, dict) and not is_base64_object(row)


def _from_named_rows(key: str, instances: list[JsonValue], infos: Mapping[str, TensorInfo]) -> dict[str, Array]:
    rows: list[dict[str, JsonValue]] = []
    for number, row in enumerate(instances):
        if not isinstance(row, dict) or is_base64_object(row):
            raise BadRequestError(f"Expecting object but got list at item {number} of input list")
        if row.keys() != infos.keys():
            raise BadRequestError(
                f"Failed to process element: {number} of '{key}' list. JSON object: {show(dict(row))} "
                f"keys must be equal to: {','.join(sorted(infos))}"
            )
        rows.append(row)
    return {alias: _batch([row[alias] for row in rows], info, f" key: {alias}", key) for alias, info in infos.items()}


def _batch(rows: list[JsonValue], info: TensorInfo, name: str, key: str) -> Array:
    """Return the tensor whose rows these are, or raise the error of the first row that does not fit."""
    try:
        return tensor_from_json(rows, info.dtype)
    except BadRequestError as error:
        _blame_a_row(rows, info, name, key)
        raise error


def _blame_a_row(rows: list[JsonValue], info: TensorInfo, name: str, key: str) -> None:
    """Raise an error that names the first row at fault, if a single row is: alone, or beside the first one."""
    expected: tuple[int, ...] | None = None
    for number, row in enumerate(rows):
        try:
            shape = tensor_from_json(row, info.dtype).shape
            _check_same_shape(expected if expected is not None else shape, shape)
        except BadRequestError as error:
            message = f"Failed to process element: {number}{name} of '{key}' list. Error: {error.what}"
            raise BadRequestError(message) from error
        expected = shape


def _check_same_shape(expected: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if math.prod(shape) != math.prod(expected):
        raise BadRequestError(f"Expecting tensor size: {math.prod(expected)} but got: {math.prod(shape)}")
    if shape != expected:
        raise BadRequestError(f"Expecting shape {shape_text(expected)} but got: {shape_text(shape)}")


def format_predict(outputs: Mapping[str, Array], *, by_row: bool, strict: bool = False) -> bytes:
    """Return the answer to a predict request as JSON. A single output stands without its name.

    Args:
      outputs: tensors by alias, at least one.
      by_row: answer with `predictions`, one item for each row; else with `outputs`, whole tensors.
      strict: write null instead of the bare tokens `NaN` and `Infinity`.
    Raises:
      BadRequestError: an output has no JSON form; or, by row, outputs have no or different numbers of rows.
    """
    if not by_row:
        columns = {alias: tensor_to_json(alias, tensor, strict=strict) for alias, tensor in outputs.items()}
        return dump_json({"outputs": columns if len(columns) > 1 else next(iter(columns.values()))})
    rows = _row_count(outputs)
    if len(outputs) == 1:
        ((alias, tensor),) = outputs.items()
        return dump_json({"predictions": tensor_to_json(alias, tensor, strict=strict)})
    items = [
        {alias: tensor_to_json(alias, tensor[row, ...], strict=strict) for alias, tensor in outputs.items()}
        for row in range(rows)
    ]
    return dump_json({"predictions": items})


def _row_count(outputs: Mapping[str, Array]) -> int:
    count: int | None = None
    for alias, tensor in outputs.items():
        if tensor.ndim == 0:
            raise BadRequestError(f"Tensor name: {alias} has no shape information")
        if count is not None and len(tensor) != count:
            raise BadRequestError(f"Tensor name: {alias} has inconsistent batch size: {len(tensor)} expecting: {count}")
        count = len(tensor)
    if count is None:
        raise BadRequestError("Cannot convert empty tensor map to JSON")
    return count
