"""Every operation case against TensorFlow's operation of the same name."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import headrace as hr
from headrace.graph.op_def import lookup_op_def
from headrace.testing import OpCase, all_cases, assert_close


@dataclass(slots=True)
class Result:
    """What came of comparing the cases. Mutable: filled case by case.

    Attributes:
      counts: how many cases had which outcome.
      differences: (case id, what differs), for those that should be equal.
      deviations: (case id, why we differ), for those where TensorFlow is wrong by its own definition.
      extensions: (case id, TensorFlow's error), for those that only we compute.
    """

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[str, str]] = field(default_factory=list)
    deviations: list[tuple[str, str]] = field(default_factory=list)
    extensions: list[tuple[str, str]] = field(default_factory=list)


def grouped(case: OpCase) -> Iterator[tuple[Any, list[Any]]]:
    """Yield each input of the signature with the values that the case gives for it."""
    for argument, value in zip(lookup_op_def(case.op).inputs, case.inputs, strict=True):
        yield argument, list(value) if argument.is_list else [value]


def build(case: OpCase) -> tuple[Any, dict[str, npt.NDArray[Any]], list[str]]:
    """Build the case's operation on placeholders: the graph, the feeds by name, and the names of the outputs."""
    graph = hr.Graph()
    feeds: dict[str, npt.NDArray[Any]] = {}
    if case.build is not None:
        with graph.as_default():
            given = [hr.constant(value) for value in case.inputs]
            placeholders = [hr.placeholder(constant.dtype, constant.shape) for constant in given]
            results = _tensors(case.build(hr.apply_op, *placeholders))
        for tensor, constant in zip(placeholders, given, strict=True):
            feeds[tensor.name] = constant.op.attrs["value"]
        return graph, feeds, [tensor.name for tensor in results]
    with graph.as_default():
        inputs: list[Any] = []
        for argument, values in grouped(case):
            tensors = []
            for value in values:
                constant = hr.constant(value, dtype=argument.dtype)
                tensor = hr.placeholder(constant.dtype, constant.shape)
                feeds[tensor.name] = np.asarray(value, dtype=constant.dtype.array_type)
                tensors.append(tensor)
            inputs.append(tensors if argument.is_list else tensors[0])
        result = hr.apply_op(case.op, *inputs, **case.attrs)
    operation = result if isinstance(result, hr.Operation) else _first(result).op
    return graph, feeds, [tensor.name for tensor in operation.outputs]


def _tensors(result: Any) -> list[Any]:
    return [result] if isinstance(result, hr.Tensor) else [tensor for item in result for tensor in _tensors(item)]


def _first(result: Any) -> Any:
    return _first(result[0]) if isinstance(result, tuple) else result


def run_case(case: OpCase) -> tuple[str, str]:
    """Run a case in both systems and return the outcome and what there is to say about it."""
    graph, feeds, names = build(case)
    with hr.Session(graph) as session:
        ours = session.run(names, feeds=feeds)
    imported = tf.Graph()
    try:
        with imported.as_default():
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(hr.to_graph_def(graph).SerializeToString()), name="")
        with tf.compat.v1.Session(graph=imported) as session:
            theirs = session.run(names, feed_dict=feeds)
    except (tf.errors.OpError, ValueError) as error:
        return ("no such kernel there" if "No OpKernel" in str(error) else "refused there only"), _one_line(error)
    for name, here, there in zip(names, ours, theirs, strict=True):
        try:
            assert_close(here, np.array(there, object) if isinstance(there, bytes) else there, what=name)
        except AssertionError as error:
            return "differs", _one_line(error)
    return "equal", ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def refused_by_tensorflow(case_id: str) -> bool:
    """Run one case by TensorFlow's raw operation and say whether it is refused; called in another process."""
    case = next(case for case in all_cases() if case.id == case_id)
    try:
        with tf.Graph().as_default():
            if case.build is not None:
                result = case.build(tensorflow_op, *(tf.constant(value) for value in case.inputs))
            else:
                result = tensorflow_op(case.op, *case.inputs, **case.attrs)
            with tf.compat.v1.Session(config=_as_written() if case.build is not None else None) as session:
                session.run(result)
    except (tf.errors.OpError, ValueError, TypeError):
        return True
    return False


def _as_written() -> Any:
    """Run the graph as it is: the optimiser drops a push that no pop follows, and with it the error of the push."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def tensorflow_op(op: str, *inputs: Any, **attrs: Any) -> Any:
    """Add TensorFlow's operation of a type to its graph, as `hr.apply_op` adds ours."""
    named = {argument.name: value for argument, value in zip(lookup_op_def(op).inputs, inputs, strict=True)}
    return getattr(tf.raw_ops, op)(**named, **{name: _tensorflow_attr(value) for name, value in attrs.items()})


def _tensorflow_attr(value: Any) -> Any:
    if isinstance(value, hr.DType):
        return tf.as_dtype(value.name)
    if isinstance(value, hr.Shape):
        return list(value)
    return value


def refusals(cases: Sequence[OpCase]) -> Iterator[tuple[OpCase, str]]:
    """Yield each case that we refuse with what TensorFlow does: it may refuse, compute, or end the process."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, mp_context=context)
    for case in cases:
        try:
            yield (
                case,
                "refused by both" if pool.submit(refused_by_tensorflow, case.id).result() else "refused here only",
            )
        except BrokenProcessPool:
            pool = ProcessPoolExecutor(1, mp_context=context)
            yield case, "refused here, ends TensorFlow's process"
    pool.shutdown()


def compare() -> Result:
    """Compare every case."""
    result = Result()
    cases = [case for case in all_cases() if case.oracle and hasattr(tf.raw_ops, case.op)]
    result.counts["not in TensorFlow"] = sum(1 for _ in all_cases()) - len(cases)
    for case in cases:
        if case.raises is None:
            try:
                outcome, what = run_case(case)
            except Exception as error:  # an error of ours is a difference to report, not the end of the run
                outcome, what = "differs", f"{type(error).__name__}: {_one_line(error)}"
            _record(result, case, outcome, what)
    for case, outcome in refusals([case for case in cases if case.raises is not None]):
        _record(result, case, outcome, "TensorFlow computes it")
    return result


def _record(result: Result, case: OpCase, outcome: str, what: str) -> None:
    agrees = outcome in ("equal", "refused by both")
    if case.deviation is not None:
        result.deviations.append((case.id, case.deviation))
        outcome = "deviation of another version, equal" if agrees else "deliberate deviation"
    result.counts[outcome] += 1
    if outcome in ("differs", "refused here only"):
        result.differences.append((case.id, f"{outcome}: {what}"))
    elif outcome == "refused there only":
        result.extensions.append((case.id, what))
