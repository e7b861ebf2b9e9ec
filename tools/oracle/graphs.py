"""Random graphs both ways: ours in TensorFlow and TensorFlow's here, with equal values and equal gradients.

Their queues and variables carry values from step to step; two steps are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

import headrace as hr
from oracle.recipes import Recipe, recipe, start_name

Values = list[npt.NDArray[Any]]
Feeds = list[dict[str, npt.NDArray[Any]]]
Action = Callable[..., Any]
LOOPS = ("loop", "branch_in_loop", "scan_rows", "counted_in_loop", "delayed_in_loop")
STEPS = 2
TOLERANCE: Mapping[str, tuple[float, float]] = {"float32": (2e-4, 2e-5), "float64": (1e-9, 1e-11)}


@dataclass(frozen=True, slots=True)
class Difference:
    """One random graph whose values or gradients differ.

    Attributes:
      seed: makes the graph again.
      direction: one of `DIRECTIONS`.
      what: which value differs, and by how much; or the error.
    """

    seed: int
    direction: str
    what: str


def filters(channels: int, dtype: str) -> npt.NDArray[Any]:
    """Return the filter `[2, 2, channels, 2]` of every convolution."""
    return np.linspace(-0.4, 0.5, 8 * channels).reshape(2, 2, channels, 2).astype(dtype)


class Counter:
    """A variable of ours that adds up what it is given, without an initial value. Mutable.

    Args:
      x: the value whose dtype and shape it has.
      number: names it, and the operation that makes it zero.
    """

    def __init__(self, x: hr.Tensor, number: int) -> None:
        self.dtype = x.dtype
        self.handle = hr.apply_op(
            "VarHandleOp", dtype=x.dtype, shape=x.shape, shared_name=f"counter_{number}", container=""
        )
        zeros = hr.zeros(x.shape.as_tuple(), x.dtype)
        hr.apply_op("AssignVariableOp", self.handle, zeros, name=start_name(number))

    def read(self) -> hr.Tensor:
        """Return its value."""
        value: hr.Tensor = hr.apply_op("ReadVariableOp", self.handle, dtype=self.dtype)
        return value

    def after(self, x: hr.Tensor) -> hr.Tensor:
        """Add a value and return the sum."""
        with hr.control_dependencies([hr.apply_op("AssignAddVariableOp", self.handle, x)]):
            return self.read()


class Delay:
    """A queue of ours through which values come one turn late, zeros first. Mutable.

    Args:
      x: the value whose dtype and shape it has.
      number: names the operation that puts the zeros in.
    """

    def __init__(self, x: hr.Tensor, number: int) -> None:
        self.queue = hr.FIFOQueue(8, x.dtype, shapes=[x.shape.as_tuple()])
        self.queue.enqueue(hr.zeros(x.shape.as_tuple(), x.dtype), name=start_name(number))

    def after(self, x: hr.Tensor) -> hr.Tensor:
        """Add a value and return the one before it."""
        with hr.control_dependencies([self.queue.enqueue(x)]):
            value: hr.Tensor = self.queue.dequeue()
        return value


class TheirCounter:
    """`Counter` in TensorFlow. Mutable."""

    def __init__(self, x: Any, number: int) -> None:
        self.dtype = x.dtype
        self.handle = tf.raw_ops.VarHandleOp(dtype=x.dtype, shape=x.shape, shared_name=f"counter_{number}")
        tf.raw_ops.AssignVariableOp(resource=self.handle, value=tf.zeros(x.shape, x.dtype), name=start_name(number))

    def read(self) -> Any:
        """Return its value."""
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)

    def after(self, x: Any) -> Any:
        """Add a value and return the sum."""
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=self.handle, value=x)]):
            return self.read()


class TheirDelay:
    """`Delay` in TensorFlow. Mutable."""

    def __init__(self, x: Any, number: int) -> None:
        self.queue = tf.queue.FIFOQueue(8, x.dtype, shapes=[x.shape])
        self.queue.enqueue(tf.zeros(x.shape, x.dtype), name=start_name(number))

    def after(self, x: Any) -> Any:
        """Add a value and return the one before it."""
        with tf.control_dependencies([self.queue.enqueue(x)]):
            value = self.queue.dequeue()
        value.set_shape(x.shape)
        return value


def stateful(system: Any, counter: Callable[[Any, int], Any], delay: Callable[[Any, int], Any]) -> dict[str, Action]:
    """Return what the stateful steps mean; both systems write them in the same way.

    Args:
      system: `hr` or `tf`.
      counter: makes a variable that adds up.
      delay: makes a queue that delays.
    """

    def in_branch(x: Any, number: int) -> Any:
        count = counter(x, number)
        total = system.reduce_sum(x) if system is tf else system.sum(x)
        return x * system.tanh(system.cond(total > 0, lambda: count.after(x), lambda: count.read() + 0.5))

    def in_loop(x: Any, times: int, state: Any) -> Any:
        return system.while_loop(
            lambda i, s: i < times, lambda i, s: (i + 1, s * 0.5 + system.tanh(state.after(s)) * x), (0, x)
        )[1]

    return {
        "delayed": lambda x, number: x + 0.5 * x * delay(x, number).after(x),
        "counted": lambda x, number: x * system.tanh(counter(x, number).after(x)),
        "counted_in_branch": in_branch,
        "counted_in_loop": lambda x, times, number: in_loop(x, times, counter(x, number)),
        "delayed_in_loop": lambda x, times, number: in_loop(x, times, delay(x, number)),
    }


def ours(dtype: str) -> dict[str, Action]:
    """Return what each step of a recipe means here."""
    return {
        "tanh": hr.tanh,
        "sigmoid": hr.sigmoid,
        "negative": lambda x: -x,
        "square": hr.square,
        "relu": hr.nn.relu,
        "exp": hr.exp,
        "log1p_square": lambda x: hr.log(1 + hr.square(x)),
        "sqrt_square": lambda x: hr.sqrt(0.5 + hr.square(x)),
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "divide_safely": lambda x, y: x / (1 + hr.square(y)),
        "maximum": hr.maximum,
        "minimum": hr.minimum,
        "where_greater": lambda x, y: hr.where(x > y, hr.tanh(x) + y, y - x),
        "sum": lambda x, axis, keep: hr.sum(x, axis=axis, keepdims=keep),
        "mean": lambda x, axis, keep: hr.mean(x, axis=axis, keepdims=keep),
        "max": lambda x, axis, keep: hr.max(x, axis=axis, keepdims=keep),
        "reshape": hr.reshape,
        "transpose": hr.permute_dims,
        "concat": lambda x, y, axis: hr.concat([x, y], axis=axis),
        "stack": lambda x, y, axis: hr.stack([x, y], axis=axis),
        "slice": lambda x, begin, size: x[begin : begin + size],
        "strided": lambda x: x[::2],
        "gather": lambda x, rows: hr.gather(x, list(rows)),
        "tile": lambda x, times: hr.tile(x, list(times)),
        "expand_dims": lambda x, axis: hr.expand_dims(x, axis),
        "split": lambda x, part: hr.split(x, 2)[part],
        "matmul": lambda x, y, left, right: hr.matmul(x, y, transpose_a=left, transpose_b=right),
        "softmax": hr.nn.softmax,
        "cross_entropy": lambda x, labels: hr.nn.sparse_softmax_cross_entropy(
            labels=np.array(labels, np.int32), logits=x
        ),
        "max_pool": lambda x: hr.nn.max_pool2d(x, 2),
        "conv2d": lambda x, channels: hr.nn.conv2d(x, filters(channels, dtype), strides=1, padding="SAME"),
        "branch": lambda x: hr.cond(hr.sum(x) > 0, lambda: hr.tanh(x), lambda: x * 0.5 - 0.1),
        "loop": lambda x, times: hr.while_loop(
            lambda i, s: i < times, lambda i, s: (i + 1, hr.sin(s) * 0.9 + x), (0, x)
        )[1],
        "branch_in_loop": lambda x, times: hr.while_loop(
            lambda i, s: i < times,
            lambda i, s: (i + 1, hr.cond(hr.equal(i, 1), lambda: hr.tanh(s + x), lambda: s * 0.7)),
            (0, x),
        )[1],
        "scan_rows": lambda x: hr.scan(lambda c, row: (hr.tanh(c + row),) * 2, x, hr.zeros_like(x[0]))[0],
        **stateful(hr, Counter, Delay),
    }


def theirs(dtype: str) -> dict[str, Action]:
    """Return what each step of a recipe means in TensorFlow."""
    return {
        "tanh": tf.tanh,
        "sigmoid": tf.sigmoid,
        "negative": lambda x: -x,
        "square": tf.square,
        "relu": tf.nn.relu,
        "exp": tf.exp,
        "log1p_square": lambda x: tf.math.log(1 + tf.square(x)),
        "sqrt_square": lambda x: tf.sqrt(0.5 + tf.square(x)),
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "divide_safely": lambda x, y: x / (1 + tf.square(y)),
        "maximum": tf.maximum,
        "minimum": tf.minimum,
        "where_greater": lambda x, y: tf.where(x > y, tf.tanh(x) + y, y - x),
        "sum": lambda x, axis, keep: tf.reduce_sum(x, axis=axis, keepdims=keep),
        "mean": lambda x, axis, keep: tf.reduce_mean(x, axis=axis, keepdims=keep),
        "max": lambda x, axis, keep: tf.reduce_max(x, axis=axis, keepdims=keep),
        "reshape": tf.reshape,
        "transpose": tf.transpose,
        "concat": lambda x, y, axis: tf.concat([x, y], axis=axis),
        "stack": lambda x, y, axis: tf.stack([x, y], axis=axis),
        "slice": lambda x, begin, size: x[begin : begin + size],
        "strided": lambda x: x[::2],
        "gather": lambda x, rows: tf.gather(x, list(rows)),
        "tile": lambda x, times: tf.tile(x, list(times)),
        "expand_dims": lambda x, axis: tf.expand_dims(x, axis),
        "split": lambda x, part: tf.split(x, 2)[part],
        "matmul": lambda x, y, left, right: tf.matmul(x, y, transpose_a=left, transpose_b=right),
        "softmax": tf.nn.softmax,
        "cross_entropy": lambda x, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=np.array(labels, np.int32), logits=x
        ),
        "max_pool": lambda x: tf.nn.max_pool2d(x, 2, strides=2, padding="VALID"),
        "conv2d": lambda x, channels: tf.nn.conv2d(x, filters(channels, dtype), strides=1, padding="SAME"),
        "branch": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: tf.tanh(x), lambda: x * 0.5 - 0.1),
        "loop": lambda x, times: tf.while_loop(
            lambda i, s: i < times, lambda i, s: (i + 1, tf.sin(s) * 0.9 + x), (0, x)
        )[1],
        "branch_in_loop": lambda x, times: tf.while_loop(
            lambda i, s: i < times,
            lambda i, s: (i + 1, tf.cond(tf.equal(i, 1), lambda: tf.tanh(s + x), lambda: s * 0.7)),
            (0, x),
        )[1],
        "scan_rows": lambda x: tf.scan(lambda c, row: tf.tanh(c + row), x, tf.zeros_like(x[0])),
        **stateful(tf, TheirCounter, TheirDelay),
    }


def follow(plan: Recipe, actions: Mapping[str, Action], inputs: list[Any]) -> list[Any]:
    """Build the graph of a recipe on its inputs and return the values to compare."""
    values = list(inputs)
    for step in plan.steps:
        values.append(actions[step.op](*(values[index] for index in step.inputs), *step.options))
    return [values[index] for index in plan.outputs]


def feeds(plan: Recipe, seed: int) -> Feeds:
    """Return values for a recipe's inputs, by name, for each step."""
    numbers = np.random.default_rng(seed)
    return [
        {f"input_{i}:0": numbers.uniform(-1, 1, shape).astype(plan.dtype) for i, shape in enumerate(plan.inputs)}
        for _ in range(STEPS)
    ]


