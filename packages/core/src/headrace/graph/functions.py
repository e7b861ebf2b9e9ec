"""Body: the graph of a function, and how it captures what it reads of the graph around it.

A body is a bounded graph: `_Arg` operations are its arguments, `_Retval` operations its results, in the order of their
`index`. While it is being built it knows the graph around it, `outer`; an operation that is created in it with a tensor
from there *captures* the tensor: it becomes one more argument, once per tensor. The operation that will call the
function passes the captured tensors after its own inputs.

Bodies of one operation (two branches; the condition and the body of a loop) take the same arguments, so they are built
with one `Captures` in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.errors import GraphError, HeadraceError
from headrace.graph.effect_order import EffectOrder, effects_of_body
from headrace.graph.extensions import needed_operations, standing_for
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Effects, Operation, Tensor
from headrace.graph.scopes import Scope, current_scope, enter
from headrace.graph.source import user_line
from headrace.types import Shape, TensorSpec

if TYPE_CHECKING:
    from headrace.graph.attr import AttrValue

__all__ = ["Body", "Captures", "outside_effect"]


class Captures:
    """The tensors of an outer graph that the bodies of one operation read, in the order of arguments. Mutable.

    Attributes:
      first: the number of arguments that come before them.
    """

    def __init__(self, first: int) -> None:
        self._numbers: dict[Tensor, int] = {}
        self.first = first

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The captured tensors, in order; a snapshot."""
        return tuple(self._numbers)

    def number_of(self, tensor: Tensor) -> int:
        """The index of the argument that stands for `tensor`, which is captured if it was not yet."""
        return self._numbers.setdefault(tensor, self.first + len(self._numbers))


