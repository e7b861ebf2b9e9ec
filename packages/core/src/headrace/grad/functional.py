"""Gradient rules of the operations that call functions: calls, branches and loops.

The gradient of a call is the gradient of its body; of a branch, a branch of the gradients of its functions on the same
predicate; of a loop, a loop over its iterations from the last to the first. What these read of the inside of the
forward operation is given by an extension of it (see `graph.extensions`): a call gives it as it is, a branch as a list
that is empty where the branch is not taken, a loop as a list of one element for each iteration.

Lists are differentiable values, and the gradients are operations of these same types, so higher derivatives follow.

The three stay in one module, long as it is: they share how what is inside is kept, told apart and put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.grad.backprop import Gradient, gradients, is_wanted
from headrace.grad.registry import register_gradient
from headrace.grad.replay import Differentiated, differentiate
from headrace.graph.apply import apply_op, constant, convert_to_tensor
from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.function_library import register_derivation
from headrace.graph.functions import Body
from headrace.graph.handle_spec import handle_attrs, handle_spec, variable_spec
from headrace.graph.operation import Operation, Tensor, origin
from headrace.graph.scopes import Scope, current_graph, enter
from headrace.graph.shape_value import constant_value
from headrace.ops.branching import build_branches
from headrace.ops.indexed_slices import IndexedSlices
from headrace.ops.looping import RECOMPUTE, SWAP_TO_HOST, Carried, LoopBuilder
from headrace.types import DType, Shape, int32, int64, resource, variant

TRIP_COUNT = "_trip_count"
"""The annotation of a loop that counts its iterations: the number of the output that does."""


def _carries_gradient(tensor: Tensor) -> bool:
    """True if a gradient may come to a tensor: to a number, to a list of such, or to what a handle stands for."""
    if tensor.dtype in (resource, variant):
        spec = handle_spec(tensor)
        return spec is None or spec.dtype.is_differentiable or spec.dtype is variant
    return tensor.dtype.is_differentiable


def _sizes(shape: Shape) -> Tensor:
    """A static shape as the operations on lists take it."""
    if shape.dims is None:
        return convert_to_tensor(-1, int32)
    return constant(np.array([-1 if size is None else size for size in shape.dims], np.int32))


def _empty_list(tensor: Tensor) -> Tensor:
    """A list for values like `tensor`."""
    empty: Tensor = apply_op("EmptyTensorList", _sizes(_element_shape(tensor)), -1, element_dtype=tensor.dtype)
    return empty


def _element_shape(tensor: Tensor) -> Shape:
    """What is known of the shape of a value; of a handle nothing, since that of a TensorArray has one of its own."""
    return Shape() if tensor.dtype is resource else tensor.shape


def _pushed(items: Tensor, tensor: Tensor, *, swapped: bool = False) -> Tensor:
    attrs: dict[str, AttrValue] = {"element_dtype": tensor.dtype, **({SWAP_TO_HOST: True} if swapped else {})}
    graph = current_graph()
    inputs = [graph.own(items), graph.own(tensor)]
    return graph.create_op("TensorListPushBack", inputs, attrs, name="TensorListPushBack").outputs[0]


def _popped(items: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """A list without its last element, and that, which has the dtype and static shape of `like`."""
    sizes = _sizes(_element_shape(like))
    shorter, element = apply_op("TensorListPopBack", items, sizes, element_dtype=like.dtype)
    element.set_shape(like.shape)
    return shorter, element


def _shape_of(tensor: Tensor, out_type: DType = int32) -> Tensor:
    """The shape of a tensor, or of the variable behind a handle."""
    if tensor.dtype is resource:
        spec = variable_spec(tensor)
        if spec is not None and spec.shape.is_fully_defined:
            return constant(np.array(spec.shape.as_tuple(), out_type.array_type))
        shape: Tensor = apply_op("VariableShape", tensor, out_type=out_type)
    else:
        shape = apply_op("Shape", tensor, out_type=out_type)
    return shape


def _zeros(tensor: Tensor, dtype: DType) -> Tensor:
    """A gradient of zeros for a tensor, or, of a dtype, for the variable behind a handle."""
    zeros: Tensor
    if tensor.dtype is resource:
        zeros = apply_op("Fill", _shape_of(tensor), constant(np.zeros((), dtype.array_type)))
    else:
        zeros = apply_op("ZerosLike", tensor)
    return zeros


def _extension(
    op: Operation, inputs: Sequence[Tensor], bodies: Mapping[str, Any], results: Sequence[Tensor]
) -> Operation:
    """The extension of `op` on these inputs, with functions that give `results`, of which the first are its own."""
    attrs: dict[str, AttrValue] = {**op.attrs, **bodies, **handle_attrs(results)}
    dtypes = tuple(tensor.dtype for tensor in results)
    attrs |= {"T": dtypes} if "T" in op.attrs else {"Tout": dtypes}
    if "output_shapes" in op.attrs:
        attrs["output_shapes"] = tuple(tensor.shape for tensor in results)
    attrs.pop("_output_shapes", None)  # TensorFlow's note of the shapes of the outputs, which are more now
    return op.graph.create_op(
        op.type,
        inputs,
        attrs,
        name=f"{op.name}/",
        device=op.device,
        colocation=op.colocation,
        source=op.source,
        extends=op,
    )


def _name(body: Body) -> str:
    return body.functions.unique_name(f"{body.name}_extended")


@register_derivation("gradient")
def _gradient_function(body: Body, name: str) -> Body:
    """A function of another one's arguments and the gradients of its results: the gradients of the arguments."""
    result = Body(name, functions=body.functions)
    tensors = {
        tensor: result.add_argument(number, tensor.spec, like=tensor)
        for number, tensor in sorted(body.arguments.items())
    }
    arguments = list(tensors.values())
    given = [
        result.add_argument(number, tensor.spec, like=tensor)
        for number, tensor in enumerate(body.results, len(arguments))
    ]
    result.include(body, body.results, tensors)
    with enter(Scope(graph=result)):
        found = gradients([tensors[tensor] for tensor in body.results], arguments, given)
        dense = [_dense(gradient, tensor, tensor.dtype) for gradient, tensor in zip(found, arguments, strict=True)]
    return result.complete(dense)


