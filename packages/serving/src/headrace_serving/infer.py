"""The body of an infer request of the Open Inference Protocol and of its answer, as JSON or with raw tensors. Pure.

A body with raw tensors is a JSON document followed by the bytes of those tensors in the order in which the document
names them; a header tells how long the document is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

import headrace as hr
from headrace_serving.datatypes import (
    count_elements,
    datatype_of,
    datatypes,
    numbers_from_bytes,
    tensor_from_bytes,
)
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.facts import Facts
from headrace_serving.json_numbers import MIN_BYTES, parse_numbers
from headrace_serving.json_tensor import OPEN_JSON_TYPES, array_from_elements, flatten
from headrace_serving.json_value import JsonValue, parse_json, show
from headrace_serving.model import Array, Signature, TensorInfo, check_shape, find_signature

_SHARED_MEMORY = "shared_memory_region"
_MICROSECONDS = 1_000_000
_LARGEST_HEAD = 4096
_KNOWN_HEADS = 256


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """An output that the answer must have.

    Attributes:
      name: its alias in the signature.
      binary: whether it is answered as raw bytes.
    """

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request whose tensors have the dtypes of the signature and shapes that it allows.

    Attributes:
      signature_name: name of what is to be called.
      signature: what is to be called.
      inputs: tensors by alias.
      outputs: what the answer must have, in this order.
      id: what the client calls the request; echoed.
      priority: 1 is the highest; 0 stands for the default.
      timeout: seconds that the client grants; None for the server's own limit.
    """

    signature_name: str
    signature: Signature
    inputs: dict[str, Array]
    outputs: tuple[RequestedOutput, ...]
    id: str | None = None
    priority: int = 0
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class _Head:
    """What a document says that describes raw tensors and nothing else.

    Attributes:
      signature_name: name of what is to be called.
      inputs: alias, dtype and shape of each, and where its bytes begin and end behind the document.
      raw_bytes: how many bytes there are.
      outputs: what the answer must have.
      priority: 1 is the highest; 0 stands for the default.
      timeout: seconds that the client grants; None for the server's own limit.
    """

    signature_name: str
    inputs: tuple[tuple[str, hr.DType, list[int], slice], ...]
    raw_bytes: int
    outputs: tuple[RequestedOutput, ...]
    priority: int
    timeout: float | None

    def request(self, raw: memoryview, signatures: Mapping[str, Signature]) -> InferRequest:
        inputs = {
            alias: tensor_from_bytes(alias, dtype, shape, raw[place])
            if dtype is hr.string
            else numbers_from_bytes(dtype, shape, raw[place])
            for alias, dtype, shape, place in self.inputs
        }
        signature = signatures[self.signature_name]
        return InferRequest(self.signature_name, signature, inputs, self.outputs, None, self.priority, self.timeout)


class InferHeads:
    """The documents that clients send again and again before their raw tensors, checked once. Mutable; thread-safe.

    A document is known for the signatures for which it was checked, as long as these live.
    """

    def __init__(self) -> None:
        self._known: Facts[Mapping[str, Signature], dict[bytes, _Head]] = Facts(lambda _: {})

    def request(self, text: bytes, raw: memoryview, signatures: Mapping[str, Signature]) -> InferRequest | None:
        """Return the request of a document that is known; None of another, or if the raw bytes do not fit it."""
        head = self._known.of(signatures).get(text)
        return head.request(raw, signatures) if head is not None and head.raw_bytes == len(raw) else None

    def remember(
        self,
        text: bytes,
        document: Mapping[str, JsonValue],
        request: InferRequest,
        signatures: Mapping[str, Signature],
    ) -> None:
        """Remember a document that has been checked, if all its inputs are raw and it names no single request."""
        if len(text) > _LARGEST_HEAD or request.id is not None:
            return
        places, end = [], 0
        for alias, entry in _named(document, "inputs"):
            size = _parameters(entry, alias).get("binary_data_size")
            if not isinstance(size, int):
                return
            tensor = request.inputs[alias]
            dtype = request.signature.inputs[alias].dtype
            places.append((alias, dtype, list(tensor.shape), slice(end, end + size)))
            end += size
        known = self._known.of(signatures)
        if len(known) >= _KNOWN_HEADS:
            known.clear()
        known[text] = _Head(
            request.signature_name, tuple(places), end, request.outputs, request.priority, request.timeout
        )


