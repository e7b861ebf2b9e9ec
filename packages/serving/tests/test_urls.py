"""The URLs of both protocols."""

from __future__ import annotations

import pytest

from headrace_serving.errors import BadRequestError, MethodNotAllowedError, RouteNotFoundError
from headrace_serving.repository import ModelSpec
from headrace_serving.urls import Call, Method, parse_url


@pytest.mark.parametrize(
    ("verb", "path", "call"),
    [
        ("POST", "/v1/models/m:predict", Call(Method.PREDICT, ModelSpec("m"), "Predict")),
        ("POST", "/v1/models/m/versions/7:predict", Call(Method.PREDICT, ModelSpec("m", 7), "Predict")),
        ("POST", "/v1/models/m/labels/canary:predict", Call(Method.PREDICT, ModelSpec("m", label="canary"), "Predict")),
        ("GET", "/v1/models/m", Call(Method.STATUS, ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/7", Call(Method.STATUS, ModelSpec("m", 7))),
        ("GET", "/v1/models/m/metadata", Call(Method.METADATA, ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/7/metadata", Call(Method.METADATA, ModelSpec("m", 7))),
        ("GET", "/V1/Models/M/Metadata", Call(Method.METADATA, ModelSpec("M"))),
        ("GET", "/v1/models/a%2Fb%3Ac", Call(Method.STATUS, ModelSpec("a/b:c"))),
        ("GET", f"/v1/models/m/versions/{2**63 - 1}", Call(Method.STATUS, ModelSpec("m", 2**63 - 1))),
        ("GET", "/v2", Call(Method.SERVER_METADATA, ModelSpec(""))),
        ("GET", "/v2/", Call(Method.SERVER_METADATA, ModelSpec(""))),
        ("GET", "/v2/health/live", Call(Method.SERVER_LIVE, ModelSpec(""))),
        ("GET", "/v2/health/ready", Call(Method.SERVER_READY, ModelSpec(""))),
        ("GET", "/v2/models", Call(Method.MODEL_NAMES, ModelSpec(""))),
        ("GET", "/v2/models/a%2Fb", Call(Method.MODEL_METADATA, ModelSpec("a/b"))),
        ("GET", "/v2/models/m/versions/7", Call(Method.MODEL_METADATA, ModelSpec("m", 7))),
        ("GET", "/v2/models/m/ready", Call(Method.MODEL_READY, ModelSpec("m"))),
        ("GET", "/v2/models/m/versions/7/ready", Call(Method.MODEL_READY, ModelSpec("m", 7))),
        ("POST", "/v2/repository/index", Call(Method.INDEX, ModelSpec(""))),
        ("POST", "/v2/repository/models/m/load", Call(Method.LOAD, ModelSpec("m"))),
        ("POST", "/v2/repository/models/m/unload", Call(Method.UNLOAD, ModelSpec("m"))),
        ("GET", "/monitoring/prometheus/metrics", Call(Method.METRICS, ModelSpec(""))),
        ("POST", "/v2/models/m/infer", Call(Method.INFER, ModelSpec("m"), "Infer")),
        ("POST", "/v2/models/m/versions/7/infer", Call(Method.INFER, ModelSpec("m", 7), "Infer")),
    ],
)
def test_calls(verb: str, path: str, call: Call) -> None:
    assert parse_url(verb, path) == call


@pytest.mark.parametrize(
    ("verb", "path", "message"),
    [
        ("GET", "/v1/models/foo:predict", "Malformed request: GET /v1/models/foo:predict"),
        ("POST", "/v1/models/foo/metadata", "Malformed request: POST /v1/models/foo/metadata"),
        ("PUT", "/v1/models/foo:predict", "Malformed request: PUT /v1/models/foo:predict"),
        ("GET", "/v1/models/foo/version/5", "Malformed request: GET /v1/models/foo/version/5"),
        ("GET", "/v1/models/foo/versions/x", "Malformed request"),
        ("GET", "/v1/models/foo/versions/1/labels/a", "Malformed request"),
        ("POST", "/v1/models/foo:sort", "Malformed request"),
        ("POST", "/v2/models/m/versions/latest/infer", "Failed to convert version: latest to numeric."),
        ("POST", f"/v2/models/m/versions/{2**63}/infer", f"Failed to convert version: {2**63} to numeric."),
        ("GET", "/v1", "Malformed request"),
        ("GET", "/v1/models", "Missing model name in request."),
        ("GET", f"/v1/models/m/versions/{2**63}", f"Failed to convert version: {2**63} to numeric."),
        ("POST", "/v1/models/m/versions/" + "9" * 9000 + ":predict", "Failed to convert version: 9{40} to numeric."),
    ],
)
def test_what_is_no_call(verb: str, path: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_url(verb, path)


@pytest.mark.parametrize("path", ["/", "/v10/models", "/v20", "/x/v1/models", "/v2/model", "/v2/models/a/b/infer"])
def test_paths_of_nobody(path: str) -> None:
    with pytest.raises(RouteNotFoundError, match=f"Not Found: {path}$"):
        parse_url("GET", path)


@pytest.mark.parametrize(("verb", "path"), [("GET", "/v2/models/m/infer"), ("POST", "/v2/health/live"), ("PUT", "/v2")])
def test_methods_that_a_path_has_not(verb: str, path: str) -> None:
    with pytest.raises(MethodNotAllowedError, match="Method Not Allowed"):
        parse_url(verb, path)