@register_gradient("PartitionedCall", partial=True)
@register_gradient("StatefulPartitionedCall", partial=True)
def _call(op: Operation, *grads: Gradient | None) -> list[Gradient | None]:
    """The gradient of the function, in the place of a call."""
    (body,) = op.bodies
    arguments = [j for j, tensor in enumerate(op.inputs) if _carries_gradient(tensor) and is_wanted(tensor)]
    results = [i for i, g in enumerate(grads) if g is not None]
    found = differentiate(body, results, arguments, recompute=False)
    saved = found.saved(range(len(op.inputs)))
    places: dict[Tensor, Tensor] = {found.forward.arguments[j]: tensor for j, tensor in enumerate(op.inputs)}
    if saved:
        extended, _ = found.forward.copy(_name(body), [*found.forward.results, *saved])
        extended.complete(extended.results)
        extension = _extension(op, op.inputs, {"f": FunctionName(extended.name)}, extended.results)
        places |= dict(zip(saved, extension.outputs[len(op.outputs) :], strict=True))
    given = [g for g in grads if isinstance(g, Tensor)]
    replayed = dict(
        zip(arguments, found.replay(given, lambda tensor: current_graph().own(places[tensor])), strict=True)
    )
    return [_whole(replayed.get(j), tensor) for j, tensor in enumerate(op.inputs)]


def _whole(gradient: Gradient | None, tensor: Tensor) -> Gradient | None:
    """Slices with the shape of the tensor around, which is told where the gradient is used."""
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values, gradient.indices, _shape_of(tensor))
    return gradient