def parse_infer(
    body: bytes | memoryview,
    json_bytes: int | None,
    signatures: Mapping[str, Signature],
    *,
    strict: bool = False,
    heads: InferHeads | None = None,
) -> InferRequest:
    """Parse an infer request.

    Args:
      body: the JSON document, and the raw tensors after it.
      json_bytes: length of the document; None if it is the whole body; 0 if the body is the only input's raw bytes.
      signatures: signatures of the model by name; `parameters.signature_name` chooses one.
      strict: refuse the bare tokens `NaN` and `Infinity`.
      heads: documents that were checked before.
    Raises:
      BadRequestError: the body breaks a rule of the protocol or of the signature.
      UnsupportedError: it asks for shared memory, classification, or JSON of a dtype that has none.
    """
    if json_bytes == 0:
        return _raw_request(body, signatures)
    if json_bytes is not None and json_bytes > len(body):
        raise BadRequestError(
            "the header Inference-Header-Content-Length is beyond the end of the body",
            expected=f"at most {len(body)}",
            got=str(json_bytes),
            hint="it counts the bytes of the JSON document, before any compression",
        )
    head = memoryview(body)[:json_bytes]
    raw = memoryview(body)[len(head) :]
    if heads is not None and json_bytes is not None:
        known = heads.request(bytes(head), raw, signatures)
        if known is not None:
            return known
    if len(head) >= MIN_BYTES and isinstance(document := parse_numbers(head), dict):
        with contextlib.suppress(BadRequestError, UnsupportedError):  # which are told better of the other form
            return _from_document(document, raw, signatures)
    text = bytes(head)
    document = _object(parse_json(text, tokens=not strict, trailing=False), "the request")
    request = _from_document(document, raw, signatures)
    if heads is not None and json_bytes is not None:
        heads.remember(text, document, request, signatures)
    return request


def _from_document(
    document: dict[str, JsonValue], raw: memoryview, signatures: Mapping[str, Signature]
) -> InferRequest:
    parameters = _parameters(document, "the request")
    name, signature = find_signature(_string(parameters, "signature_name", "the parameters") or "", signatures)
    return InferRequest(
        signature_name=name,
        signature=signature,
        inputs=_inputs(document, raw, signature),
        outputs=_outputs(document, parameters, signature),
        id=_string(document, "id", "the request"),
        priority=_natural(parameters, "priority", "the parameters") or 0,
        timeout=_seconds(_natural(parameters, "timeout", "the parameters")),
    )


def _seconds(microseconds: int | None) -> float | None:
    return microseconds / _MICROSECONDS if microseconds else None  # 0 is the protocol's word for none


