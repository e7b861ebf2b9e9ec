"""TensorFlow Serving's URLs."""

from __future__ import annotations

import pytest

from headrace_serving.errors import BadRequestError
from headrace_serving.repository import ModelSpec
from headrace_serving.urls import Call, Method, is_v1, parse_url


@pytest.mark.parametrize(
    ("verb", "path", "call"),
    [
        ("POST", "/v1/models/m:predict", Call(Method.PREDICT, ModelSpec("m"))),
        ("POST", "/v1/models/m/versions/7:predict", Call(Method.PREDICT, ModelSpec("m", 7))),
        ("POST", "/v1/models/m/labels/canary:predict", Call(Method.PREDICT, ModelSpec("m", label="canary"))),
        ("GET", "/v1/models/m", Call(Method.STATUS, ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/7", Call(Method.STATUS, ModelSpec("m", 7))),
        ("GET", "/v1/models/m/metadata", Call(Method.METADATA, ModelSpec("m"))),
        ("GET", "/v1/models/m/versions/7/metadata", Call(Method.METADATA, ModelSpec("m", 7))),
        ("GET", "/V1/Models/M/Metadata", Call(Method.METADATA, ModelSpec("M"))),
        ("GET", "/v1/models/a%2Fb%3Ac", Call(Method.STATUS, ModelSpec("a/b:c"))),
        ("GET", f"/v1/models/m/versions/{2**63 - 1}", Call(Method.STATUS, ModelSpec("m", 2**63 - 1))),
    ],
)
def test_calls(verb: str, path: str, call: Call) -> None:
    assert is_v1(path)
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
        ("POST", "/v1/models/foo:classify", "Malformed request"),
        ("GET", "/v1", "Malformed request"),
        ("GET", "/v1/models", "Missing model name in request."),
        ("GET", f"/v1/models/m/versions/{2**63}", f"Failed to convert version: {2**63} to numeric."),
        ("POST", "/v1/models/m/versions/" + "9" * 9000 + ":predict", "Failed to convert version: 9{40} to numeric."),
    ],
)
def test_what_is_no_call(verb: str, path: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_url(verb, path)


@pytest.mark.parametrize("path", ["/", "/v10/models", "/v2/health/live", "/x/v1/models"])
def test_paths_of_others(path: str) -> None:
    assert not is_v1(path)
