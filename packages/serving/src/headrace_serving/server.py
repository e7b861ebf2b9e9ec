"""The server without a transport: what each call answers, as bytes. Adapters put it on HTTP.

Long, since it is the list of all calls of both protocols; each is a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Generic, Protocol, TypeVar

import headrace as hr
from headrace.graph.proto.types_pb2 import DataType
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.datatypes import datatype_of
from headrace_serving.errors import ServableNotFoundError, UnsupportedError
from headrace_serving.examples import format_classify, format_regress, parse_examples
from headrace_serving.execution import Outputs, Work, call_signature, shares_calls
from headrace_serving.infer import InferHeads, parse_infer
from headrace_serving.infer_answer import InferAnswer, format_infer
from headrace_serving.infer_message import format_infer_message, parse_infer_message
from headrace_serving.json_tensor import dump_json
from headrace_serving.json_value import show
from headrace_serving.manager import ModelManager
from headrace_serving.model import Model, Signature, TensorInfo, find_signature
from headrace_serving.model_statistics import ModelStatistics
from headrace_serving.predict import format_predict, parse_object, parse_predict
from headrace_serving.proto.open_inference_pb2 import ModelInferRequest, ModelInferResponse
from headrace_serving.repository import Lease, ModelRepository, ModelSpec, ModelVersion, State

A = TypeVar("A")
R = TypeVar("R")

_PLATFORM = "headrace_savedmodel"
_EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")


class _FormatExamples(Protocol):
    def __call__(self, outputs: Outputs, count: int, *, strict: bool) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Prepared(Generic[A]):
    """A request that is right, ready to be computed.

    Attributes:
      work: what is to be computed.
      finish: turns the outputs into the answer.
      lease: keeps the model loaded; to be given back when the outputs are there, or will not be.
      timeout: seconds that the client grants; None for the server's own limit.
      raw_outputs: names of the outputs that are answered as raw bytes.
    """

    work: Work
    finish: Callable[[Outputs], A]
    lease: Lease
    timeout: float | None = None
    raw_outputs: frozenset[str] = frozenset()

    def give_back(self, _: object) -> None:
        """Give the lease back; a callback for the future of the outputs."""
        self.lease.release()


class ModelServer:
    """Answers requests about the models of a repository. Thread-safe if their signatures are.

    Attributes:
      repository: the models.
      statistics: what the models have done.
      accepts: False when clients should go elsewhere, because the server is about to end; it still answers.

    Args:
      repository: the models.
      manager: what loads and unloads models; None if they are fixed.
      strict_json: refuse the bare tokens `NaN` and `Infinity`, and write null instead of them.

    Example:
      >>> server = ModelServer(ModelRepository([]))
      >>> server.repository.names
      []
    """

    def __init__(
        self, repository: ModelRepository, *, manager: ModelManager | None = None, strict_json: bool = False
    ) -> None:
        self.repository = repository
        self.accepts = True
        self.statistics = ModelStatistics()
        self._manager = manager
        self._strict = strict_json
        self._heads = InferHeads()

    def predict(self, spec: ModelSpec, body: bytes) -> bytes:
        """Answer a predict request of TensorFlow Serving.

        Args:
          spec: which model.
          body: JSON, as TensorFlow Serving takes it.
        Raises:
          ServableNotFoundError: no such model or version.
          BadRequestError: the body breaks a rule.
          HeadraceError: the model refuses the values or fails.
        """
        return _compute(self.prepare_predict(spec, body)).body

    def infer(self, spec: ModelSpec, body: bytes, json_bytes: int | None = None) -> InferAnswer:
        """Answer an infer request of the Open Inference Protocol.

        Args:
          spec: which model.
          body: JSON, and raw tensors after it.
          json_bytes: length of the JSON; None if it is the whole body; 0 if the body is the only input's raw bytes.
        Raises:
          ServableNotFoundError: no such model or version.
          BadRequestError: the body breaks a rule.
          HeadraceError: the model refuses the values or fails.
        """
        return _compute(self.prepare_infer(spec, body, json_bytes))

    def classify(self, spec: ModelSpec, body: bytes) -> bytes:
        """Answer a classify request of TensorFlow Serving; arguments and errors as `predict` has them."""
        return _compute(self.prepare_classify(spec, body)).body

    def regress(self, spec: ModelSpec, body: bytes) -> bytes:
        """Answer a regress request of TensorFlow Serving; arguments and errors as `predict` has them."""
        return _compute(self.prepare_regress(spec, body)).body

    def prepare_predict(self, spec: ModelSpec, body: bytes | memoryview) -> Prepared[InferAnswer]:
        """Check a predict request; arguments and errors as `predict` has them."""
        lease, request = self._parsed(
            spec, lambda model: parse_predict(body, model.signatures, strict=self._strict), self.repository.lease
        )

        def finish(outputs: Outputs) -> InferAnswer:
            return InferAnswer(format_predict(outputs, by_row=request.by_row, strict=self._strict), None)

        return Prepared(Work(request.signature, request.inputs, model=_named(lease)), finish, lease)

    def prepare_classify(self, spec: ModelSpec, body: bytes | memoryview) -> Prepared[InferAnswer]:
        """Check a classify request; arguments and errors as `predict` has them."""
        return self._prepare_examples(spec, body, format_classify)

    def prepare_regress(self, spec: ModelSpec, body: bytes | memoryview) -> Prepared[InferAnswer]:
        """Check a regress request; arguments and errors as `predict` has them."""
        return self._prepare_examples(spec, body, format_regress)

    def _prepare_examples(
        self, spec: ModelSpec, body: bytes | memoryview, form: _FormatExamples
    ) -> Prepared[InferAnswer]:
        lease, request = self._parsed(
            spec,
            lambda model: parse_examples(bytes(body), model.signatures, strict=self._strict),
            self.repository.lease,
        )

        def finish(outputs: Outputs) -> InferAnswer:
            return InferAnswer(form(outputs, request.count, strict=self._strict), None)

        return Prepared(Work(request.signature, request.inputs, model=_named(lease)), finish, lease)

    def prepare_infer(
        self, spec: ModelSpec, body: bytes | memoryview, json_bytes: int | None = None
    ) -> Prepared[InferAnswer]:
        """Check an infer request; arguments and errors as `infer` has them."""
        lease, request = self._parsed(
            spec,
            lambda model: parse_infer(body, json_bytes, model.signatures, strict=self._strict, heads=self._heads),
            self._lease,
        )

        def finish(outputs: Outputs) -> InferAnswer:
            return format_infer(spec.name, lease.version.number, request, outputs, strict=self._strict)

        work = Work(request.signature, request.inputs, request.priority, model=_named(lease))
        raw = frozenset(output.name for output in request.outputs if output.binary)
        return Prepared(work, finish, lease, request.timeout, raw)

    def prepare_message(self, spec: ModelSpec, request: ModelInferRequest) -> Prepared[ModelInferResponse]:
        """Check an infer request that is a message of the protocol's gRPC form; errors as `infer` has them."""
        lease, parsed = self._parsed(spec, lambda model: parse_infer_message(request, model.signatures), self._lease)

        def finish(outputs: Outputs) -> ModelInferResponse:
            return format_infer_message(spec.name, lease.version.number, parsed, outputs)

        work = Work(parsed.signature, parsed.inputs, parsed.priority, model=_named(lease))
        return Prepared(work, finish, lease, parsed.timeout)

    def _parsed(
        self, spec: ModelSpec, parse: Callable[[Model], R], lease: Callable[[ModelSpec], Lease]
    ) -> tuple[Lease, R]:
        taken = lease(spec)
        try:
            return taken, parse(taken.model)
        except BaseException:
            taken.release()
            raise

    def status(self, spec: ModelSpec) -> bytes:
        """Answer which versions a model has, newest first, and their states; also what KServe's `v1` has there.

        Raises:
          ServableNotFoundError: no such model or version.
        """
        versions = self.repository.versions(spec)
        return dump_json(
            {
                "model_version_status": [_status(version) for version in versions],
                "name": spec.name,
                "ready": any(version.state is State.AVAILABLE for version in versions),
            }
        )

    def metadata(self, spec: ModelSpec) -> bytes:
        """Answer the signatures of a model, as TensorFlow Serving describes them.

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

    @property
    def ready(self) -> bool:
        """Whether clients should send requests: each model answers, and the server is not about to end."""
        return self.accepts and all(
            any(version.state is State.AVAILABLE for version in self.repository.versions(ModelSpec(name)))
            for name in self.repository.names
        )

    def server_metadata(self) -> bytes:
        """Answer the server's name, version and extensions of the Open Inference Protocol."""
        version = metadata.version("headrace-serving")
        return dump_json({"name": "headrace-serving", "version": version, "extensions": _EXTENSIONS})

    def model_names(self) -> bytes:
        """Answer the names of all models."""
        return dump_json({"models": self.repository.names})

    def model_metadata(self, spec: ModelSpec) -> bytes:
        """Answer the inputs and outputs of a model's `serving_default`, as the Open Inference Protocol describes them.

        Raises:
          ServableNotFoundError: no such model or version.
          BadRequestError: the model has no such signature.
          UnsupportedError: an element type has no name in the protocol.
        """
        version, model = self._resolve(spec)
        _, signature = find_signature("", model.signatures)
        loaded = [other for other in self.repository.versions(ModelSpec(spec.name)) if other.state is State.AVAILABLE]
        return dump_json(
            {
                "name": version.name,
                "versions": [str(other.number) for other in reversed(loaded)],
                "platform": _PLATFORM,
                "inputs": _described(signature.inputs),
                "outputs": _described(signature.outputs),
            }
        )

    def model_ready(self, spec: ModelSpec) -> bytes:
        """Answer that a model answers.

        Raises:
          ServableNotFoundError: it does not.
        """
        version, _ = self._resolve(spec)
        return dump_json({"name": version.name, "ready": True})

    def model_statistics(self, spec: ModelSpec, statistics: ModelStatistics | None = None) -> bytes:
        """Answer what the versions of a model have done, or those of all models if none is named.

        Args:
          spec: which model.
          statistics: sums of several processes; the server's own if left out.
        Raises:
          ServableNotFoundError: no such model or version.
        """
        names = [spec.name] if spec.name else self.repository.names
        if spec.name:
            self._resolve(spec)
        found = [
            version
            for name in names
            for version in self.repository.versions(ModelSpec(name, spec.version))
            if version.state is State.AVAILABLE
        ]
        sums = self.statistics if statistics is None else statistics
        return dump_json({"model_stats": [sums.entry(version.name, version.number) for version in reversed(found)]})

    def model_config(self, spec: ModelSpec, batching: BatchingOptions | None = None) -> bytes:
        """Answer a model's inputs, outputs and batching, as Triton describes them.

        Args:
          spec: which model.
          batching: how its requests share calls.
        Raises:
          ServableNotFoundError: no such model or version.
          BadRequestError: the model has no signature `serving_default`.
          UnsupportedError: an element type has no name in the protocol.
        """
        version, model = self._resolve(spec)
        _, signature = find_signature("", model.signatures)
        shared = batching is not None and shares_calls(signature)
        config: dict[str, object] = {
            "name": version.name,
            "platform": _PLATFORM,
            "backend": "headrace",
            "max_batch_size": batching.max_batch_size if batching is not None and shared else 0,
            "input": _configured(signature.inputs, shared=shared),
            "output": _configured(signature.outputs, shared=shared),
        }
        if batching is not None and shared:
            config["dynamic_batching"] = {
                "preferred_batch_size": list(batching.allowed_sizes),
                "max_queue_delay_microseconds": int(batching.timeout * 1e6),
            }
        return dump_json(config)

    def index(self, body: bytes) -> bytes:
        """Answer every version of every model and its state, as the Open Inference Protocol's repository has it.

        Args:
          body: empty, or `{"ready": true}` for those only that answer.
        Raises:
          BadRequestError: it is neither.
        """
        ready = bool((parse_object(body, strict=True) if body.strip() else {}).get("ready", False))
        names = self.repository.names if self._manager is None else self._manager.names()
        entries: list[dict[str, str]] = []
        for name in names:
            versions = self.repository.versions(ModelSpec(name)) if name in self.repository.names else []
            entries += [_index_entry(version) for version in reversed(versions)]
            if not versions:
                entries.append({"name": name, "state": "UNAVAILABLE", "reason": "unloaded"})
        return dump_json([entry for entry in entries if not ready or entry["state"] == "READY"])

    def load(self, name: str, body: bytes) -> bytes:
        """Load a model by its name; answers when it takes requests.

        Args:
          name: the model.
          body: empty, or an object; parameters that would change the model are refused.
        Raises:
          ServableNotFoundError: no such model.
          ModelFolderError: none of its versions can be loaded.
          UnsupportedError: the server's models are fixed, or there is a configuration in the body.
        """
        parameters = (parse_object(body, strict=True) if body.strip() else {}).get("parameters")
        if parameters:
            raise UnsupportedError(
                "a model cannot be configured by the request that loads it",
                expected="an empty body",
                got=show(parameters),
                hint="write the model's folder, then load it by its name",
            )
        self._managed().load(name)
        return b"{}"

    def unload(self, name: str, body: bytes) -> bytes:
        """Unload all versions of a model; requests that it has are answered before it is freed.

        Args:
          name: the model.
          body: empty, or an object.
        Raises:
          ServableNotFoundError: no such model.
          UnsupportedError: the server's models are fixed.
        """
        if body.strip():
            parse_object(body, strict=True)
        self._managed().unload(name)
        return b"{}"

    def _managed(self) -> ModelManager:
        if self._manager is None:
            raise UnsupportedError(
                "the models of this server are fixed",
                expected="a server with a ModelManager",
                got="a repository alone",
                hint="start it by `headrace serve`, or give ModelServer a manager",
            )
        return self._manager

    def _lease(self, spec: ModelSpec) -> Lease:
        try:
            return self.repository.lease(spec)
        except ServableNotFoundError as error:
            raise self._unknown(spec) from error

    def _resolve(self, spec: ModelSpec) -> tuple[ModelVersion, Model]:
        try:
            return self.repository.resolve(spec)
        except ServableNotFoundError as error:
            raise self._unknown(spec) from error

    def _unknown(self, spec: ModelSpec) -> ServableNotFoundError:
        version = "" if spec.version is None else f" version {spec.version}"
        return ServableNotFoundError(
            f"Request for unknown model: '{spec.name}'{version} is not found",
            expected=", ".join(self.repository.names) or "a model; none is loaded",
            got=spec.name,
        )


