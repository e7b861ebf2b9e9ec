"""TensorFlow Serving's URLs: which call a method and path mean. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from headrace_serving.errors import BadRequestError
from headrace_serving.repository import MAX_VERSION, ModelSpec

_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<model>[^/:]+){_VERSION}:predict", re.IGNORECASE)
_GET = re.compile(rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?P<metadata>/metadata)?", re.IGNORECASE)


class Method(Enum):
    """What a client asks of a model."""

    PREDICT = "predict"
    STATUS = "status"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True)
class Call:
    """A call and the model that it is about."""

    method: Method
    spec: ModelSpec


def is_v1(path: str) -> bool:
    """Return whether a path belongs to TensorFlow Serving's routes."""
    return re.match(r"/v1(/|$)", path, re.IGNORECASE) is not None


def parse_url(verb: str, path: str) -> Call:
    """Return the call that a request means.

    Names are taken apart before they are percent-decoded, so a model's name may contain an encoded slash.

    Args:
      verb: HTTP method.
      path: the path as the client sent it, still percent-encoded, without the query.
    Raises:
      BadRequestError: no such call.

    Example:
      >>> parse_url("GET", "/v1/models/half/versions/7").spec.version
      7
    """
    match = {"GET": _GET, "POST": _POST}[verb].fullmatch(path) if verb in ("GET", "POST") else None
    if match is None:
        raise BadRequestError(f"Malformed request: {verb} {path}")
    parts = match.groupdict()
    if parts["model"] is None:
        raise BadRequestError("Missing model name in request.")
    label = parts["label"]
    spec = ModelSpec(unquote(parts["model"]), _version(parts["version"]), None if label is None else unquote(label))
    if verb == "POST":
        return Call(Method.PREDICT, spec)
    return Call(Method.METADATA if parts["metadata"] else Method.STATUS, spec)


def _version(digits: str | None) -> int | None:
    if digits is None:
        return None
    if len(digits) > 40 or int(digits) > MAX_VERSION:
        raise BadRequestError(f"Failed to convert version: {digits[:40]} to numeric.")
    return int(digits)
