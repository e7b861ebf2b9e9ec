"""The URLs of both protocols: which call a method and path mean. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from headrace_serving.errors import BadRequestError, MethodNotAllowedError, RouteNotFoundError
from headrace_serving.repository import MAX_VERSION, ModelSpec

METRICS_PATH = "/monitoring/prometheus/metrics"
_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<method>classify|regress|predict)", re.IGNORECASE)
_GET = re.compile(rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?P<metadata>/metadata)?", re.IGNORECASE)


class Method(Enum):
    """What a client asks of the server or of a model."""

    PREDICT = "predict"
    CLASSIFY = "classify"
    REGRESS = "regress"
    STATUS = "status"
    METADATA = "metadata"
    SERVER_LIVE = "server live"
    SERVER_READY = "server ready"
    SERVER_METADATA = "server metadata"
    MODEL_NAMES = "model names"
    MODEL_READY = "model ready"
    MODEL_METADATA = "model metadata"
    INFER = "infer"
    STATISTICS = "statistics"
    CONFIG = "config"
    INDEX = "index"
    METRICS = "metrics"
    LOAD = "load"
    UNLOAD = "unload"


_OPEN_ROUTES: tuple[tuple[str, re.Pattern[str], Method], ...] = tuple(
    (verb, re.compile(pattern.replace("MODEL", r"(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?")), method)
    for verb, pattern, method in (
        ("POST", "/v2/models/MODEL/infer", Method.INFER),
        ("GET", "/v2/health/live", Method.SERVER_LIVE),
        ("GET", "/v2/health/ready", Method.SERVER_READY),
        ("GET", "/v2/?", Method.SERVER_METADATA),
        ("GET", "/v2/models", Method.MODEL_NAMES),
        ("GET", "/v2/models/stats", Method.STATISTICS),  # before the model that could have this name
        ("GET", "/v2/models/MODEL", Method.MODEL_METADATA),
        ("GET", "/v2/models/MODEL/ready", Method.MODEL_READY),
        ("GET", "/v2/models/MODEL/stats", Method.STATISTICS),
        ("GET", "/v2/models/MODEL/config", Method.CONFIG),
        ("POST", "/v2/repository/index", Method.INDEX),
        ("POST", "/v2/repository/models/(?P<model>[^/]+)/load", Method.LOAD),
        ("POST", "/v2/repository/models/(?P<model>[^/]+)/unload", Method.UNLOAD),
    )
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call and the model that it is about.

    Attributes:
      method: what is asked.
      spec: which model; of no name where it is about the server.
      api: the word for it in metrics, such as `Predict`; empty if no outputs are asked for.
    """

    method: Method
    spec: ModelSpec
    api: str = ""


def parse_url(verb: str, path: str) -> Call:
    """Return the call that a request means.

    Names are taken apart before they are percent-decoded, so a model's name may contain an encoded slash.

    Args:
      verb: HTTP method.
      path: the path as the client sent it, still percent-encoded, without the query.
    Raises:
      BadRequestError: no such call among TensorFlow Serving's, or a version that is no number.
      RouteNotFoundError: no such path.
      MethodNotAllowedError: a path of the Open Inference Protocol by another method.

    Example:
      >>> parse_url("GET", "/v1/models/half/versions/7").spec.version
      7
      >>> parse_url("POST", "/v2/models/half/infer").method
      <Method.INFER: 'infer'>
    """
    start = path[:4].lower()
    if start in ("/v1", "/v1/"):
        return _tensorflow_call(verb, path)
    if start in ("/v2", "/v2/"):
        return _open_call(verb, path)
    if (verb, path) == ("GET", METRICS_PATH):
        return Call(Method.METRICS, ModelSpec(""))
    raise RouteNotFoundError(f"Not Found: {path}")


def _tensorflow_call(verb: str, path: str) -> Call:
    match = {"GET": _GET, "POST": _POST}[verb].fullmatch(path) if verb in ("GET", "POST") else None
    if match is None:
        raise BadRequestError(f"Malformed request: {verb} {path}")
    parts = match.groupdict()
    if parts["model"] is None:
        raise BadRequestError("Missing model name in request.")
    label = parts["label"]
    spec = ModelSpec(unquote(parts["model"]), _version(parts["version"]), None if label is None else unquote(label))
    if verb == "POST":
        method = Method(parts["method"].lower())
        return Call(method, spec, method.value.capitalize())
    return Call(Method.METADATA if parts["metadata"] else Method.STATUS, spec)


def _open_call(verb: str, path: str) -> Call:
    known = False
    for route_verb, pattern, method in _OPEN_ROUTES:
        match = pattern.fullmatch(path)
        if match is None:
            continue
        known = True
        if verb == route_verb:
            parts = match.groupdict()
            spec = ModelSpec(unquote(parts.get("model") or ""), _version(parts.get("version")))
            return Call(method, spec, "Infer" if method is Method.INFER else "")
    if known:
        raise MethodNotAllowedError("Method Not Allowed")
    raise RouteNotFoundError(f"Not Found: {path}")


def _version(digits: str | None) -> int | None:
    if digits is None:
        return None
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 40 or int(digits) > MAX_VERSION:
        raise BadRequestError(f"Failed to convert version: {digits[:40]} to numeric.")
    return int(digits)
