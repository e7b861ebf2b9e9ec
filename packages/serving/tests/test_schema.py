"""What schemathesis finds: it asks every route of `/openapi.json` for what is right and for what is nearly right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from headrace_serving import ModelRepository, ModelServer, create_app
from headrace_serving.openapi import openapi_document
from headrace_serving.repository import ModelVersion

schemathesis: Any = pytest.importorskip("schemathesis")

pytestmark = pytest.mark.filterwarnings("ignore")  # schemathesis' own
ROUTES = [(verb, path) for path, verbs in openapi_document()["paths"].items() for verb in verbs if verb != "parameters"]


@pytest.fixture(name="schema")
def _schema(make_signature: Callable[..., Any]) -> Any:
    signature = make_signature(
        {"x": ("float32", [None])}, {"y": ("float32", [None])}, lambda x: {"y": x * np.float32(2)}
    )
    model: Any = type("Model", (), {"signatures": {"serving_default": signature}})()
    app = create_app(ModelServer(ModelRepository([ModelVersion("m", 1, model)])))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.mark.parametrize(("verb", "path"), ROUTES)
def test_each_route_answers_as_it_is_described(schema: Any, verb: str, path: str) -> None:
    from schemathesis.specs.openapi import checks

    # Whether values fit depends on the model, which the schema does not know, so acceptance is not checked.
    described = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]

    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][verb].as_strategy())
    def ask(case: Any) -> None:
        case.path_parameters = dict(case.path_parameters or {}) | ({"model": "m"} if "{model}" in path else {})
        response = case.call()
        assert response.status_code < 500 or response.status_code == 501, response.text  # 501: shared memory and such
        case.validate_response(response, checks=described)

    ask()
