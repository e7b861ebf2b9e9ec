"""Metrics by name: functions of labels and outputs whose mean over the examples is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headrace as hr
from headrace.errors import NotFoundError, known_names
from headrace.training.losses import like_outputs

__all__ = ["Metric", "lookup"]

Metric = str | Callable[[Any, Any], Any]


def _accuracy(labels: Any, outputs: Any) -> Any:
    """Whether the largest output is that of the label: class numbers `[batch]` or probabilities `[batch, classes]`."""
    classes = hr.argmax(labels, axis=-1) if labels.shape.rank == outputs.shape.rank else hr.astype(labels, hr.int64)
    return hr.astype(
        hr.equal(hr.astype(hr.argmax(outputs, axis=-1), hr.int64), hr.astype(classes, hr.int64)), hr.float32
    )


def _mean_absolute_error(labels: Any, outputs: Any) -> Any:
    """The absolute difference of each element."""
    return hr.abs(outputs - like_outputs(labels, outputs))


_BY_NAME: dict[str, Callable[[Any, Any], Any]] = {
    "accuracy": _accuracy,
    "mean_absolute_error": _mean_absolute_error,
}


def lookup(metric: Metric) -> tuple[str, Callable[[Any, Any], Any]]:
    """Return the name and the function of a metric; a function goes by its own name.

    Raises:
      NotFoundError: there is none of that name.
    """
    if not isinstance(metric, str):
        return getattr(metric, "__name__", type(metric).__name__), metric
    if metric not in _BY_NAME:
        raise NotFoundError(
            f"there is no metric '{metric}'",
            expected=known_names(metric, _BY_NAME),
            got=metric,
            hint="any function of labels and outputs will do",
        )
    return metric, _BY_NAME[metric]
