"""The description of the routes: each is one that the server knows, and each that it knows is described."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_serving.errors import MethodNotAllowedError, RouteNotFoundError
from headrace_serving.openapi import openapi_document
from headrace_serving.urls import Method, parse_url

DOCUMENT = openapi_document()
OPERATIONS = [
    (verb, path, operation)
    for path, verbs in DOCUMENT["paths"].items()
    for verb, operation in verbs.items()
    if verb != "parameters"
]


def resolved(reference: str) -> Any:
    """Return what a reference means."""
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for item in value.values() for found in references(item)]
    return [found for item in value for found in references(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(("verb", "path", "operation"), OPERATIONS)
def test_each_route_is_known(verb: str, path: str, operation: Any) -> None:
    call = parse_url(verb.upper(), path.replace("{model}", "m").replace("{version}", "3").replace("{label}", "canary"))
    assert call.spec.name == ("m" if "{model}" in path else "")
    assert operation["responses"].keys() == {"200", "default"}


def test_every_call_is_described() -> None:
    found = {
        parse_url(verb.upper(), path.replace("{model}", "m").replace("{version}", "3").replace("{label}", "c")).method
        for verb, path, _ in OPERATIONS
    }
    assert found == set(Method)


def test_references_and_names() -> None:
    for reference in references(DOCUMENT):
        assert resolved(reference)
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))


def test_other_verbs_are_not_known() -> None:
    for verb, path, _ in OPERATIONS:
        if path.startswith("/v2"):
            with pytest.raises((MethodNotAllowedError, RouteNotFoundError)):
                parse_url({"get": "POST", "post": "GET"}[verb], path.replace("{model}", "m").replace("{version}", "3"))
