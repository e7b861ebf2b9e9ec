"""Models made ready for inference: `to_int8` quantises a trained model by what it computes on a few batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from headrace.errors import GraphError, InvalidArgumentError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.batch_norm import batch_norm
from headrace.passes.constant_products import constant_products
from headrace.passes.fold import fold, user_name
from headrace.passes.inline import inline
from headrace.passes.int8 import Int8Product, int8
from headrace.passes.prune import prune
from headrace.passes.raising import raising
from headrace.passes.ranges import Method, Spread
from headrace.passes.rewrite import copy_op, drop_dead, rewrite
from headrace.runtime.feeds import feed_tensor
from headrace.runtime.fetches import flatten_fetches
from headrace.session import Session
from headrace.types import Array

__all__ = ["Int8Model", "Int8Report", "LeftInFloat", "OutputError", "to_int8"]


@dataclass(frozen=True, slots=True)
class LeftInFloat:
    """A product that is computed in float.

    Attributes:
      name: of the operation.
      type: of the operation.
      reason: why.
    """

    name: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True)
class OutputError:
    """How far an output in int8 is from that in float, on the calibration batches.

    Attributes:
      name: of the tensor.
      largest: the largest difference.
      relative: the root of the mean square of the differences over that of the output.
    """

    name: str
    largest: float
    relative: float


@dataclass(frozen=True, slots=True)
class Int8Report:
    """What was quantised, what was not, and what it costs.

    Attributes:
      products: those in int8, in order.
      left: the products that stay in float.
      others: how many other operations stay in float: they add, compare, pool or normalise.
      errors: for each output that is floating.
      weight_bytes: of the weights of products in int8, before and after.
    """

    products: tuple[Int8Product, ...]
    left: tuple[LeftInFloat, ...]
    others: int
    errors: tuple[OutputError, ...]
    weight_bytes: tuple[int, int]

    def text(self) -> str:
        """The report as lines of text."""
        before, after = self.weight_bytes
        lines = [f"int8: {len(self.products)} products, weights {before:,} -> {after:,} bytes"]
        for item in self.products:
            weights = f"{min(item.weight_scales):.3g} to {max(item.weight_scales):.3g}"
            lines.append(
                f"  {item.type} '{item.name}': input [{item.low:.4g}, {item.high:.4g}], scale {item.scale:.4g}, "
                f"zero point {item.zero_point}; scales of weights {weights}"
            )
        lines.append(f"float: {len(self.left)} products and {self.others} other operations")
        lines += [f"  {item.type} '{item.name}': {item.reason}" for item in self.left]
        lines.append("error on the calibration batches:")
        lines += [
            f"  '{item.name}': at most {item.largest:.4g}, {item.relative:.2%} of its size" for item in self.errors
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Int8Model:
    """A model that computes in int8.

    Attributes:
      graph: its graph: no variables, placeholders by their old names.
      inputs: the new placeholder for each tensor that was fed.
      outputs: the new tensors, in the structure in which they were asked for.
      report: what was done.
    """

    graph: Graph
    inputs: Mapping[Tensor, Tensor]
    outputs: Any
    report: Int8Report


def to_int8(
    session: Session,
    outputs: Any,
    batches: Iterable[Mapping[Any, Any]],
    *,
    method: Method = "minmax",
    percentile: float = 99.99,
) -> Int8Model:
    """Quantise a trained model to int8, after training: matrix products and convolutions with constant weights.

    The model runs on the batches, in float, and the ranges of what goes into each product are noted. Then weights are
    rounded to int8 with a scale for each output channel, inputs with one scale and a zero point, products are summed
    in int32, and biases are int32. Batch norm by given statistics goes into the convolution before it. Where a
    processor multiplies bytes, dense products are some 3 times faster than in float32, depthwise ones gain less; the
    weights take a quarter of the memory. The result on every machine is the same to the bit, but for what stays in
    float: among that is what is inside of loops and branches.

    Args:
      session: has the trained values of the variables; it and its graph stay as they are.
      outputs: tensors of its graph, or a structure of these as for `session.run`.
      batches: feeds, as for `session.run`; some hundred examples like those that will come. They are kept until the
        error is measured.
      method: how the range of an input is found that its integers stand for. `"minmax"` takes the lowest and the
        highest number. The others leave out a few that are far from all others, so that the rest is rounded more
        finely: `"percentile"` a share of them on both sides, `"entropy"` those beyond the distance from 0 at which the
        spread of the absolute values and that of their 128 levels differ least (by the divergence of Kullback and
        Leibler). Entropy finds the share by itself; it needs some ten thousand numbers for each product. Where nothing
        is far out, `"minmax"` is best: the report has the error of each.
      percentile: per cent of the numbers on each side that the range keeps, above 50 and up to 100.
    Returns:
      The model; its `graph` can be exported, saved and served like any other.
    Raises:
      InvalidArgumentError: there are no batches, or their feeds differ; a product gets numbers that are not finite, or
        none at all; the method is unknown; an output is no tensor.
      GraphError: the model changes variables or uses them inside of loops, or nothing in it can be quantised.
      FeedError: a placeholder that is needed is not fed.
    Source:
      Jacob et al., *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference*,
      CVPR 2018, sections 2.1 and 3. Entropy: Migacz, *8-bit Inference with TensorRT*, GTC 2017.

    Example:
      >>> import headrace as hr, numpy as np
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [None, 4])
      ...     w = hr.Variable(np.eye(4, 2, dtype=np.float32))
      ...     y = hr.nn.relu(x @ w + [0.5, -0.5])
      >>> images = np.linspace(0, 1, 40, dtype=np.float32).reshape(10, 4)
      >>> model = hr.to_int8(hr.Session(graph), y, [{x: images}])
      >>> [item.type for item in model.report.products], model.report.errors[0].largest < 0.005
      (['MatMul'], True)
      >>> hr.Session(model.graph).run(model.outputs, feeds={model.inputs[x]: images[:1]}).shape
      (1, 2)

      One number far from all others makes everything else coarse, unless it is left out:

      >>> images = np.random.default_rng(0).standard_normal((10_000, 4)).astype(np.float32)
      >>> images[7, 0] = 100
      >>> for method in ("minmax", "entropy"):
      ...     model = hr.to_int8(hr.Session(graph), y, [{x: images[:5000]}, {x: images[5000:]}], method=method)
      ...     print(round(model.report.products[0].high), round(model.report.products[0].scale, 2))
      100 0.41
      6 0.04
    """
    _check_method(method, percentile)
    structure = flatten_fetches(session.graph, outputs)
    if structure.targets or not structure.tensors:
        raise InvalidArgumentError(
            "a model gives tensors",
            expected="at least one tensor, and no operations",
            got=", ".join(op.name for op in structure.targets) or "nothing",
            hint="name the tensors that inference gives, such as the logits",
        )
    feeds, values = _fed(session.graph, batches)
    bounded = _frozen(session, prune(session.graph, structure.tensors, (), feeds))
    fit, left = constant_products(bounded)
    if not fit:
        raise _nothing(left)
    plain, plain_values = _opened(bounded, feeds, structure.tensors)
    spreads = {op.inputs[0]: Spread(method, percentile) for op in fit}
    observed = [(tensor, plain_values[tensor], spread) for tensor, spread in spreads.items()]
    floats = _calibrated(plain, session, values, observed)
    small, products, refused = int8(bounded, fit, {tensor: spread.range() for tensor, spread in spreads.items()})
    stays = {**left, **refused}
    if not products:
        raise _nothing(stays)
    opened, _ = _opened(small, feeds, structure.tensors)
    weights = [op.inputs[1].shape.num_elements or 0 for op in fit if op not in refused]
    report = Int8Report(
        tuple(products),
        tuple(LeftInFloat(op.name, op.type, reason) for op, reason in stays.items()),
        sum(not _is_part(op) for op in small.operations) - len(stays),
        _errors(opened, session, values, floats, [tensor.name for tensor in structure.tensors]),
        (4 * sum(weights), sum(weights)),
    )
    inputs = dict(zip(feeds, opened.inputs, strict=True))
    return Int8Model(opened.graph, inputs, structure.rebuild(opened.outputs), report)


def _nothing(left: Mapping[Operation, str]) -> GraphError:
    found = "; ".join(f"{op.type} '{op.name}': {reason}" for op, reason in left.items())
    return GraphError(
        "there is nothing to quantise",
        expected="a product or a convolution of images in float32 with constant weights",
        got=found or "no products at all",
        hint="outputs must depend on the layers of the model; batch norm must use given statistics",
    )


def _check_method(method: str, percentile: float) -> None:
    if method not in get_args(Method):
        raise InvalidArgumentError(
            "there is no such way to find ranges",
            expected=", ".join(map(repr, get_args(Method))),
            got=repr(method),
            hint="'minmax' keeps all numbers; the others leave a few far ones out",
        )
    if not 50 < percentile <= 100:
        raise InvalidArgumentError(
            "a range keeps more than half of the numbers",
            expected="a percentile above 50 and up to 100",
            got=str(percentile),
            hint="99.99 leaves out one number of 10,000 on each side",
        )


def _fed(graph: Graph, batches: Iterable[Mapping[Any, Any]]) -> tuple[list[Tensor], list[list[Any]]]:
    """The tensors that are fed, and for each batch their values."""
    feeds: list[Tensor] = []
    values: list[list[Any]] = []
    for batch in batches:
        given = {feed_tensor(graph, key): value for key, value in batch.items()}
        if not values:
            feeds = list(given)
        if set(given) != set(feeds):
            raise InvalidArgumentError(
                "calibration batches feed different tensors",
                expected=", ".join(tensor.name for tensor in feeds),
                got=", ".join(tensor.name for tensor in given),
                hint="feed the same tensors in each batch",
            )
        values.append([given[tensor] for tensor in feeds])
    if not values:
        raise InvalidArgumentError(
            "there is no calibration data",
            expected="at least one batch",
            got="none",
            hint="hr.to_int8(session, outputs, [{x: images}]); a generator gives its batches only once",
        )
    return feeds, values


_READS = ("ReadVariableOp", "ResourceGather")


def _frozen(session: Session, bounded: Graph) -> Graph:
    """A bounded graph with the values of variables as constants, without calls, and batch norm as products."""
    bounded = inline(raising(bounded))
    for op in bounded.operations:
        for tensor in op.inputs:
            if tensor.op.type == "VarHandleOp" and op.type not in _READS:
                raise GraphError(
                    f"'{op.name}' does something else than read a variable",
                    where=op.location,
                    expected="a model that only reads its variables, outside of loops and branches",
                    got=op.type,
                    hint="fetch the outputs of inference, not those of training",
                )
    names = [op.name for op in bounded.operations if op.type == "VarHandleOp"]
    values = session.read_variables(names) if names else {}

    def rule(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
        if op.type == "VarHandleOp":
            value = values[op.name]
            attrs = {"value": value, "dtype": op.attrs["dtype"]}
            return graph.create_op("Const", (), attrs, name=f"{op.name}/", source=op.source).outputs
        if op.type == "ReadVariableOp":
            return [inputs[0]]
        if op.type == "ResourceGather":
            axis = graph.create_op("Const", (), {"value": np.int32(0), "dtype": "int32"}, name=f"{op.name}/axis/")
            types = {"Tparams": op.attrs["dtype"], "Tindices": op.inputs[1].dtype, "Taxis": "int32"}
            attrs = {"batch_dims": op.attrs["batch_dims"], **types}
            given = (*inputs, axis.outputs[0])
            return graph.create_op("GatherV2", given, attrs, name=f"{op.name}/", source=op.source).outputs
        return None

    return fold(batch_norm(fold(drop_dead(rewrite(bounded, rule)))))


@dataclass(frozen=True, slots=True)
class _Opened:
    """A graph to run: its placeholders and the tensors that it gives."""

    graph: Graph
    inputs: list[Tensor]
    outputs: list[Tensor]


def _opened(bounded: Graph, feeds: Sequence[Tensor], fetches: Sequence[Tensor]) -> tuple[_Opened, dict[Tensor, Tensor]]:
    """A bounded graph as one with placeholders, named as what was fed, and outputs, named as what was fetched.

    Returns:
      The graph, and what each tensor of the bounded one is in it.
    """
    graph = Graph(seed=bounded.seed, extend=True, functions=bounded.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    inputs: dict[int, Tensor] = {}
    results: dict[int, Tensor] = {}
    for index, feed in enumerate(feeds):
        attrs = {"dtype": feed.dtype, "shape": feed.shape}
        made = graph.create_op("Placeholder", (), attrs, name=f"{feed.op.name}/", source=feed.op.source)
        inputs[index] = made.outputs[0]
    for op in bounded.operations:
        if op.type == "_Arg":
            tensors[op.outputs[0]] = inputs[op.attrs["index"]]
        elif op.type == "_Retval":
            results[op.attrs["index"]] = tensors[op.inputs[0]]
        else:
            controls = [copies[item] for item in op.control_inputs if item in copies]
            copies[op] = copy_op(op, [tensors[tensor] for tensor in op.inputs], graph, controls, prefix="")
            tensors.update(zip(op.outputs, copies[op].outputs, strict=True))
    named = {op.name for op in graph.operations}
    outputs = []
    for index, fetch in enumerate(fetches):
        result = results[index]
        if fetch.op.name not in named:
            attrs = {"T": result.dtype}
            result = graph.create_op("Identity", [result], attrs, name=f"{fetch.op.name}/").outputs[0]
            named.add(fetch.op.name)
        outputs.append(result)
    return _Opened(graph, [inputs[index] for index in range(len(feeds))], outputs), tensors


def _calibrated(
    model: _Opened, session: Session, batches: Sequence[Sequence[Any]], spreads: Sequence[tuple[Tensor, Tensor, Spread]]
) -> list[Sequence[Array]]:
    """Run the float model on the batches.

    Args:
      model: the model.
      session: its configuration is taken.
      batches: what is fed.
      spreads: for each input of a product its tensor as errors name it, that in the model, and what takes its numbers.
    Returns:
      The outputs for each batch.
    """
    observed = [tensor for _, tensor, _ in spreads]
    step = Session(model.graph, config=session.config).make_callable([observed, model.outputs], model.inputs)
    floats = []
    for batch in batches:
        found, outputs = step(*batch)
        floats.append(outputs)
        for (named, _, spread), value in zip(spreads, found, strict=True):
            _check_finite(named, value)
            spread.add(value)
    return floats


def _check_finite(tensor: Tensor, value: Array) -> None:
    name = tensor.op.attrs["_feed"] if tensor.op.type == "_Arg" else user_name(tensor.op)
    if not value.size:
        raise InvalidArgumentError(
            f"calibration gives '{name}' no numbers",
            where=tensor.op.location,
            expected="at least one example in each batch",
            got=f"shape {list(value.shape)}",
            hint="leave empty batches out",
        )
    if not np.isfinite(value).all():
        raise InvalidArgumentError(
            f"calibration gives '{name}' numbers that are not finite",
            where=tensor.op.location,
            expected="finite numbers, of which a range can be made",
            got=f"{int((~np.isfinite(value)).sum())} of {value.size} are NaN or infinite",
            hint="check the batches, and the model on them: hr.debug finds where they come from",
        )


def _errors(
    model: _Opened,
    session: Session,
    batches: Sequence[Sequence[Any]],
    floats: Sequence[Sequence[Array]],
    names: Sequence[str],
) -> tuple[OutputError, ...]:
    step = Session(model.graph, config=session.config).make_callable(model.outputs, model.inputs)
    largest, squares, sizes = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names))
    for batch, wanted in zip(batches, floats, strict=True):
        for place, (found, exact) in enumerate(zip(step(*batch), wanted, strict=True)):
            if found.dtype.kind == "f" and found.size:
                exact = exact.astype(np.float64)
                difference = found.astype(np.float64) - exact
                largest[place] = max(largest[place], np.abs(difference).max())
                squares[place] += np.square(difference).sum()
                sizes[place] += np.square(exact).sum()
    relative = np.sqrt(squares / np.where(sizes > 0, sizes, 1))
    return tuple(
        OutputError(name, float(largest[place]), float(relative[place]))
        for place, name in enumerate(names)
        if model.outputs[place].dtype.is_floating
    )


def _is_part(op: Operation) -> bool:
    """True for what computes nothing in float: constants, ends, other shapes, and integers."""
    if op.type in ("Const", "_Arg", "_Retval", "Identity", "Reshape") or op.type.startswith("Uniform"):
        return True
    return not any(tensor.dtype.is_floating for tensor in (*op.inputs, *op.outputs))