def _raw_request(body: bytes | memoryview, signatures: Mapping[str, Signature]) -> InferRequest:
    """Return the request of one row whose only input is the whole body."""
    signature_name, signature = find_signature("", signatures)
    items = list(signature.inputs.items())
    dims = items[0][1].shape.dims if len(items) == 1 else None
    if dims is None:
        raise _no_raw_request(f"inputs: {', '.join(signature.inputs) or 'none'}")
    ((name, info),) = items
    shape: list[int | None] = [1 if not axis and size is None else size for axis, size in enumerate(dims)]
    if info.dtype.name == "string":
        shape = [size or 1 for size in shape]
        if any(size != 1 for size in shape):
            raise _no_raw_request(f"strings of shape {info.shape}")
        inputs = np.array([bytes(body)], object).reshape([size or 1 for size in shape])
    else:
        if shape.count(None) > 1:
            raise _no_raw_request(f"shape {info.shape}")
        known = [size for size in shape if size is not None]
        row_bytes = count_elements(name, known, info.dtype) * np.dtype(info.dtype.array_type).itemsize
        filled = [(len(body) // row_bytes if row_bytes else 0) if size is None else size for size in shape]
        inputs = tensor_from_bytes(name, info.dtype, filled, memoryview(body))
    outputs = tuple(RequestedOutput(alias, True) for alias in signature.outputs)
    return InferRequest(signature_name, signature, {name: inputs}, outputs)


def _no_raw_request(got: str) -> BadRequestError:
    return BadRequestError(
        "a raw binary request does not fit this model",
        expected="a single input with at most one size that is unknown beside that of the batch; one string if strings",
        got=got,
        hint="describe the inputs in a JSON document and give its length in Inference-Header-Content-Length",
    )


def _object(value: JsonValue, what: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise _wrong(what, "a JSON object", value)
    return value


def _wrong(what: str, expected: str, value: JsonValue) -> BadRequestError:
    return BadRequestError(
        f"{what} is not what the Open Inference Protocol has there", expected=expected, got=show(value)
    )


def _string(holder: Mapping[str, JsonValue], key: str, what: str) -> str | None:
    value = holder.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"'{key}' of {what}", "a string", value)
    return value


def _flag(holder: Mapping[str, JsonValue], key: str, what: str) -> bool | None:
    value = holder.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong(f"'{key}' of {what}", "true or false", value)
    return value


def _natural(holder: Mapping[str, JsonValue], key: str, what: str) -> int | None:
    value = holder.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise _wrong(f"'{key}' of {what}", "an integer of 0 or more", value)
    return value


def _parameters(holder: Mapping[str, JsonValue], what: str) -> dict[str, JsonValue]:
    parameters = _object(holder.get("parameters", {}), f"'parameters' of {what}")
    for key, value in parameters.items():
        if not isinstance(value, (str, int, float)):
            raise _wrong(f"'{key}' of the parameters of {what}", "a string, a number, true or false", value)
    if _SHARED_MEMORY in parameters:
        raise UnsupportedError(
            f"{what} is in shared memory, which this server does not read",
            expected="data, or raw bytes after the JSON document",
            got=show(parameters),
            hint="send the tensor with the request",
        )
    return parameters


def _named(holder: Mapping[str, JsonValue], key: str) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield the objects of a list with their names, none twice."""
    items = holder.get(key, [])
    if not isinstance(items, list):
        raise _wrong(f"'{key}' of the request", "a list of objects", items)
    seen: set[str] = set()
    for item in items:
        entry = _object(item, f"an item of '{key}'")
        name = _string(entry, "name", f"an item of '{key}'")
        if name is None:
            raise _wrong(f"an item of '{key}'", "a name", item)
        if name in seen:
            raise BadRequestError(f"'{name}' is twice in '{key}'")
        seen.add(name)
        yield name, entry


def _outputs(
    document: Mapping[str, JsonValue], parameters: Mapping[str, JsonValue], signature: Signature
) -> tuple[RequestedOutput, ...]:
    binary = _flag(parameters, "binary_data_output", "the parameters of the request") or False
    found = []
    for name, entry in _named(document, "outputs"):
        what = f"output '{name}'"
        if name not in signature.outputs:
            raise BadRequestError(f"unexpected inference output '{name}'", expected=", ".join(signature.outputs))
        own = _parameters(entry, what)
        if own.get("classification"):
            raise UnsupportedError(f"classification of {what} is not supported", hint="ask for the scores themselves")
        wanted = _flag(own, "binary_data", f"the parameters of {what}")
        found.append(RequestedOutput(name, binary if wanted is None else wanted))
    return tuple(found or (RequestedOutput(alias, binary) for alias in signature.outputs))


def _inputs(document: Mapping[str, JsonValue], raw: memoryview, signature: Signature) -> dict[str, Array]:
    inputs: dict[str, Array] = {}
    for name, entry in _named(document, "inputs"):
        info = signature.inputs.get(name)
        if info is None:
            raise BadRequestError(f"unexpected inference input '{name}'", expected=", ".join(signature.inputs))
        shape = _shape(name, entry, info)
        size = _natural(_parameters(entry, f"input '{name}'"), "binary_data_size", f"the parameters of input '{name}'")
        if (size is None) == ("data" not in entry):
            raise BadRequestError(f"input '{name}' must have either 'data' or the parameter 'binary_data_size'")
        if size is None:
            tensor = _from_json(name, info.dtype, shape, entry["data"])
        else:
            if size > len(raw):
                raise BadRequestError(
                    f"expecting {size - len(raw)} additional bytes for input '{name}'",
                    expected=f"{size} bytes, as its binary_data_size says",
                    got=f"{len(raw)} bytes",
                )
            tensor, raw = tensor_from_bytes(name, info.dtype, shape, raw[:size]), raw[size:]
        check_shape(name, tensor, info)
        inputs[name] = tensor
    missing = [alias for alias in signature.inputs if alias not in inputs]
    if missing:
        raise BadRequestError(
            f"expected {len(signature.inputs)} inputs but got {len(inputs)}: missing {', '.join(missing)}",
            expected=", ".join(signature.inputs),
            got=", ".join(inputs) or "none",
        )
    if raw:
        raise BadRequestError(f"unexpected additional input data: {len(raw)} bytes after those of the last input")
    return inputs


def _shape(name: str, entry: Mapping[str, JsonValue], info: TensorInfo) -> list[int]:
    datatype = _string(entry, "datatype", f"input '{name}'")
    expected = datatype_of(info.dtype)
    if datatype != expected and datatype not in datatypes():
        raise BadRequestError(
            f"input '{name}' has no datatype that the protocol knows",
            expected=", ".join(datatypes()),
            got=show(entry.get("datatype")),
        )
    if datatype != expected:
        raise BadRequestError(
            f"input '{name}' has a datatype that the model does not take",
            expected=expected,
            got=datatype,
        )
    sizes = entry.get("shape")
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise _wrong(f"'shape' of input '{name}'", "a list of integers of 0 or more", sizes)
    shape = [size for size in sizes if isinstance(size, int)]
    count_elements(name, shape, info.dtype)
    return shape


def _from_json(name: str, dtype: hr.DType, shape: list[int], data: JsonValue) -> Array:
    if dtype.name not in OPEN_JSON_TYPES:
        raise UnsupportedError(
            f"input '{name}' cannot be sent as JSON",
            expected="raw bytes after the JSON document",
            got=f"{datatype_of(dtype)} as 'data'",
            hint="give its parameter 'binary_data_size'",
        )
    if not isinstance(data, (list, np.ndarray)):
        raise _wrong(f"'data' of input '{name}'", "a list", data)
    nested, elements = flatten(data)
    count = count_elements(name, shape, dtype)
    if len(nested) > 1 and nested != shape:
        raise BadRequestError(f"'data' of input '{name}' has another shape", expected=f"{shape}", got=f"{nested}")
    if len(elements) != count:
        raise BadRequestError(
            f"'data' of input '{name}' has another number of elements than its shape",
            expected=f"{count} for shape {shape}",
            got=str(len(elements)),
        )
    return array_from_elements(elements, dtype, OPEN_JSON_TYPES[dtype.name]).reshape(shape)
