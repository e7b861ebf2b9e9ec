"""The HTTP adapter: a FastAPI application around a `ModelServer`.

The routes of both protocols stay out of FastAPI's routing and validation, which cost several times what a small
prediction does: they are one ASGI callable, the `Endpoint`, that answers whatever no other route takes.
"""

from __future__ import annotations

from importlib import resources
from pathlib import PurePath

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headrace_serving import pages
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.endpoint import Endpoint, Limits
from headrace_serving.openapi import openapi_document
from headrace_serving.server import ModelServer

__all__ = [
    "DEFAULT_MAX_CONCURRENCY",
    "DEFAULT_MAX_REQUEST_BYTES",
    "DEFAULT_REQUEST_TIMEOUT",
    "DEFAULT_THREADS",
    "create_app",
]

DEFAULT_MAX_REQUEST_BYTES = 64 << 20
DEFAULT_THREADS = 8
DEFAULT_REQUEST_TIMEOUT = 30.0
DEFAULT_MAX_CONCURRENCY = 1024
_KINDS = {".css": "text/css", ".js": "text/javascript"}
_SAFE = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


def create_app(
    server: ModelServer,
    *,
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES,
    threads: int = DEFAULT_THREADS,
    gzip: bool = False,
    batching: BatchingOptions | None = None,
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
    max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
    api_key: str | None = None,
    access_log: bool = False,
    cors: bool = False,
) -> FastAPI:
    """Return the ASGI application that serves a `ModelServer` over HTTP.

    Args:
      server: what answers.
      max_request_bytes: limit on a request's body, before and after inflating.
      threads: how many predictions may be computed at once.
      gzip: compress answers of TensorFlow Serving's routes too for clients that accept it; it never does.
      batching: how requests share calls of a model; None computes each by itself.
      request_timeout: seconds from a request's arrival to its answer.
      max_concurrency: how many requests to models may be in the server; more are refused.
      api_key: what clients must send as `Authorization: Bearer KEY` or `X-API-Key: KEY`, but for health routes; None
        for nothing.
      access_log: log each answer as a line of JSON by the logger `headrace_serving.access`.
      cors: let pages from elsewhere send requests, as TensorFlow Serving's option of this name does.

    Example:
      >>> from headrace_serving import ModelRepository, ModelServer
      >>> create_app(ModelServer(ModelRepository([]))).title
      'Headrace model server'
    """
    limits = Limits(max_request_bytes, request_timeout, max_concurrency)
    key = None if api_key is None else api_key.encode()
    endpoint = Endpoint(server, limits, threads, batching, gzip=gzip, api_key=key, access_log=access_log, cors=cors)
    app = _Application(endpoint)
    app.state.endpoint = endpoint
    app.state.executor = endpoint.executor
    _add_pages(app)
    app.router.routes.append(Route("/{path:path}", endpoint))
    return app


def _add_pages(app: FastAPI) -> None:
    """Add what is for browsers: the page, the API's description, and what they load."""
    files = {
        file.name: file.read_bytes()
        for file in resources.files(pages).iterdir()
        if file.name.endswith((".css", ".html", ".js"))
    }

    @app.get("/")
    def page(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return _page(files["index.html"])
        return JSONResponse({"status": "alive"})  # what KServe's client asks for

    @app.get("/docs")
    def docs() -> Response:
        return _page(files["docs.html"])

    @app.get("/openapi.json")
    def openapi() -> Response:
        return JSONResponse(openapi_document())

    @app.get("/assets/{name}")
    def asset(name: str) -> Response:
        kind = _KINDS.get(PurePath(name).suffix)
        if kind is None or name not in files:
            return JSONResponse({"error": f"Not Found: /assets/{name}"}, 404)
        return Response(files[name], media_type=kind, headers=_SAFE)


def _page(content: bytes) -> Response:
    return Response(content, media_type="text/html", headers=_SAFE)


class _Application(FastAPI):
    """A FastAPI application that hands the protocols' paths on before any of its own layers."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(
            title="Headrace model server", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
        )
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else "/"
        if path.startswith(("/v1/", "/v2/")) or not path.startswith("/"):  # such as that of `OPTIONS *`
            await self._endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
