"""Calling a model before anybody else does, so that its first requests are as fast as the others.

A model's folder may hold requests that were recorded, one JSON body of a predict request in each line of
`assets.extra/warmup_requests.jsonl`; they are sent too.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headrace_serving.model import Array, Model, Signature, TensorInfo
from headrace_serving.predict import parse_predict

_log = logging.getLogger(__name__)

_RECORDED = Path("assets.extra", "warmup_requests.jsonl")
_MOST_RECORDED = 1000


def warm_up(name: str, model: Model, batch_sizes: Sequence[int] = (1,)) -> None:
    """Call each signature with zeros, once for each number of rows.

    A signature whose inputs have an unknown rank is passed over. Zeros need not be inputs that a model can take, so one
    that refuses them is not broken: that is logged.

    Args:
      name: of the model, for the log.
      model: the model.
      batch_sizes: the numbers of rows that its calls will have.
    """
    for signature_name, signature in model.signatures.items():
        for rows in batch_sizes:
            inputs = _zeros(signature, rows)
            if inputs is None:
                break
            try:
                signature(**inputs)
            except Exception as error:
                _log.info("signature '%s' of model '%s' does not take zeros: %s", signature_name, name, error)
                break


def recorded_requests(folder: Path) -> list[bytes]:
    """Return the bodies of the requests with which an exported model wants to be warmed up; at most a thousand."""
    try:
        with (folder / _RECORDED).open("rb") as file:
            return [line for line in itertools.islice(file, _MOST_RECORDED) if line.strip()]
    except OSError:
        return []


def replay(name: str, model: Model, bodies: Sequence[bytes]) -> None:
    """Send recorded predict requests to a model; those that it refuses are logged.

    Args:
      name: of the model, for the log.
      model: the model.
      bodies: what the requests have in them.
    """
    for number, body in enumerate(bodies, 1):
        try:
            request = parse_predict(body, model.signatures)
            request.signature(**request.inputs)
        except Exception as error:
            _log.warning("recorded request %d of model '%s' fails: %s", number, name, error)


def _zeros(signature: Signature, rows: int) -> dict[str, Array] | None:
    inputs: dict[str, Array] = {}
    for alias, info in signature.inputs.items():
        if info.shape.dims is None:
            return None
        inputs[alias] = _zero(info, [size if size is not None else 1 for size in info.shape.dims])
        if info.shape.dims and info.shape.dims[0] is None:
            inputs[alias] = np.repeat(inputs[alias], rows, axis=0)
    return inputs


def _zero(info: TensorInfo, shape: list[int]) -> Array:
    if info.dtype.name == "string":
        strings = np.empty(shape, object)
        strings.fill(b"")
        return strings
    return np.zeros(shape, info.dtype.array_type)
