"""Infer requests and answers of the Open Inference Protocol as messages of its gRPC form. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

import headrace as hr
from headrace_serving.datatypes import count_elements, datatype_of, tensor_from_bytes, tensor_to_bytes
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.infer import InferRequest, RequestedOutput
from headrace_serving.model import Array, Signature, TensorInfo, check_shape, find_signature
from headrace_serving.proto.open_inference_pb2 import InferParameter, ModelInferRequest, ModelInferResponse

_MICROSECONDS = 1_000_000
_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_Value = bool | int | float | str


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


def parse_infer_message(request: ModelInferRequest, signatures: Mapping[str, Signature]) -> InferRequest:
    """Check an infer request.

    Args:
      request: the message.
      signatures: signatures of the model by name; the parameter `signature_name` chooses one.
    Raises:
      BadRequestError: it breaks a rule of the protocol or of the signature.
      UnsupportedError: it asks for shared memory or classification.
    """
    parameters = _parameters(request.parameters, "the request")
    chosen = parameters.get("signature_name", "")
    name, signature = find_signature(str(chosen), signatures)
    timeout = _natural(parameters, "timeout")
    return InferRequest(
        signature_name=name,
        signature=signature,
        inputs=_inputs(request, signature),
        outputs=_outputs(request, signature),
        id=request.id or None,
        priority=_natural(parameters, "priority"),
        timeout=timeout / _MICROSECONDS if timeout else None,
    )


def _parameters(parameters: Mapping[str, InferParameter], what: str) -> dict[str, _Value]:
    found: dict[str, _Value] = {}
    for name, parameter in parameters.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is not None:
            found[name] = getattr(parameter, choice)
    if "shared_memory_region" in found:
        raise UnsupportedError(
            f"{what} is in shared memory, which this server does not read",
            expected="contents, or raw contents",
            got=f"region {found['shared_memory_region']}",
            hint="send the tensor with the request",
        )
    return found


def _natural(parameters: Mapping[str, _Value], name: str) -> int:
    value = parameters.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequestError(
            f"the parameter '{name}' is not what the Open Inference Protocol has there",
            expected="an integer of 0 or more",
            got=f"{value!r:.60}",
            hint="leave it out",
        )
    return value


def _once(items: Iterable[_HasName], what: str) -> Iterator[_HasName]:
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise BadRequestError(f"'{item.name}' is twice in '{what}'")
        seen.add(item.name)
        yield item


def _outputs(request: ModelInferRequest, signature: Signature) -> tuple[RequestedOutput, ...]:
    for output in _once(request.outputs, "outputs"):
        if output.name not in signature.outputs:
            raise BadRequestError(f"unexpected inference output '{output.name}'", expected=", ".join(signature.outputs))
    for asked in request.outputs:
        if _parameters(asked.parameters, f"output '{asked.name}'").get("classification"):
            raise UnsupportedError(
                f"classification of output '{asked.name}' is not supported", hint="ask for the scores themselves"
            )
    names = [output.name for output in request.outputs] or list(signature.outputs)
    return tuple(RequestedOutput(name, True) for name in names)


def _inputs(request: ModelInferRequest, signature: Signature) -> dict[str, Array]:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadRequestError(
            "the raw contents are not as many as the inputs",
            expected=f"{len(request.inputs)} or none",
            got=str(len(raw)),
            hint="give all inputs as raw contents, in their order, or none",
        )
    for _ in _once(request.inputs, "inputs"):
        pass
    inputs: dict[str, Array] = {}
    for number, given in enumerate(request.inputs):
        info = signature.inputs.get(given.name)
        if info is None:
            raise BadRequestError(f"unexpected inference input '{given.name}'", expected=", ".join(signature.inputs))
        _parameters(given.parameters, f"input '{given.name}'")
        shape = _shape(given, info)
        if raw:
            if given.HasField("contents"):
                raise BadRequestError(f"input '{given.name}' must have either contents or raw contents")
            tensor = tensor_from_bytes(given.name, info.dtype, shape, memoryview(raw[number]))
        else:
            tensor = _from_contents(given, info.dtype, shape)
        check_shape(given.name, tensor, info)
        inputs[given.name] = tensor
    missing = [alias for alias in signature.inputs if alias not in inputs]
    if missing:
        raise BadRequestError(
            f"expected {len(signature.inputs)} inputs but got {len(inputs)}: missing {', '.join(missing)}",
            expected=", ".join(signature.inputs),
            got=", ".join(inputs) or "none",
        )
    return inputs


def _shape(given: ModelInferRequest.InferInputTensor, info: TensorInfo) -> list[int]:
    expected = datatype_of(info.dtype)
    if given.datatype != expected:
        raise BadRequestError(
            f"input '{given.name}' has a datatype that the model does not take", expected=expected, got=given.datatype
        )
    shape = list(given.shape)
    if any(size < 0 for size in shape):
        raise BadRequestError(f"input '{given.name}' has a shape with a negative size", got=f"{shape!s:.200}")
    count_elements(given.name, shape, info.dtype)
    return shape


def _from_contents(given: ModelInferRequest.InferInputTensor, dtype: hr.DType, shape: list[int]) -> Array:
    field = _CONTENTS.get(given.datatype)
    if field is None:
        raise UnsupportedError(
            f"input '{given.name}' cannot be sent as contents",
            expected="raw contents",
            got=given.datatype,
            hint="fill raw_input_contents",
        )
    others = [other.name for other, _ in given.contents.ListFields() if other.name != field]
    values = getattr(given.contents, field)
    count = count_elements(given.name, shape, dtype)
    if others or len(values) != count:
        raise BadRequestError(
            f"the contents of input '{given.name}' do not fit its datatype and shape",
            expected=f"{count} elements of {field} for shape {shape}",
            got=f"{len(values)}" + "".join(f", and some of {other}" for other in others),
            hint="make shape, datatype and contents agree",
        )
    if dtype.name == "string":
        strings = np.empty(count, object)
        strings[:] = list(values)
        return strings.reshape(shape)
    array = np.array(values)  # in the message's own type: some versions of protobuf would wrap a narrower one around
    if count and np.issubdtype(dtype.array_type, np.integer):
        limits = np.iinfo(dtype.name)
        beyond = array[(array < limits.min) | (array > limits.max)]
        if beyond.size:
            raise BadRequestError(
                f"an element of input '{given.name}' is beyond its datatype",
                expected=f"{limits.min} to {limits.max}",
                got=str(beyond[0]),
                hint="send a value that the datatype holds",
            )
    return array.astype(dtype.array_type).reshape(shape)


def format_infer_message(
    model: str, version: int, request: InferRequest, outputs: Mapping[str, Array]
) -> ModelInferResponse:
    """Return the answer to an infer request; its tensors are raw contents, as Triton's are.

    Args:
      model: name of the model.
      version: its version.
      request: what was asked.
      outputs: tensors by alias, at least those requested.
    """
    answer = ModelInferResponse(model_name=model, model_version=str(version), id=request.id or "")
    for output in request.outputs:
        tensor = outputs[output.name]
        datatype = datatype_of(hr.as_dtype(tensor.dtype))
        answer.outputs.add(name=output.name, datatype=datatype, shape=tensor.shape)
        answer.raw_output_contents.append(tensor_to_bytes(tensor))
    return answer
