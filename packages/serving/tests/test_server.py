"""The calls of the server, without a transport."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.errors import FeedError, InternalError
from headrace.types import Array, DType, Shape, TensorSpec, as_dtype
from headrace_serving.datatypes import datatype_of, tensor_to_bytes
from headrace_serving.errors import BadRequestError, ServableNotFoundError
from headrace_serving.json_tensor import dump_json, tensor_to_json
from headrace_serving.json_value import parse_json
from headrace_serving.repository import ModelRepository, ModelSpec, ModelVersion
from headrace_serving.server import ModelServer


@pytest.fixture(name="server")
def _server(half: Any) -> ModelServer:
    return ModelServer(ModelRepository([ModelVersion("half", 2, half), ModelVersion("half", 10, None, "damaged")]))


def test_predict(server: ModelServer) -> None:
    answer = server.predict(ModelSpec("half"), b'{"instances": [{"x": [1, 2], "n": 3}, {"x": [5, 6], "n": 4}]}')
    assert orjson.loads(answer) == {"predictions": [{"y": 1.5, "label": "30"}, {"y": 5.5, "label": "40"}]}
    answer = server.predict(ModelSpec("half", 2), b'{"inputs": {"x": [[1, 2]], "n": [3]}}')
    assert orjson.loads(answer) == {"outputs": {"y": [1.5], "label": ["30"]}}


def test_status(server: ModelServer) -> None:
    assert orjson.loads(server.status(ModelSpec("half"))) == {
        "model_version_status": [
            {"version": "10", "state": "END", "status": {"error_code": "UNKNOWN", "error_message": "damaged"}},
            {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}},
        ],
        "name": "half",
        "ready": True,
    }
    with pytest.raises(ServableNotFoundError, match="Could not find version 3 of model half"):
        server.status(ModelSpec("half", 3))


def test_metadata(make_signature: Callable[..., Any], echo: Callable[..., Any]) -> None:
    model = echo("float32")
    model.signatures["serving_default"] = make_signature({"x": ("float32", [None, 4])}, {"p": ("string", None)}, dict)
    server = ModelServer(ModelRepository([ModelVersion("iris", 7, model)]))
    dims = [{"size": "-1", "name": ""}, {"size": "4", "name": ""}]
    signature = {
        "inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": "x:0"}},
        "outputs": {"p": {"dtype": "DT_STRING", "tensor_shape": {"dim": [], "unknown_rank": True}, "name": "p:0"}},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    assert orjson.loads(server.metadata(ModelSpec("iris"))) == {
        "model_spec": {"name": "iris", "signature_name": "", "version": "7"},
        "metadata": {"signature_def": {"signature_def": {"serving_default": signature}}},
    }


@pytest.mark.parametrize(
    ("raised", "seen", "message"),
    [
        (FeedError("wrong feed"), FeedError, "wrong feed"),
        (ZeroDivisionError("oops"), InternalError, r"the model failed\n(.*\n)*.*got: +ZeroDivisionError: oops"),
    ],
)
def test_a_model_that_fails(
    make_signature: Callable[..., Any],
    echo: Callable[..., Any],
    raised: Exception,
    seen: type[Exception],
    message: str,
) -> None:
    def fail(x: object) -> Any:
        raise raised

    model = echo("float32")
    model.signatures["serving_default"] = make_signature({"x": ("float32", None)}, {}, fail)
    server = ModelServer(ModelRepository([ModelVersion("m", 1, model)]))
    with pytest.raises(seen, match=message):
        server.predict(ModelSpec("m"), b'{"inputs": 1}')


def test_many_threads_get_their_own_answers(server: ModelServer) -> None:
    def ask(number: int) -> object:
        body = orjson.dumps({"instances": [{"x": [number, number], "n": number}]})
        return orjson.loads(server.predict(ModelSpec("half"), body))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(200)))
    assert answers == [{"predictions": [{"y": float(n), "label": str(n * 10)}]} for n in range(200)]


class Reverse:
    """A signature that answers its rows in reverse order."""

    def __init__(self, dtype: DType) -> None:
        self.inputs = {"x": Info(dtype, Shape(), "x:0")}
        self.outputs = self.inputs

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        """Compute the outputs."""
        return {"x": inputs["x"][::-1]}


@dataclass(frozen=True)
class Info(TensorSpec):
    """An input or output."""

    name: str


@dataclass(frozen=True)
class ReverseModel:
    """A model of that signature."""

    signatures: dict[str, Reverse]


def test_strict_json(echo: Callable[..., Any]) -> None:
    repository = ModelRepository([ModelVersion("m", 1, echo("float32"))])
    strict = ModelServer(repository, strict_json=True)
    with pytest.raises(BadRequestError, match="JSON Parse error: NaN is no JSON number"):
        strict.predict(ModelSpec("m"), b'{"inputs": [NaN]}')
    body = b'{"instances": [1e39, 1]}'
    assert ModelServer(repository).predict(ModelSpec("m"), body) == b'{"predictions":[Infinity,1.0]}'
    assert strict.predict(ModelSpec("m"), body) == b'{"predictions":[null,1.0]}'


def infer_body(x: Array, *, binary: bool) -> tuple[bytes, int]:
    """Make an infer request of one input; the body and the length of its JSON."""
    entry = {"name": "x", "shape": list(x.shape), "datatype": datatype_of(as_dtype(x.dtype))}
    if binary:
        raw = tensor_to_bytes(x)
        head = dump_json({"inputs": [entry | {"parameters": {"binary_data_size": len(raw)}}]} | BINARY_OUTPUT)
        return head + raw, len(head)
    body = dump_json({"inputs": [entry | {"data": tensor_to_json("x", x)}]})
    return body, len(body)


BINARY_OUTPUT = {"parameters": {"binary_data_output": True}}


@given(
    st.sampled_from(["float32", "float64", "int32", "int64", "uint64", "bool"]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=3, max_side=4))
    )
)
def test_S11_rows_columns_json_binary_and_the_model_itself_agree(x: Array) -> None:
    model = ReverseModel({"serving_default": Reverse(as_dtype(x.dtype))})
    server = ModelServer(ModelRepository([ModelVersion("m", 1, model)]))
    document = tensor_to_json("x", x)
    by_row = parse_json(server.predict(ModelSpec("m"), dump_json({"instances": document})))
    by_column = parse_json(server.predict(ModelSpec("m"), dump_json({"inputs": {"x": document}})))
    open_json = parse_json(server.infer(ModelSpec("m"), *infer_body(x, binary=False)).body)
    binary = server.infer(ModelSpec("m"), *infer_body(x, binary=True))
    assert isinstance(by_row, dict)
    assert isinstance(by_column, dict)
    assert isinstance(open_json, dict)
    expected = model.signatures["serving_default"](x=x)["x"]
    for answer in (by_row["predictions"], by_column["outputs"]):
        np.testing.assert_array_equal(np.array(answer, x.dtype), expected, strict=True)
    (output,) = cast(list[Any], open_json["outputs"])
    np.testing.assert_array_equal(np.array(output["data"], x.dtype).reshape(output["shape"]), expected, strict=True)
    assert binary.body[binary.json_bytes :] == expected.tobytes()  # the bits of NaN as well