def _dense(gradient: Any, convert: Action) -> Any:
    """Add up the rows of a sparse gradient; None stays None."""
    return None if gradient is None else convert(gradient)


def build_ours(plan: Recipe) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """Return our graph of a recipe: the graph, its inputs, its outputs and the gradients of the inputs."""
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(plan.dtype, shape, name=f"input_{i}") for i, shape in enumerate(plan.inputs)]
        outputs = follow(plan, ours(plan.dtype), inputs)
        total = hr.add_n([hr.mean(output) for output in outputs])
        gradients = [_dense(gradient, hr.convert_to_tensor) for gradient in hr.gradients(total, inputs)]
    return graph, inputs, outputs, gradients


def build_theirs(plan: Recipe) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """Return TensorFlow's graph of a recipe, in the same parts."""
    graph = tf.Graph()
    with graph.as_default():
        inputs = [tf.compat.v1.placeholder(plan.dtype, shape, name=f"input_{i}") for i, shape in enumerate(plan.inputs)]
        outputs = follow(plan, theirs(plan.dtype), inputs)
        total = tf.add_n([tf.reduce_mean(output) for output in outputs])
        gradients = [_dense(gradient, tf.convert_to_tensor) for gradient in tf.gradients(total, inputs)]
    return graph, inputs, outputs, gradients


