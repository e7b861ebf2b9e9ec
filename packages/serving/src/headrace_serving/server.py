"""The server without a transport: what each call answers, as bytes of JSON. Adapters put it on HTTP."""

from __future__ import annotations

from collections.abc import Mapping

import headrace as hr
from headrace.errors import HeadraceError, InternalError
from headrace.graph.proto.types_pb2 import DataType
from headrace_serving.json_tensor import dump_json
from headrace_serving.model import Array, Signature, TensorInfo
from headrace_serving.predict import format_predict, parse_predict
from headrace_serving.repository import ModelRepository, ModelSpec, ModelVersion


class ModelServer:
    """Answers requests about the models of a repository. Thread-safe if their signatures are.

    Args:
      repository: the models.

    Example:
      >>> server = ModelServer(ModelRepository([]))
      >>> server.repository.names
      []
    """

    def __init__(self, repository: ModelRepository) -> None:
        self.repository = repository

    def predict(self, spec: ModelSpec, body: bytes) -> bytes:
        """Answer a predict request.

        Args:
          spec: which model.
          body: JSON, as TensorFlow Serving takes it.
        Raises:
          ServableNotFoundError: no such model or version.
          BadRequestError: the body breaks a rule.
          HeadraceError: the model refuses the values or fails.
        """
        _, model = self.repository.resolve(spec)
        request = parse_predict(body, model.signatures)
        return format_predict(_call(request.signature, request.inputs), by_row=request.by_row)

    def status(self, spec: ModelSpec) -> bytes:
        """Answer which versions a model has, newest first, and their states.

        Raises:
          ServableNotFoundError: no such model or version.
        """
        return dump_json({"model_version_status": [_status(version) for version in self.repository.versions(spec)]})

    def metadata(self, spec: ModelSpec) -> bytes:
        """Answer the signatures of a model.

        Raises:
          ServableNotFoundError: no such model or version.
        """
        version, model = self.repository.resolve(spec)
        signatures = {name: _signature(signature) for name, signature in model.signatures.items()}
        return dump_json(
            {
                "model_spec": {"name": version.name, "signature_name": "", "version": str(version.number)},
                "metadata": {"signature_def": {"signature_def": signatures}},
            }
        )


def _call(signature: Signature, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    try:
        return signature(**inputs)
    except HeadraceError:
        raise
    except Exception as error:
        raise InternalError(
            "the model failed",
            expected="an answer, or an error that tells what is wrong with the inputs",
            got=f"{type(error).__name__}: {error}",
            hint="please report it with the model",
        ) from error


def _status(version: ModelVersion) -> dict[str, object]:
    loaded = version.model is not None
    return {
        "version": str(version.number),
        "state": "AVAILABLE" if loaded else "END",
        "status": {"error_code": "OK" if loaded else "UNKNOWN", "error_message": version.error},
    }


def _signature(signature: Signature) -> dict[str, object]:
    return {
        "inputs": {alias: _tensor_info(info) for alias, info in signature.inputs.items()},
        "outputs": {alias: _tensor_info(info) for alias, info in signature.outputs.items()},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }


def _tensor_info(info: TensorInfo) -> dict[str, object]:
    return {"dtype": DataType.Name(info.dtype.number), "tensor_shape": _shape(info.shape), "name": info.name}


def _shape(shape: hr.Shape) -> dict[str, object]:
    sizes = ["-1" if size is None else str(size) for size in shape.dims or ()]
    return {"dim": [{"size": size, "name": ""} for size in sizes], "unknown_rank": shape.dims is None}
