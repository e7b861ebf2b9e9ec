"""The description of the HTTP routes as an OpenAPI document, written by hand: no route has a validation model."""

from __future__ import annotations

from importlib import metadata
from typing import Any

_Document = dict[str, Any]

_JSON = "application/json"
_PROBLEM: _Document = {"$ref": "#/components/responses/Problem"}
_TENSOR: _Document = {
    "description": 'A number, string, true or false, {"b64": ...} for bytes, or nested lists of them.'
}
_MODEL = {"$ref": "#/components/parameters/model"}
_VERSION = {"$ref": "#/components/parameters/version"}
_LABEL = {"$ref": "#/components/parameters/label"}
_PLACES: tuple[tuple[str, str, list[_Document]], ...] = (
    ("", "", [_MODEL]),
    ("/versions/{version}", "Version", [_MODEL, _VERSION]),
)
_LABELLED = ("/labels/{label}", "Label", [_MODEL, _LABEL])


def openapi_document() -> _Document:
    """Return the document that `/openapi.json` serves.

    Example:
      >>> openapi_document()["openapi"]
      '3.1.0'
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace model server",
            "version": metadata.version("headrace-serving"),
            "description": "Predictions of exported models, by TensorFlow Serving's REST API (/v1) and by the Open "
            "Inference Protocol (/v2). Every error is an object with the key 'error'.",
        },
        "paths": _tensorflow_paths() | _open_paths() | _server_paths(),
        "components": {
            "parameters": {
                "model": _in_path("model", "Name of the model, percent-encoded.", {"type": "string", "minLength": 1}),
                "version": _in_path("version", "Number of the version.", {"type": "integer", "minimum": 0}),
                "label": _in_path("label", "A name for a version.", {"type": "string", "minLength": 1}),
            },
            "responses": {
                "Problem": {
                    "description": "What is wrong: 400 the request, 401 the key, 404 no such model, 413 too large, 429 "
                    "waited too long, 501 not supported, 503 too much to do, 504 too slow, 500 a fault.",
                    "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
            },
            "schemas": _schemas(),
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"key": []}, {"bearer": []}],
    }


def _in_path(name: str, description: str, schema: _Document) -> _Document:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _operation(name: str, summary: str, schema: str | _Document, **more: Any) -> _Document:
    found = {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "Done.", "content": {_JSON: {"schema": found}}}, "default": _PROBLEM},
        **more,
    }


def _body(schema: str, example: object, *, required: bool = True) -> _Document:
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    return {"required": required, "content": {_JSON: content}}


def _tensorflow_paths() -> _Document:
    paths: _Document = {}
    rows = {"instances": [[0.5, 1.5], [2.0, -1.0]]}
    examples = {"examples": [{"petal": [1.25, 0.5], "n": 3}]}
    for place, suffix, parameters in (*_PLACES, _LABELLED):
        base = f"/v1/models/{{model}}{place}"
        for method, request, example, answer, summary in (
            ("predict", "PredictRequest", rows, "PredictAnswer", "Compute outputs, row by row or as whole tensors."),
            ("classify", "ExamplesRequest", examples, "Results", "Compute classes and their scores for examples."),
            ("regress", "ExamplesRequest", examples, "Results", "Compute a number for each example."),
        ):
            name = method + suffix
            paths[f"{base}:{method}"] = {
                "parameters": parameters,
                "post": _operation(name, summary, answer, requestBody=_body(request, example)),
            }
        paths[base] = {
            "parameters": parameters,
            "get": _operation(f"status{suffix}", "Tell the states of versions.", "Status"),
        }
        paths[f"{base}/metadata"] = {
            "parameters": parameters,
            "get": _operation(f"metadata{suffix}", "Tell the signatures.", "Metadata"),
        }
    return paths


def _open_paths() -> _Document:
    paths: _Document = {}
    tensor = {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [0.5, 1.5, 2.0, -1.0]}
    for place, suffix, parameters in _PLACES:
        base = f"/v2/models/{{model}}{place}"
        infer = _operation(
            f"infer{suffix}",
            "Compute outputs; tensors are JSON, or raw bytes after the document.",
            "InferAnswer",
            requestBody=_body("InferRequest", {"inputs": [tensor]}),
        )
        infer["responses"]["200"]["content"]["application/octet-stream"] = {}
        paths[f"{base}/infer"] = {"parameters": parameters, "post": infer}
        for path, name, summary, schema in (
            ("", "model", "Tell the inputs and outputs.", "ModelMetadata"),
            ("/ready", "modelReady", "Tell whether the model answers.", "Ready"),
            ("/config", "config", "Tell inputs, outputs and batching as Triton does.", {"type": "object"}),
            ("/stats", "statistics", "Tell what the model has done.", "Statistics"),
        ):
            paths[base + path] = {"parameters": parameters, "get": _operation(name + suffix, summary, schema)}
    return paths


def _server_paths() -> _Document:
    state = {"type": "object", "properties": {"live": {"type": "boolean"}, "ready": {"type": "boolean"}}}
    done: _Document = {"type": "object"}
    return {
        "/v2": {"get": _operation("server", "Tell the server's name and extensions.", done)},
        "/v2/health/live": {"get": _operation("live", "Tell that the server is there.", state)},
        "/v2/health/ready": {"get": _operation("ready", "Tell whether to send requests.", state)},
        "/v2/models": {"get": _operation("models", "Tell the names of all models.", done)},
        "/v2/models/stats": {"get": _operation("allStatistics", "Tell what all models have done.", "Statistics")},
        "/v2/repository/index": {
            "post": _operation(
                "index",
                "Tell every version of every model.",
                {"type": "array", "items": {"type": "object"}},
                requestBody=_body("IndexRequest", {"ready": True}, required=False),
            )
        },
        **{
            f"/v2/repository/models/{{model}}/{what}": {
                "parameters": [_MODEL],
                "post": _operation(
                    what, f"{what.capitalize()} a model.", done, requestBody=_body("Anything", {}, required=False)
                ),
            }
            for what in ("load", "unload")
        },
        "/monitoring/prometheus/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Tell metrics as Prometheus reads them.",
                "responses": {
                    "200": {"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}},
                    "default": _PROBLEM,
                },
            }
        },
    }


def _object(required: list[str], **properties: _Document) -> _Document:
    return {"type": "object", "required": required, "properties": properties}


def _list(items: _Document) -> _Document:
    return {"type": "array", "items": items}


def _schemas() -> _Document:
    text: _Document = {"type": "string"}
    named = _object(["name", "datatype", "shape"], name=text, datatype=text, shape=_list({"type": "integer"}))
    parameters = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    tensor = _object(
        ["name", "shape", "datatype"],
        name=text,
        shape=_list({"type": "integer", "minimum": 0}),
        datatype=text,
        parameters=parameters,
        data={"type": "array"},
    )
    return {
        "Error": _object(["error"], error=text),
        "Anything": {"type": "object"},
        "IndexRequest": _object([], ready={"type": "boolean"}),
        "PredictRequest": {
            "type": "object",
            "properties": {"signature_name": text, "instances": {"type": "array"}, "inputs": _TENSOR},
            "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
        },
        "PredictAnswer": {
            "type": "object",
            "properties": {"predictions": {"type": "array"}, "outputs": _TENSOR},
            "oneOf": [{"required": ["predictions"]}, {"required": ["outputs"]}],
        },
        "ExamplesRequest": _object(
            ["examples"], signature_name=text, context={"type": "object"}, examples=_list({"type": "object"})
        ),
        "Results": _object(["results"], results={"type": "array"}),
        "Status": _object(
            ["model_version_status"],
            model_version_status=_list(
                _object(["version", "state", "status"], version=text, state=text, status={"type": "object"})
            ),
        ),
        "Metadata": _object(["model_spec", "metadata"], model_spec={"type": "object"}, metadata={"type": "object"}),
        "InferRequest": _object(
            ["inputs"],
            id=text,
            parameters=parameters,
            inputs=_list(tensor),
            outputs=_list(_object(["name"], name=text, parameters=parameters)),
        ),
        "InferAnswer": _object(
            ["model_name", "model_version", "outputs"],
            model_name=text,
            model_version=text,
            id=text,
            outputs=_list(named),
        ),
        "ModelMetadata": _object(
            ["name", "versions", "platform", "inputs", "outputs"],
            name=text,
            versions=_list(text),
            platform=text,
            inputs=_list(named),
            outputs=_list(named),
        ),
        "Ready": _object(["name", "ready"], name=text, ready={"type": "boolean"}),
        "Statistics": _object(["model_stats"], model_stats=_list({"type": "object"})),
    }
