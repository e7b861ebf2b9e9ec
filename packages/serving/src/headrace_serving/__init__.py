"""Serve exported models over HTTP by TensorFlow Serving's routes and the Open Inference Protocol, and ask servers."""

from __future__ import annotations

from headrace_serving.app import create_app
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.catalog import ModelConfig, VersionPolicy
from headrace_serving.client import Client
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
    UnauthenticatedError,
    UnsupportedError,
)
from headrace_serving.manager import ModelManager
from headrace_serving.repository import ModelRepository, ModelSpec, ModelVersion, State
from headrace_serving.server import ModelServer

__all__ = [
    "BadRequestError",
    "BatchingOptions",
    "Client",
    "ClientGoneError",
    "EncodingError",
    "MethodNotAllowedError",
    "ModelConfig",
    "ModelFolderError",
    "ModelManager",
    "ModelRepository",
    "ModelServer",
    "ModelSpec",
    "ModelVersion",
    "QueueFullError",
    "QueueTimeoutError",
    "RequestTooLargeError",
    "RouteNotFoundError",
    "ServableNotFoundError",
    "State",
    "UnauthenticatedError",
    "UnsupportedError",
    "VersionPolicy",
    "create_app",
]