class Body(Graph):
    """The graph of a function. Mutable until it is complete; then it does not change any more.

    Effects in it happen in the order of the program, as in a traced function.

    Args:
      name: the function's name in the library.
      outer: the graph around it, or None for a function that reads nothing but its arguments.
      functions: the library; that of `outer` by default.
      captures: what it shares with the other bodies of the operation that calls it.

    Attributes:
      name: the function's name in the library.
      outer: the graph around it.
      arguments: the tensors of its arguments by index.
      results: the tensors that it returns.
      effects: what it does to its arguments and to the outside, known once it is complete.
      state_name: what comes before the names under which its operations keep state; the same for its extensions.
    """

    def __init__(
        self,
        name: str,
        *,
        outer: Graph | None = None,
        functions: FunctionLibrary | None = None,
        captures: Captures | None = None,
    ) -> None:
        super().__init__(
            seed=None if outer is None else outer.seed,
            extend=True,
            effect_order=EffectOrder(),
            functions=outer.functions if functions is None and outer is not None else functions,
        )
        self.name = name
        self.state_name = f".{name}" if name.startswith("_") else name  # no operation's name begins so
        self.outer = outer
        self.captures = captures or Captures(0)
        self.arguments: dict[int, Tensor] = {}
        self.results: tuple[Tensor, ...] = ()
        self.effects = Effects()
        self._copied: dict[Tensor, Tensor] = {}
        self._shapes: dict[tuple[Shape, ...], list[Shape]] = {}

    @property
    def root(self) -> Graph:
        """The graph around all others."""
        return self if self.outer is None else self.outer.root

    @contextmanager
    def as_default(self) -> Iterator[Body]:
        """Let user functions called inside build here, with the devices and gradient rules asked for around."""
        outer = current_scope()
        with enter(Scope(graph=self, devices=outer.devices, gradient_override=outer.gradient_override)):
            yield self

    def add_argument(self, index: int, spec: TensorSpec, *, like: Tensor | None = None, name: str = "") -> Tensor:
        """Add the argument of an index.

        Args:
          index: its index.
          spec: its dtype and static shape.
          like: the tensor that will be passed for it: what it is a handle of is noted.
          name: the name of the `_Arg` operation.
        """
        attrs: dict[str, AttrValue] = {"T": spec.dtype, "index": index, "shape": spec.shape}
        attrs |= {} if like is None else handle_attrs([like])
        source = user_line() if like is None else like.op.source
        argument = self.create_op("_Arg", (), attrs, name=name or f"argument_{index}/", source=source)
        self.arguments[index] = argument.outputs[0]
        return argument.outputs[0]

    def result_shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The static shapes of the results for arguments of static shapes.

        Where an operation refuses these shapes, what is known for any arguments holds: the function may never be called
        with them.
        """
        declared = [self.arguments[index].shape for index in range(len(self.arguments))]
        key = tuple(shapes)
        if key not in self._shapes:
            same = all(mine == given for mine, given in zip(declared, shapes, strict=True))
            self._shapes[key] = [result.shape for result in self.results] if same else self._inferred(shapes)
        return self._shapes[key]

    def _inferred(self, shapes: Sequence[Shape]) -> list[Shape]:
        try:
            _, tensors = self.copy("", self.results, shapes=shapes)
        except HeadraceError:
            return [result.shape for result in self.results]
        return [tensors[result].shape for result in self.results]

    def copy(
        self, name: str, results: Sequence[Tensor], *, shapes: Sequence[Shape] | None = None, prefix: str = ""
    ) -> tuple[Body, dict[Tensor, Tensor]]:
        """A function of the same arguments that computes `results` and has the same effects, open to be added to.

        Args:
          name: its name.
          results: tensors of this function.
          shapes: the static shapes of its arguments, those of this one by default.
          prefix: what comes before the names of its operations.
        Returns:
          The new function, which has these results, and for each tensor of this function what stands for it there.
        """
        body = self.successor(name)
        tensors: dict[Tensor, Tensor] = {}
        for index, argument in sorted(self.arguments.items()):
            attrs = argument.op.attrs if shapes is None else {**argument.op.attrs, "shape": shapes[index]}
            made = body.create_op("_Arg", (), attrs, name=f"{argument.op.name}/", source=argument.op.source)
            tensors[argument] = body.arguments[index] = made.outputs[0]
        body.include(self, results, tensors, prefix=prefix)
        body.results = tuple(tensors[result] for result in results)
        return body, tensors

    def successor(self, name: str, functions: FunctionLibrary | None = None) -> Body:
        """An empty function that is to do what this one does, in another form: it keeps state under the same names."""
        body = Body(name, functions=self.functions if functions is None else functions)
        body.effect_order = None  # the edges are there already
        body.gradient_rules = self.gradient_rules
        body.state_name = self.state_name
        return body

    def include(
        self,
        other: Body,
        results: Sequence[Tensor],
        tensors: dict[Tensor, Tensor],
        *,
        prefix: str = "",
        after: Sequence[Operation] = (),
        may_not_run: bool = False,
    ) -> None:
        """Copy what computes some results of another function, and its effects.

        Args:
          other: the other function.
          results: tensors of it.
          tensors: what stands here for its arguments; what stands for its other tensors is added.
          prefix: what comes before the names of its operations.
          after: what its stateful operations wait for.
          may_not_run: shapes that do not fit each other are an error only in a call.
        """
        effects = [op for op in other.operations if op.has_effect]
        operations, replaced = needed_operations(results, effects, tensors)
        copies: dict[Operation, Operation] = {}
        for op in operations:
            copies[op] = self.create_op(
                op.type,
                [tensors[standing_for(tensor, replaced)] for tensor in op.inputs],
                op.attrs,
                name=f"{prefix}{op.name}/",
                control_inputs=[
                    *(copies[replaced.get(item, item)] for item in op.control_inputs),
                    *(after if op.is_stateful else ()),
                ],
                device=op.device,
                colocation=op.colocation,
                source=op.source,
                op_def=op.op_def,
                like=op,
                may_not_run=may_not_run,
            )
            tensors.update(zip(op.outputs, copies[op].outputs, strict=True))
        for old, extension in replaced.items():
            tensors.update((tensor, tensors[extension.outputs[tensor.index]]) for tensor in old.outputs)

    def own(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for `tensor` here: itself, or an argument if it belongs to a graph around this one.

        Constants that no gradient flows to are copied rather than captured, so that shapes can be told from them.

        Raises:
          GraphError: the tensor belongs to a graph that is not around this one.
        """
        if tensor.op.graph is self:
            return tensor
        if self.outer is None or not self.outer.is_inside(tensor.op.graph):
            return super().own(tensor)
        if tensor.op.type == "Const" and not tensor.dtype.is_differentiable:
            return self._copy_of_constant(tensor)
        passed = self.outer.own(tensor)
        index = self.captures.number_of(passed)
        found = self.arguments.get(index)
        return self.add_argument(index, passed.spec, like=passed) if found is None else found

    def lifted(self, tensor: Tensor) -> Tensor:
        """A tensor of the outermost graph with the value of `tensor`, which is computed there too.

        Raises:
          GraphError: it depends on an argument that is no captured tensor, as a loop variable is.
        """
        if self.outer is None or tensor.op.graph is not self:
            return tensor
        captured = dict(enumerate(self.captures.tensors, self.captures.first))
        tensors = {self.arguments[index]: source for index, source in captured.items() if index in self.arguments}
        for op in needed_operations([tensor], (), tensors)[0]:
            if op.type == "_Arg":
                raise GraphError(
                    f"'{tensor.name}' differs from one call of function '{self.name}' to the next",
                    where=tensor.op.location,
                    expected="a value that is the same in every call",
                    got=f"one that depends on argument {op.attrs['index']}",
                    hint="compute it from what is around the function, or start a variable from a constant and assign",
                )
            inputs = [tensors[item] for item in op.inputs]
            copied = self.outer.create_op(op.type, inputs, op.attrs, name=op.name, source=op.source, like=op)
            tensors.update(zip(op.outputs, copied.outputs, strict=True))
        found = tensors[tensor]
        return self.outer.lifted(found) if isinstance(self.outer, Body) else found

    def is_inside(self, graph: Graph) -> bool:
        """True if `graph` is this one or one around it."""
        return graph is self or (self.outer is not None and self.outer.is_inside(graph))

    def complete(self, results: Iterable[Tensor]) -> Body:
        """Set the results, add the arguments that only other bodies of the same operation use, and refuse changes.

        Returns:
          The body itself, now in the library.
        Raises:
          GraphError: it has a placeholder, which nothing could feed.
        """
        self.results = tuple(self.own(tensor) for tensor in results)
        for tensor in self.captures.tensors:
            self.own(tensor)
        for index, tensor in enumerate(self.results):
            self.create_op(
                "_Retval",
                [tensor],
                {"T": tensor.dtype, "index": index},
                name=f"result_{index}/",
                source=tensor.op.source,
            )
        self._seal()
        self.functions.add(self)
        return self

    def close(self, arguments: dict[int, Tensor]) -> None:
        """Complete a body that has its `_Retval` operations already, as one that was read has."""
        results = {op.attrs["index"]: op.inputs[0] for op in self.operations if op.type == "_Retval"}
        self.arguments = arguments
        self.results = tuple(results[index] for index in sorted(results))
        self._seal()

    def _seal(self) -> None:
        """Take note of the effects and refuse further operations."""
        for op in self.operations:
            if op.type == "Placeholder":
                raise GraphError(
                    f"placeholder '{op.name}' was made inside a function of the graph",
                    where=op.location,
                    expected="placeholders of the graph around it",
                    got="one that no step can feed",
                    hint="make the placeholder before, and use it inside: it is captured",
                )
        self.effects = effects_of_body(self.operations)
        self.finalize()

    def _copy_of_constant(self, tensor: Tensor) -> Tensor:
        if tensor not in self._copied:
            op = tensor.op
            self._copied[tensor] = self.create_op(
                "Const", (), op.attrs, name=op.name, source=op.source, like=op
            ).outputs[0]
        return self._copied[tensor]

    def foreign_control(self, operation: Operation) -> GraphError:
        """The error of an operation of another graph that one of this one is to wait for."""
        if self.outer is None or not self.outer.is_inside(operation.graph):
            return super().foreign_control(operation)
        return outside_effect(operation, self.name)

    def _finished_error(self, place: str) -> GraphError:
        """The error of an operation on a tensor that was kept when the function had been built."""
        return GraphError(
            f"a tensor of function '{self.name}' is used outside of it",
            where=place,
            expected="tensors of the graph that is being built, or of one around it",
            got="one that exists only while the function runs, and the function is finalized",
            hint="return it from the function, whose operation then gives its value",
        )

    def __repr__(self) -> str:
        return f"<hr function '{self.name}' of {len(self.operations)} operations>"


def outside_effect(operation: Operation, function: str) -> GraphError:
    """The error of an operation that was made outside a function and asked for inside it."""
    return GraphError(
        f"'{operation.name}' is asked for inside function '{function}', but was made outside of it",
        where=operation.location,
        expected="an operation made inside the function, which then runs only when the function does",
        got="one of the graph around, which would run whether or not the function does",
        hint="create it inside the function; or, if it is to run always, put hr.control_dependencies around the call",
    )