@register_gradient("If", partial=True)
@register_gradient("StatelessIf", partial=True)
@register_gradient("Case", partial=True)
@register_gradient("StatelessCase", partial=True)
def _branches(op: Operation, *grads: Gradient | None) -> list[Gradient | None]:
    """The gradient of the branch that was taken."""
    inputs = op.inputs[1:]
    arguments = [j for j, tensor in enumerate(inputs) if _carries_gradient(tensor) and is_wanted(tensor)]
    results = [i for i, g in enumerate(grads) if g is not None]
    found = [differentiate(body, results, arguments, recompute=False) for body in op.bodies]
    saved = [item.saved(range(len(inputs))) for item in found]
    lists = iter(_extended_branches(op, found, saved) if any(saved) else ())
    given = [g for g in grads if isinstance(g, Tensor)]
    forms = [_form([item.gradients[k] for item in found], inputs[j]) for k, j in enumerate(arguments)]
    functions: list[Callable[[], Any]] = []
    for item, tensors in zip(found, saved, strict=True):
        places = {item.forward.arguments[j]: tensor for j, tensor in enumerate(inputs)}
        kept = {tensor: next(lists) for tensor in tensors}
        functions.append(_backward_branch(item, given, places, kept, [inputs[j] for j in arguments], forms))
    if not any(forms):
        return [None] * len(op.inputs)
    names = ["true", "false"] if len(functions) == 2 and op.inputs[0].dtype.name == "bool" else []
    names = names or [f"branch{number}" for number in range(len(functions))]
    selector = current_graph().own(op.inputs[0])
    outputs = build_branches(current_graph(), selector, functions, names, "branches_grad")
    by_argument = dict(zip(arguments, outputs, strict=True))
    return [None, *(_assembled(by_argument.get(j), tensor) for j, tensor in enumerate(inputs))]


@dataclass(frozen=True, slots=True)
class _Form:
    """How all branches, or iterations, give the gradient of one input.

    Attributes:
      is_sparse: as the rows and indices of slices.
      dtype: its dtype.
    """

    is_sparse: bool
    dtype: DType

    def of(self, gradient: Gradient | None, tensor: Tensor) -> Any:
        """The gradient in this form."""
        return _rows(gradient, tensor) if self.is_sparse else _dense(gradient, tensor, self.dtype)


def _form(candidates: Sequence[Gradient | None], tensor: Tensor) -> _Form | None:
    """The form of the gradient of an input, of which some branches may give none; None if all give none."""
    given = [gradient for gradient in candidates if gradient is not None]
    if not given:
        return None
    rows = (variable_spec(tensor) or tensor.spec).shape
    row_known = rows.dims is not None and Shape(rows.dims[1:]).is_fully_defined
    all_slices = all(isinstance(gradient, IndexedSlices) for gradient in given)
    return _Form(all_slices and (row_known or len(given) == len(candidates)), given[0].dtype)


def _backward_branch(
    found: Differentiated,
    given: Sequence[Tensor],
    places: Mapping[Tensor, Tensor],
    kept: Mapping[Tensor, Tensor],
    inputs: Sequence[Tensor],
    forms: Sequence[_Form | None],
) -> Callable[[], Any]:
    """The function of one branch of the gradient."""

    def build() -> Any:
        graph = current_graph()

        def provided(tensor: Tensor) -> Tensor:
            if tensor in kept:
                return _popped(graph.own(kept[tensor]), tensor)[1]
            return graph.own(places[tensor])

        gradients = found.replay([graph.own(g) for g in given], provided)
        return [
            None if form is None else form.of(gradient, graph.own(tensor))
            for gradient, tensor, form in zip(gradients, inputs, forms, strict=True)
        ]

    return build