def run_ours(graph: Any, plan: Recipe, fetches: list[str], fed: Feeds) -> Values:
    """Run tensors of our graph by name, step by step, and return what all steps gave."""
    with hr.Session(graph) as session:
        if plan.starts:
            session.run(plan.starts)
        return [value for feeds in fed for value in session.run(fetches, feeds=dict(feeds))]


def run_theirs(graph: Any, plan: Recipe, fetches: list[str], fed: Feeds) -> Values:
    """Run tensors of TensorFlow's graph by name, step by step, and return what all steps gave."""
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(plan.starts)
        return [value for feeds in fed for value in session.run(fetches, feed_dict=feeds)]


def difference(names: list[str], got: Values, wanted: Values, dtype: str) -> str | None:
    """Return where two lists of values differ beyond rounding, or None."""
    relative, absolute = TOLERANCE[dtype]
    for name, a, b in zip(names * STEPS, got, wanted, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{list(a.shape)} here, {b.dtype}{list(b.shape)} there"
        if not np.allclose(a, b, relative, absolute, equal_nan=True):
            return f"{name}: values differ by up to {np.nanmax(np.abs(a - b)):.3g}"
    return None


def ours_in_tensorflow(seed: int) -> str | None:
    """Build here, run there: values, our gradient operations, and TensorFlow's own gradients of the imported graph.

    Of loops it takes no gradients: it looks for a counter and a limit of its own among their first variables.
    """
    plan = recipe(seed)
    graph, inputs, outputs, gradients = build_ours(plan)
    known = [gradient for gradient in gradients if gradient is not None]
    names = [tensor.name for tensor in [*outputs, *known]]
    fed = feeds(plan, seed)
    here = run_ours(graph, plan, names, fed)
    imported = tf.Graph()
    with imported.as_default():
        definition = tf.compat.v1.GraphDef.FromString(hr.to_graph_def(graph).SerializeToString())
        tf.import_graph_def(definition, name="")
        if any(step.op in LOOPS for step in plan.steps):
            return difference(names, here, run_theirs(imported, plan, names, fed), plan.dtype)
        reached = [imported.get_tensor_by_name(tensor.name) for tensor in outputs]
        sources = [imported.get_tensor_by_name(tensor.name) for tensor in inputs]
        total = tf.add_n([tf.reduce_mean(tensor) for tensor in reached])
        own = [_dense(gradient, tf.convert_to_tensor) for gradient in tf.gradients(total, sources)]
    if [gradient is None for gradient in own] != [gradient is None for gradient in gradients]:
        return "the systems disagree on which inputs are connected"
    found = difference(names, here, run_theirs(imported, plan, names, fed), plan.dtype)
    if found is None:
        own_names = [tensor.name for tensor in [*reached, *(gradient for gradient in own if gradient is not None)]]
        found = difference(own_names, here, run_theirs(imported, plan, own_names, fed), plan.dtype)
    return found


def tensorflow_here(seed: int) -> str | None:
    """Build there, with TensorFlow's gradient operations, and run here."""
    plan = recipe(seed)
    graph, _, outputs, gradients = build_theirs(plan)
    names = [tensor.name for tensor in [*outputs, *(gradient for gradient in gradients if gradient is not None)]]
    fed = feeds(plan, seed)
    there = run_theirs(graph, plan, names, fed)
    imported = hr.import_graph_def(graph.as_graph_def().SerializeToString())
    return difference(names, run_ours(imported, plan, names, fed), there, plan.dtype)


def tensorflow_1_here(seed: int) -> str | None:
    """The same with branches and loops of primitives, which keep what their gradients read on stacks.

    Of some graphs TensorFlow cannot build the gradients in that form; they make way for others.
    """
    tf.compat.v1.disable_control_flow_v2()
    try:
        while not can_be_built(seed):
            seed += 100_000
        return tensorflow_here(seed)
    finally:
        tf.compat.v1.enable_control_flow_v2()


def can_be_built(seed: int) -> bool:
    """Return whether TensorFlow builds the graph of a seed."""
    try:
        build_theirs(recipe(seed))
    except tf.errors.InvalidArgumentError:
        return False
    return True


DIRECTIONS: Mapping[str, Callable[[int], str | None]] = {
    "ours in TensorFlow": ours_in_tensorflow,
    "TensorFlow's here": tensorflow_here,
    "TensorFlow 1's here": tensorflow_1_here,
}


def compare(direction: str, count: int) -> list[Difference]:
    """Try `count` random graphs in one direction and return those that differ."""
    found = []
    for seed in range(count):
        try:
            what = DIRECTIONS[direction](seed)
        except Exception as error:  # an error in either system is a difference to report, not the end of the run
            what = f"{type(error).__name__}: {error}"
        if what is not None:
            found.append(Difference(seed, direction, what))
    return found
