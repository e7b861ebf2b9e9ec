"""Calling a model before anybody else does, so that its first requests are as fast as the others."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from headrace_serving.model import Array, Model, Signature, TensorInfo

_log = logging.getLogger(__name__)


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