def _dense(gradient: Gradient | None, tensor: Tensor, dtype: DType) -> Tensor:
    """A gradient as a dense tensor; zeros of a dtype for none."""
    if gradient is None:
        return _zeros(tensor, dtype)
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(gradient.values, gradient.indices, _shape_of(tensor)).to_dense()
    return gradient


def _rows(gradient: Gradient | None, tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and indices of slices, indices as int64; none for no gradient."""
    if isinstance(gradient, IndexedSlices):
        indices = gradient.indices
        return gradient.values, indices if indices.dtype is int64 else apply_op("Cast", indices, DstT=int64)
    spec = variable_spec(tensor) or tensor.spec
    row = Shape(spec.shape.dims and spec.shape.dims[1:]).as_tuple()  # slices are chosen only where it is known
    return constant(np.zeros((0, *row), spec.dtype.array_type)), constant(np.zeros(0, np.int64))


def _assembled(parts: Any, tensor: Tensor) -> Gradient | None:
    """The gradient of an input from what the branches give."""
    if isinstance(parts, tuple):
        values, indices = parts
        return IndexedSlices(values, indices, _shape_of(current_graph().own(tensor)))
    gradient: Gradient | None = parts
    return gradient


def _extended_branches(
    op: Operation, found: Sequence[Differentiated], saved: Sequence[Sequence[Tensor]]
) -> list[Tensor]:
    """Let the branches give the saved tensors too: for each a list, of one element if its branch was taken."""
    flat = [(number, tensor) for number, tensors in enumerate(saved) for tensor in tensors]
    extended: list[Body] = []
    for number, (item, body) in enumerate(zip(found, op.bodies, strict=True)):
        forward = item.forward
        with enter(Scope(graph=forward)):
            lists = [
                _pushed(_empty_list(tensor), tensor) if owner == number else _empty_list(tensor)
                for owner, tensor in flat
            ]
        extended.append(forward.copy(_name(body), [*forward.results, *lists])[0])
        extended[-1].complete(extended[-1].results)
    names = tuple(FunctionName(body.name) for body in extended)
    attrs = {"branches": names} if "branches" in op.attrs else {"then_branch": names[0], "else_branch": names[1]}
    shown = [*op.outputs, *extended[0].results[len(op.outputs) :]]  # shapes of outputs are those of all branches
    return list(_extension(op, op.inputs, attrs, shown).outputs[len(op.outputs) :])


@register_gradient("While", partial=True)
@register_gradient("StatelessWhile", partial=True)
def _while(op: Operation, *grads: Gradient | None) -> list[Gradient | None]:
    """A loop over the iterations from the last to the first, by which the gradients of the loop variables go back."""
    return _BackwardLoop(op, grads).build()


class _BackwardLoop:
    """The gradient of one loop while it is built. Mutable, used once.

    A variable is *invariant* if the body gives back what it gets. The gradients of the others are the variables of the
    backward loop; those of invariants are added up over the iterations.
    """

    def __init__(self, op: Operation, grads: Sequence[Gradient | None]) -> None:
        self.op = op
        self.grads = grads
        self.body = op.bodies[1]
        self.count = len(op.inputs)
        self.invariant = [_is_argument(self.body.results[j], j) for j in range(self.count)]
        self.active, self.shared = self._chosen()

    def build(self) -> list[Gradient | None]:
        """The gradients of the inputs."""
        result: list[Gradient | None] = [
            g if self.invariant[j] and is_wanted(self.op.inputs[j]) else None for j, g in enumerate(self.grads)
        ]
        if not self.active:
            return result
        arguments = [*self.active, *self.shared]
        found = differentiate(self.body, self.active, arguments, recompute=self._has(RECOMPUTE))
        counters = self._counters()
        free = {j for j in range(self.count) if self.invariant[j]} | counters.keys()
        saved = found.saved(free)
        extension, lists = self._extended(found, saved)
        return self._backward(found, extension, lists, counters, result)

    def _has(self, option: str) -> bool:
        """True if the loop was given an option, which its backward loop then has too."""
        return bool(self.op.attrs.get(option))

    def _chosen(self) -> tuple[list[int], list[int]]:
        """The variables that have a gradient in the backward loop, and the invariants that get one, by number."""
        reads = _dependences(self.body)
        carries = [_carries_gradient(tensor) for tensor in self.op.inputs]
        varying = [j for j in range(self.count) if carries[j] and not self.invariant[j]]
        arrived = _closure({j for j in varying if self.grads[j] is not None}, lambda i: reads[i])
        wanted = {j for j in range(self.count) if carries[j] and is_wanted(self.op.inputs[j])}
        reach = _closure(wanted, lambda j: {i for i in varying if j in reads[i]})
        active = [j for j in varying if j in arrived and j in reach]
        used = {j for i in active for j in reads[i]}
        shared = [j for j in range(self.count) if self.invariant[j] and j in wanted and j in used]
        return active, shared

    def _counters(self) -> dict[int, int]:
        """The integer variables that grow by a constant in each iteration, with that constant."""
        counters: dict[int, int] = {}
        for j, result in enumerate(self.body.results):
            op = result.op
            if op.type != "AddV2" or not result.dtype.is_integer or result.shape.rank != 0:
                continue
            for one, other in (op.inputs, reversed(op.inputs)):
                step = constant_value(other)
                if step is not None and _is_argument(one, j):
                    counters[j] = int(step)
        return counters

    def _extended(self, found: Differentiated, saved: Sequence[Tensor]) -> tuple[Operation, dict[Tensor, int]]:
        """The loop that counts its iterations and keeps what is to be saved; for each tensor the number of its list."""
        forward = found.forward
        lists = {tensor: number for tensor, number in _kept_already(forward).items() if tensor in saved}
        new = [tensor for tensor in saved if tensor not in lists]
        has_count = _trip_count(self.op) is not None
        if has_count and not new:
            return self.op, lists
        op, first = self.op, self.count + (0 if has_count else 1)
        lists |= {tensor: first + number for number, tensor in enumerate(new)}
        with enter(Scope(graph=op.graph)):
            added = [] if has_count else [convert_to_tensor(0, int32)]
            added += [_empty_list(tensor) for tensor in new]
        condition, _ = op.bodies[0].copy(_name(op.bodies[0]), op.bodies[0].results)
        for number, tensor in enumerate(added, self.count):
            condition.add_argument(number, tensor.spec, like=tensor)
        condition.complete(condition.results)
        arguments = [
            forward.add_argument(number, tensor.spec, like=tensor) for number, tensor in enumerate(added, self.count)
        ]
        with enter(Scope(graph=forward)):
            results = [] if has_count else [apply_op("AddV2", arguments[0], 1)]
            lists_in = arguments[len(results) :]
            swapped = self._has(SWAP_TO_HOST)
            results += [_pushed(items, tensor, swapped=swapped) for items, tensor in zip(lists_in, new, strict=True)]
        body, _ = forward.copy(_name(self.body), [*forward.results, *results])
        body.complete(body.results)
        names = {"cond": FunctionName(condition.name), "body": FunctionName(body.name)}
        shown = [*op.outputs, *added]
        extension = _extension(op, [*op.inputs, *added], {TRIP_COUNT: self.count, **op_attrs(op), **names}, shown)
        return extension, lists

    def _backward(
        self,
        found: Differentiated,
        extension: Operation,
        lists: Mapping[Tensor, int],
        counters: Mapping[int, int],
        result: list[Gradient | None],
    ) -> list[Gradient | None]:
        """Add the backward loop and take the gradients from its outputs."""
        graph = current_graph()
        trips = graph.own(extension.outputs[extension.attrs[TRIP_COUNT]])
        inputs = [graph.own(tensor) for tensor in self.op.inputs]
        first = [self._first(j) for j in self.active]
        shapes = [Shape([])] + [
            found.forward.arguments[j].shape.relax(tensor.shape) for j, tensor in zip(self.active, first, strict=True)
        ]
        loop = LoopBuilder(graph, [trips, *first], shapes, "while_grad")
        sums = [_Sum(loop, g, inputs[j]) for j, g in zip(self.shared, found.gradients[len(self.active) :], strict=True)]
        with enter(Scope(graph=loop.condition)):
            goes_on = apply_op("Greater", loop.condition_arguments[0], 0)
        with loop.body.as_default():
            remaining = apply_op("Sub", loop.body_arguments[0], 1)
            kept = {tensor: loop.carry(extension.outputs[number]) for tensor, number in lists.items()}

            def provided(tensor: Tensor) -> Tensor:
                if tensor in kept:
                    kept[tensor].result, element = _popped(kept[tensor].in_body, tensor)
                    return element
                number = tensor.op.attrs["index"]
                start = loop.body.own(inputs[number])
                if number not in counters:
                    return start
                done = remaining if tensor.dtype is int32 else apply_op("Cast", remaining, DstT=tensor.dtype)
                counted: Tensor = apply_op("AddV2", start, apply_op("Mul", done, counters[number]))
                return counted

            gradients = found.replay(loop.body_arguments[1:], provided)
            results = [remaining]
            for number, g in enumerate(gradients[: len(self.active)]):
                results.append(self._next(found, number, g, loop.body_arguments[number + 1], provided))
            for total, g in zip(sums, gradients[len(self.active) :], strict=True):
                total.add(g)
        outputs = loop.finish(goes_on, results, recompute=self._has(RECOMPUTE), swap_to_host=self._has(SWAP_TO_HOST))
        for j, output in zip(self.active, outputs[1:], strict=False):
            output.set_shape(self.op.inputs[j].shape)
            result[j] = output
        for j, total in zip(self.shared, sums, strict=True):
            result[j] = _plus(result[j], total.total(outputs))
        return result

    def _first(self, j: int) -> Tensor:
        g = self.grads[j]
        return g if isinstance(g, Tensor) else _zeros(current_graph().own(self.op.outputs[j]), self.op.outputs[j].dtype)

    def _next(
        self,
        found: Differentiated,
        number: int,
        g: Gradient | None,
        previous: Tensor,
        provided: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """The gradient of a loop variable before an iteration."""
        if isinstance(g, IndexedSlices):
            rows = found.forward.arguments[self.active[number]].shape
            shape = _sizes(rows) if rows.is_fully_defined else _shape_of(previous)
            return IndexedSlices(g.values, g.indices, shape).to_dense()
        if g is not None:
            return g
        zeros: Tensor = apply_op("ZerosLike", previous)
        return zeros


def _trip_count(op: Operation) -> int | None:
    """The number of the output of a loop that counts its iterations, or None; a graph file may hold a wrong one."""
    number = op.attrs.get(TRIP_COUNT)
    if type(number) is not int or not 0 <= number < len(op.outputs) or number >= len(op.bodies[1].results):
        return None
    result = op.bodies[1].results[number].op
    counts = result.type == "AddV2" and _is_argument(result.inputs[0], number) and constant_value(result.inputs[1]) == 1
    return number if counts and constant_value(op.inputs[number]) == 0 else None


def op_attrs(op: Operation) -> dict[str, AttrValue]:
    """What the extension of a loop takes over of its annotations."""
    number = _trip_count(op)
    return {} if number is None else {TRIP_COUNT: number}


class _Sum:
    """The gradient of an invariant, added up over the iterations of a backward loop. Mutable while it is built.

    Slices are collected on lists and joined after the loop: adding them up densely would cost the whole tensor in each
    iteration. The gradient of a list to which each iteration adds one element is changed at that element alone.
    """

    def __init__(self, loop: LoopBuilder, gradient: Gradient | None, tensor: Tensor) -> None:
        self.tensor = tensor
        form = _form([gradient, None], tensor)
        self.is_sparse = form is not None and form.is_sparse
        self.carried: list[Carried] = []
        if gradient is None:
            return
        with loop.around():
            if self.is_sparse:
                self.carried = [loop.carry(_list_of(part)) for part in _rows(None, tensor)]
            else:
                self.carried = [loop.carry(_zeros(tensor, gradient.dtype))]

    def add(self, gradient: Gradient | None) -> None:
        """Add the gradient of one iteration, in the body of the loop."""
        if self.is_sparse:
            for carried, part in zip(self.carried, _rows(gradient, self.tensor), strict=True):
                carried.result = _pushed(carried.in_body, part)
        elif gradient is not None:
            (carried,) = self.carried
            dense = _dense(gradient, current_graph().own(self.tensor), gradient.dtype)
            carried.result = _list_plus(carried.in_body, dense) if dense.dtype is variant else None
            if carried.result is None:
                carried.result = apply_op("AddN", [carried.in_body, dense])

    def total(self, outputs: Sequence[Tensor]) -> Gradient | None:
        """The sum, after the loop."""
        if not self.carried:
            return None
        parts = [outputs[carried.number] for carried in self.carried]
        if not self.is_sparse:
            return parts[0]
        values, indices = (
            apply_op("TensorListConcatV2", part, -1, constant(np.zeros(0, np.int64)), element_dtype=like.dtype)[0]
            for part, like in zip(parts, _rows(None, self.tensor), strict=True)
        )
        return IndexedSlices(values, indices, _shape_of(self.tensor))


def _list_of(rows: Tensor) -> Tensor:
    """A list for tensors with rows like these, with these as its first element: so there is one to join."""
    shape = Shape([None, *rows.shape.as_tuple()[1:]])
    empty: Tensor = apply_op("EmptyTensorList", _sizes(shape), -1, element_dtype=rows.dtype)
    return _pushed(empty, rows)


def _list_plus(total: Tensor, gradient: Tensor) -> Tensor | None:
    """The sum of two lists where one has a single element that is set, or None if it is not seen to be such a list."""
    op = gradient.op
    if op.type != "TensorListSetItem" or op.inputs[0].op.type != "TensorListReserve":
        return None
    _, index, item = op.inputs
    before = apply_op("TensorListGetItem", total, index, apply_op("Shape", item), element_dtype=item.dtype)
    added: Tensor = apply_op("TensorListSetItem", total, index, apply_op("AddN", [before, item]))
    return added


def _plus(one: Gradient | None, other: Gradient | None) -> Gradient | None:
    if one is None or other is None:
        return other if one is None else one
    total: Tensor = apply_op("AddN", [convert_to_tensor(one), convert_to_tensor(other)])
    return total


def _is_argument(tensor: Tensor, number: int) -> bool:
    source = origin(tensor)
    return source.type == "_Arg" and source.attrs["index"] == number


def _kept_already(forward: Body) -> dict[Tensor, int]:
    """The tensors that an extended loop pushes onto a list already, with the number of the list."""
    kept: dict[Tensor, int] = {}
    for number, result in enumerate(forward.results):
        op = result.op
        if op.type == "TensorListPushBack" and _is_argument(op.inputs[0], number):
            kept[op.inputs[1]] = number
    return kept


def _dependences(body: Body) -> list[set[int]]:
    """For each result the numbers of the arguments from which a gradient may reach it."""
    reads: dict[Tensor, set[int]] = {tensor: {index} for index, tensor in body.arguments.items()}
    for op in body.operations:
        found: set[int] = set().union(*(reads.get(tensor, set()) for tensor in op.inputs if _carries_gradient(tensor)))
        reads.update((output, found) for output in op.outputs if output not in reads)
    return [reads.get(result, set()) for result in body.results]


def _closure(start: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    stack = list(start)
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            stack += following(number)
    return found
