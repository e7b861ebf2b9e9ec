"""The one graph of a trainer: model, loss, gradients, update and metrics, with a step for each thing to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.layers.module import Module
from headrace.training.optim.optimizer import Optimizer

__all__ = ["TrainingGraph", "build"]

Measure = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """What `build` made.

    Attributes:
      graph: all of it.
      inputs: placeholder of a batch's inputs.
      labels: placeholder of a batch's labels.
      names: of the values that are measured, "loss" first.
      measured: scalars of a training batch, in the order of `names`.
      gradients: of the loss, tensors or `IndexedSlices`, by the names of the variables.
      train: the update.
      evaluated: scalars of a batch outside of training, in the order of `names`.
      outputs: the model's outputs outside of training.
    """

    graph: hr.Graph
    inputs: hr.Tensor
    labels: hr.Tensor
    names: tuple[str, ...]
    measured: Sequence[hr.Tensor]
    gradients: Mapping[str, Any]
    train: hr.Operation
    evaluated: Sequence[hr.Tensor]
    outputs: hr.Tensor


def build(
    model: Module, loss: Measure, optimizer: Optimizer, metrics: Mapping[str, Measure], seed: int | None, example: Any
) -> TrainingGraph:
    """Build the graph for batches like `example`.

    Args:
      model: applied once for training and once for the rest, with the same parameters.
      loss: of labels and outputs; its mean is made smaller.
      optimizer: makes the update.
      metrics: of labels and outputs, by name.
      seed: of the graph.
      example: a batch, arrays `(inputs [batch, ...], labels [batch, ...])`.
    Raises:
      InvalidArgumentError: the example is no such pair.
    """
    arrays = _pair(example)
    graph = hr.Graph(seed=seed)
    measures = {"loss": loss, **metrics}
    with graph.as_default():
        inputs, labels = (
            hr.placeholder(hr.as_dtype(array.dtype), [None, *array.shape[1:]], name=name)
            for name, array in zip(("inputs", "labels"), arrays, strict=True)
        )
        with hr.name_scope("training"):
            measured = _measure(measures, labels, model(inputs, training=True))
        pairs = optimizer.compute_gradients(measured[0], model.parameters(trainable=True))
        train = optimizer.apply_gradients(pairs, name="update")
        with hr.name_scope("evaluation"):
            outputs = model(inputs, training=False)
            evaluated = _measure(measures, labels, outputs)
    gradients = {variable.name: gradient for gradient, variable in pairs}
    return TrainingGraph(graph, inputs, labels, tuple(measures), measured, gradients, train, evaluated, outputs)


def _measure(measures: Mapping[str, Measure], labels: hr.Tensor, outputs: hr.Tensor) -> list[hr.Tensor]:
    """The means over the batch."""
    values = []
    for name, measure in measures.items():
        with hr.name_scope(name):
            values.append(hr.mean(hr.convert_to_tensor(measure(labels, outputs))))
    return values


def _pair(example: Any) -> tuple[Any, Any]:
    if not isinstance(example, tuple) or len(example) != 2 or not all(hasattr(item, "shape") for item in example):
        raise InvalidArgumentError(
            "an element of the dataset is not a batch to train on",
            expected="a pair of arrays: inputs [batch, ...] and labels [batch, ...]",
            got=f"{type(example).__name__}" + (f" of {len(example)}" if isinstance(example, tuple) else ""),
            hint="hr.data.from_arrays(inputs, labels).batch(64)",
        )
    if not example[0].shape or not example[1].shape or len(example[0]) != len(example[1]):
        raise InvalidArgumentError(
            "an element of the dataset is not a batch to train on",
            expected="inputs [batch, ...] and labels [batch, ...] of one batch size",
            got=f"{list(example[0].shape)} and {list(example[1].shape)}",
            hint="hr.data.from_arrays(inputs, labels).batch(64)",
        )
    return example[0], example[1]
