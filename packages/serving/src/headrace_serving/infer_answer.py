"""The body of an answer to an infer request of the Open Inference Protocol, as JSON or with raw tensors. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import headrace as hr
from headrace_serving.datatypes import datatype_of, tensor_to_bytes
from headrace_serving.errors import BadRequestError
from headrace_serving.infer import InferRequest
from headrace_serving.json_tensor import OPEN_JSON_TYPES, dump_json, tensor_to_json
from headrace_serving.model import Array

_KNOWN_HEADS = 256
_Place = tuple[str, np.dtype[Any], tuple[int, ...], int | None]
"""Name, dtype and shape of an output, and how many raw bytes it has; None for JSON."""


@dataclass(frozen=True, slots=True)
class InferAnswer:
    """The body of an answer.

    Attributes:
      body: the JSON document, and the raw tensors after it.
      json_bytes: length of the document; None if it is the whole body.
    """

    body: bytes
    json_bytes: int | None


def format_infer(
    model: str, version: int, request: InferRequest, outputs: Mapping[str, Array], *, strict: bool = False
) -> InferAnswer:
    """Return the answer to an infer request.

    Args:
      model: name of the model.
      version: its version.
      request: what was asked.
      outputs: tensors by alias, at least those requested.
      strict: write null instead of the bare tokens `NaN` and `Infinity`.
    Raises:
      BadRequestError: an output that is wanted as JSON has no JSON form.
    """
    tensors = [outputs[output.name] for output in request.outputs]
    raw = [tensor_to_bytes(y) if output.binary else None for output, y in zip(request.outputs, tensors, strict=True)]
    places = tuple(
        (output.name, y.dtype, y.shape, None if part is None else len(part))
        for output, y, part in zip(request.outputs, tensors, raw, strict=True)
    )
    if request.id is None and None not in raw:
        text = _answer_head(model, version, places)
        return InferAnswer(b"".join([text, *filter(None, raw)]), len(text))
    document = _answer_document(model, version, places)
    if request.id is not None:
        document["id"] = request.id
    for entry, tensor, part in zip(document["outputs"], tensors, raw, strict=True):
        if part is None:
            entry["data"] = _to_json(entry["name"], tensor.reshape(-1), strict=strict)
    text = dump_json(document)
    parts = [part for part in raw if part is not None]
    return InferAnswer(b"".join([text, *parts]), len(text)) if parts else InferAnswer(text, None)


@functools.lru_cache(_KNOWN_HEADS)
def _answer_head(model: str, version: int, places: tuple[_Place, ...]) -> bytes:
    """The document before raw tensors, which is the same for many answers."""
    return dump_json(_answer_document(model, version, places))


def _answer_document(model: str, version: int, places: Sequence[_Place]) -> dict[str, Any]:
    described: list[dict[str, object]] = []
    for name, dtype, shape, raw_bytes in places:
        entry: dict[str, object] = {"name": name, "datatype": datatype_of(hr.as_dtype(dtype)), "shape": list(shape)}
        if raw_bytes is not None:
            entry["parameters"] = {"binary_data_size": raw_bytes}
        described.append(entry)
    return {"model_name": model, "model_version": str(version), "outputs": described}


def _to_json(name: str, tensor: Array, *, strict: bool) -> object:
    dtype = hr.as_dtype(tensor.dtype)
    if dtype.name not in OPEN_JSON_TYPES:
        raise _binary_only(name, datatype_of(dtype))
    if dtype.name != "string":
        return tensor_to_json(name, tensor, OPEN_JSON_TYPES, strict=strict)
    try:
        return [element.decode() for element in tensor.tolist()]
    except UnicodeDecodeError as error:
        raise _binary_only(name, "bytes that are not UTF-8") from error


def _binary_only(name: str, got: str) -> BadRequestError:
    return BadRequestError(
        f"output '{name}' cannot be answered as JSON",
        expected="a request for raw bytes",
        got=got,
        hint="give it the parameter 'binary_data': true, or the request 'binary_data_output': true",
    )
