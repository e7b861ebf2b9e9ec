"""Serve exported models over HTTP by TensorFlow Serving's routes."""

from __future__ import annotations

from headrace_serving.app import create_app
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.errors import (
    BadRequestError,
    ClientGoneError,
    EncodingError,
    MethodNotAllowedError,
    ModelFolderError,
    QueueFullError,
    QueueTimeoutError,
    RequestTooLargeError,
    RouteNotFoundError,
    ServableNotFoundError,
    UnsupportedError,
)
from headrace_serving.repository import ModelRepository, ModelSpec, ModelVersion
from headrace_serving.server import ModelServer

__all__ = [
    "BadRequestError",
    "BatchingOptions",
    "ClientGoneError",
    "EncodingError",
    "MethodNotAllowedError",
    "ModelFolderError",
    "ModelRepository",
    "ModelServer",
    "ModelSpec",
    "ModelVersion",
    "QueueFullError",
    "QueueTimeoutError",
    "RequestTooLargeError",
    "RouteNotFoundError",
    "ServableNotFoundError",
    "UnsupportedError",
    "create_app",
]
