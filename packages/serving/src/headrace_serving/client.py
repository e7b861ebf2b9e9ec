"""A client of model servers: NumPy arrays in, NumPy arrays out, by either protocol."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import ArrayLike

import headrace as hr
from headrace.errors import (
    DeadlineExceededError,
    HeadraceError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from headrace.graph.proto.types_pb2 import DataType
from headrace_serving.datatypes import datatype_of, dtype_of, tensor_from_bytes, tensor_to_bytes
from headrace_serving.errors import (
    BadRequestError,
    QueueTimeoutError,
    RequestTooLargeError,
    ServableNotFoundError,
    UnauthenticatedError,
    UnsupportedError,
)
from headrace_serving.json_tensor import (
    OPEN_JSON_TYPES,
    array_from_elements,
    dump_json,
    tensor_from_json,
    tensor_to_json,
)
from headrace_serving.json_value import parse_json
from headrace_serving.model import DEFAULT_SIGNATURE, Array

# What the server's JSON holds is checked where it is used: a wrong form is a KeyError or TypeError there.
_Json: TypeAlias = Any

_ERRORS: Mapping[int, type[HeadraceError]] = {
    400: BadRequestError,
    401: UnauthenticatedError,
    404: ServableNotFoundError,
    413: RequestTooLargeError,
    429: QueueTimeoutError,
    501: UnsupportedError,
    503: UnavailableError,
    504: DeadlineExceededError,
}
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Client:
    """Asks a model server. Threads may use one client at once; connections are kept for further requests until `close`.

    Args:
      url: where the server listens, such as `http://127.0.0.1:8501`.
      protocol: `v2` for the Open Inference Protocol, `v1` for TensorFlow Serving's.
      binary: send and get tensors as raw bytes instead of JSON; for `v2` only.
      timeout: seconds that any answer may take.
      api_key: the server's key, if it asks for one.

    Raises:
      InvalidArgumentError: the URL or the protocol is none.

    Example:
      >>> client = Client("http://127.0.0.1:8501")
      >>> client.url
      'http://127.0.0.1:8501'
    """

    def __init__(
        self,
        url: str,
        *,
        protocol: Literal["v1", "v2"] = "v2",
        binary: bool = True,
        timeout: float = 30.0,
        api_key: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or protocol not in ("v1", "v2"):
            raise InvalidArgumentError(
                "no server can be asked so",
                expected="a URL such as http://127.0.0.1:8501, and protocol 'v1' or 'v2'",
                got=f"{url!r} and {protocol!r}",
                hint="`headrace serve` prints the URL at which it listens",
            )
        self.url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port, self._root = parts.hostname, parts.port, parts.path.rstrip("/")
        self._protocol = protocol
        self._binary = binary
        self._timeout = timeout
        self._headers = {} if api_key is None else {"X-API-Key": api_key}
        self._idle: list[http.client.HTTPConnection] = []
        self._known: dict[str, _Json] = {}

    def predict(
        self,
        model: str,
        inputs: Mapping[str, ArrayLike],
        *,
        version: int | None = None,
        signature: str = DEFAULT_SIGNATURE,
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Return a model's outputs.

        Args:
          model: its name.
          inputs: arrays by alias, sent with the dtypes that they have; lists and scalars get the dtype that the model
            takes. Strings are bytes or text.
          version: which version; None for the newest.
          signature: which of its signatures.
          outputs: which outputs; None for all.
        Returns:
          arrays by alias; strings are object arrays of bytes.
        Raises:
          BadRequestError: the server refuses the request.
          ServableNotFoundError: there is no such model or version.
          UnavailableError: the server cannot be reached, or has too much to do.
          DeadlineExceededError: the answer took too long.
          HeadraceError: whatever else the server says.
        """
        if not isinstance(inputs, Mapping):
            raise BadRequestError(
                "the inputs are not named",
                expected="a mapping from the names of the model's inputs to arrays",
                got=f"a value of type {type(inputs).__name__}",
                hint="client.predict(model, {'x': value}); client.metadata(model) tells the names",
            )
        ask = self._predict_v1 if self._protocol == "v1" else self._predict_v2
        try:
            found = ask(model, inputs, version, signature, outputs)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, HeadraceError):
                raise
            raise self._unreadable(error) from error
        return {alias: found[alias] for alias in outputs or found}

    def live(self) -> bool:
        """Return whether there is a server."""
        try:
            return self._ask("GET", "/v2/health/live")[0] == 200
        except UnavailableError:
            return False

    def ready(self, model: str | None = None, version: int | None = None) -> bool:
        """Return whether the server, or a model of it, should be sent requests."""
        path = "/v2/health/ready" if model is None else _model_path("v2", model, version) + "/ready"
        try:
            return self._ask("GET", path)[0] == 200
        except UnavailableError:
            return False

    def models(self) -> list[str]:
        """Return the names of all models."""
        return list(self._json("GET", "/v2/models")["models"])

    def metadata(self, model: str, version: int | None = None) -> dict[str, Any]:
        """Return what the server tells of a model, in the words of the protocol."""
        suffix = "/metadata" if self._protocol == "v1" else ""
        return dict(self._json("GET", _model_path(self._protocol, model, version) + suffix))

    def load(self, model: str) -> None:
        """Let the server load a model from its folder, or look there for new versions."""
        self._json("POST", f"/v2/repository/models/{quote(model, safe='')}/load")

    def unload(self, model: str) -> None:
        """Let the server unload a model."""
        self._json("POST", f"/v2/repository/models/{quote(model, safe='')}/unload")

    def close(self) -> None:
        """Close all connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _predict_v1(
        self,
        model: str,
        inputs: Mapping[str, ArrayLike],
        version: int | None,
        signature: str,
        outputs: Sequence[str] | None,
    ) -> dict[str, Array]:
        signatures = self._described(model, version)["metadata"]["signature_def"]["signature_def"]
        described = signatures.get(signature, {"inputs": {}})  # what is not known the server refuses
        takes = {alias: _v1_dtype(info) for alias, info in described["inputs"].items()}
        tensors = {alias: _array(alias, value, takes.get(alias)) for alias, value in inputs.items()}
        # The suffix lets strings be written in base64, which the server takes for any name.
        document = {alias: tensor_to_json(f"{alias}_bytes", tensor) for alias, tensor in tensors.items()}
        body = dump_json({"signature_name": signature, "inputs": document})
        answer = self._json("POST", _model_path("v1", model, version) + ":predict", body)["outputs"]
        infos = described["outputs"]
        if len(infos) == 1:
            answer = dict.fromkeys(infos, answer)
        return {alias: tensor_from_json(answer[alias], _v1_dtype(info)) for alias, info in infos.items()}

    def _predict_v2(
        self,
        model: str,
        inputs: Mapping[str, ArrayLike],
        version: int | None,
        signature: str,
        outputs: Sequence[str] | None,
    ) -> dict[str, Array]:
        takes: dict[str, hr.DType] = {}
        if signature == DEFAULT_SIGNATURE and not all(isinstance(value, np.ndarray) for value in inputs.values()):
            described = self._described(model, version)["inputs"]
            takes = {entry["name"]: dtype_of(entry["datatype"]) for entry in described}
        entries: list[dict[str, object]] = []
        raw: list[bytes] = []
        for alias, value in inputs.items():
            tensor = _array(alias, value, takes.get(alias))
            dtype = hr.as_dtype(tensor.dtype)
            entry: dict[str, object] = {"name": alias, "datatype": datatype_of(dtype), "shape": list(tensor.shape)}
            if self._binary:
                raw.append(tensor_to_bytes(tensor))
                entry["parameters"] = {"binary_data_size": len(raw[-1])}
            elif dtype.name == "string":
                entry["data"] = [element.decode() for element in tensor.reshape(-1).tolist()]
            else:
                entry["data"] = tensor_to_json(alias, tensor.reshape(-1), OPEN_JSON_TYPES)
            entries.append(entry)
        document: dict[str, object] = {"inputs": entries}
        document["parameters"] = {"binary_data_output": self._binary}
        if signature != DEFAULT_SIGNATURE:
            document["parameters"] = {"binary_data_output": self._binary, "signature_name": signature}
        if outputs is not None:
            document["outputs"] = [{"name": alias} for alias in outputs]
        head = dump_json(document)
        headers = {"Inference-Header-Content-Length": str(len(head))} if self._binary else {}
        path = _model_path("v2", model, version) + "/infer"
        status, length, body = self._ask("POST", path, b"".join([head, *raw]), headers)
        _check(status, body)
        answer: _Json = parse_json(body[:length])
        rest = memoryview(body)[len(body) if length is None else length :]
        found: dict[str, Array] = {}
        for output in answer["outputs"]:
            dtype, shape = dtype_of(output["datatype"]), output["shape"]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                elements = array_from_elements(output["data"], dtype, OPEN_JSON_TYPES[dtype.name])
                found[output["name"]] = elements.reshape(shape)
            else:
                found[output["name"]] = tensor_from_bytes(output["name"], dtype, shape, rest[:size])
                rest = rest[size:]
        return found

    def _described(self, model: str, version: int | None) -> _Json:
        """Return a model's description, asked for once: exported versions keep their signatures."""
        key = _model_path(self._protocol, model, version)
        if key not in self._known:
            self._known[key] = self.metadata(model, version)
        return self._known[key]

    def _json(self, verb: str, path: str, body: bytes = b"") -> _Json:
        status, _, answer = self._ask(verb, path, body)
        _check(status, answer)
        return parse_json(answer)

    def _ask(
        self, verb: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, int | None, bytes]:
        """Send a request; status, length of the answer's JSON, and the answer's body."""
        while True:
            fresh, connection = self._connection()
            try:
                answer = self._exchange(connection, verb, path, body, {**self._headers, **(headers or {})})
            except _STALE as error:
                connection.close()
                if fresh:  # else the server may have closed a connection that was idle
                    raise self._unreachable(error) from error
            except TimeoutError as error:
                connection.close()
                raise DeadlineExceededError(
                    "the server did not answer in time",
                    where=self.url,
                    expected=f"an answer within {self._timeout:g} seconds",
                    got="none",
                    hint="give the client a longer timeout",
                ) from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self._unreachable(error) from error
            else:
                self._idle.append(connection)
                return answer

    def _exchange(
        self, connection: http.client.HTTPConnection, verb: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, int | None, bytes]:
        connection.request(verb, self._root + path, body, dict(headers))
        response = connection.getresponse()
        length = response.headers["Inference-Header-Content-Length"]
        return response.status, None if length is None else int(length), response.read()

    def _connection(self) -> tuple[bool, http.client.HTTPConnection]:
        """Return a connection, and whether it is new."""
        try:
            return False, self._idle.pop()
        except IndexError:  # asking whether there is one would leave time for another thread to take it
            return True, self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _unreachable(self, error: Exception) -> UnavailableError:
        return UnavailableError(
            "the server cannot be reached",
            where=self.url,
            expected="an HTTP server that takes connections",
            got=f"{type(error).__name__}: {error}",
            hint="start it by `headrace serve`, or mend the URL",
        )

    def _unreadable(self, error: Exception) -> InternalError:
        return InternalError(
            "the server's answer cannot be read",
            where=self.url,
            expected=f"an answer of protocol {self._protocol}",
            got=f"{type(error).__name__}: {error}",
            hint="ask by the other protocol",
        )