def _named(lease: Lease) -> tuple[str, int]:
    return lease.version.name, lease.version.number


def _compute(prepared: Prepared[InferAnswer]) -> InferAnswer:
    try:
        return prepared.finish(call_signature(prepared.work.signature, prepared.work.inputs))
    finally:
        prepared.lease.release()


def _status(version: ModelVersion) -> dict[str, object]:
    return {
        "version": str(version.number),
        "state": version.state.value,
        "status": {"error_code": "UNKNOWN" if version.error else "OK", "error_message": version.error},
    }


def _index_entry(version: ModelVersion) -> dict[str, str]:
    return {
        "name": version.name,
        "version": str(version.number),
        "state": {State.AVAILABLE: "READY", State.END: "UNAVAILABLE"}.get(version.state, version.state.value),
        "reason": version.error or ("unloaded" if version.state is State.END else ""),
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


def _described(infos: Mapping[str, TensorInfo]) -> list[dict[str, object]]:
    return [
        {
            "name": alias,
            "datatype": datatype_of(info.dtype),
            # The protocol has no word for an unknown rank; one unknown size is what clients take as anything.
            "shape": [-1] if info.shape.dims is None else [-1 if size is None else size for size in info.shape.dims],
        }
        for alias, info in infos.items()
    ]


def _configured(infos: Mapping[str, TensorInfo], *, shared: bool) -> list[dict[str, object]]:
    """Describe tensors as Triton's configuration does, which leaves out the dimension that requests share."""
    return [
        {
            "name": entry["name"],
            "data_type": "TYPE_" + {"BYTES": "STRING"}.get(str(entry["datatype"]), str(entry["datatype"])),
            "dims": entry["shape"][1:] if shared and isinstance(entry["shape"], list) else entry["shape"],
        }
        for entry in _described(infos)
    ]