def _model_path(protocol: str, model: str, version: int | None) -> str:
    return f"/{protocol}/models/{quote(model, safe='')}" + ("" if version is None else f"/versions/{version}")


def _v1_dtype(info: _Json) -> hr.DType:
    return hr.as_dtype(DataType.Value(info["dtype"]))


def _array(alias: str, value: ArrayLike, dtype: hr.DType | None) -> Array:
    """Return an input's value as an array; strings as an object array of bytes."""
    wanted = None if dtype is None or dtype.name == "string" else dtype.array_type
    try:
        array: Array = value if isinstance(value, np.ndarray) else np.asarray(value, wanted)
    except (OverflowError, TypeError, ValueError) as error:
        raise BadRequestError(
            f"input '{alias}' cannot be made an array",
            expected="an array, or lists of equal length" + ("" if dtype is None else f", of {dtype.name}"),
            got=str(error),
            hint="np.asarray(value) shows what it is",
        ) from error
    if array.dtype.kind not in "OUS":
        return array
    strings = np.empty(array.size, object)
    strings[:] = [element.encode() if isinstance(element, str) else element for element in array.ravel().tolist()]
    return strings.reshape(array.shape)


def _check(status: int, body: bytes) -> None:
    """Raise what an answer that is none says."""
    if status == 200:
        return
    try:
        document: _Json = parse_json(body)
        message = str(document["error"])
    except (HeadraceError, KeyError, TypeError):
        message = body[:200].decode("utf-8", "replace")
    raise _ERRORS.get(status, InternalError)(message or f"the server answered {status}")
