"""Graph: the owner of operations, and `create_op`, the only place where one comes to be.

It is long because all that changes a graph takes its lock and keeps its tables in step.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import GraphError, HeadraceError, NotFoundError, known_names
from headrace.graph.attr import AttrValue
from headrace.graph.device_name import canonical_device
from headrace.graph.effect_order import EffectOrder
from headrace.graph.frames import check_back_edge
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.inference import attrs_and_specs, sees_the_same
from headrace.graph.op_def import OpDef, lookup_op_def
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, check_name, current_scope, enter, requested_device
from headrace.graph.source import SourceLine, user_line
from headrace.types import TensorSpec

if TYPE_CHECKING:
    from headrace.variable import Variable

__all__ = ["Graph", "take_back"]

_rule_numbers = itertools.count()

GROWTH_LIMIT = 16
"""How often one line may extend a graph between steps before it is taken for a loop that grows the graph."""


class Graph:
    """A dataflow graph: operations and the tensors between them. Mutable, append-only and thread-safe.

    Args:
      seed: the graph-level seed of random operations, or None for a fresh one per run.
      extend: permit one line of the program to add operations again and again between steps; by default that is an
        error, since a graph that grows in a training loop gets slower with every step.
      effect_order: keeps effects in the order of the program, as in the graph of a traced function; by default only
        data and control edges order them.
      functions: the library of the functions that its operations call; a new one by default.

    Attributes:
      handles: the variables that are used in the graph, each with its handle there.
      gradient_rules: the rules without a registered name under which operations of the graph were created.
      functions: the functions that its operations call, by name.
      extensions: for operations that stand for others too, the operation that does more (see `graph.extensions`).
      raised: the extensions that stand for what branches and loops of primitives give: every step takes these.
      python_functions: the Python functions that its operations call, by token; the graph keeps them alive.
      versions: producer and lowest consumer version of the graph file it was imported from.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     y = hr.constant(2.0) * 3.0
      >>> with hr.Session(graph) as session:
      ...     print(session.run(y))
      6.0
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        extend: bool = False,
        effect_order: EffectOrder | None = None,
        functions: FunctionLibrary | None = None,
    ) -> None:
        self.seed = seed
        self.extend = extend
        self.effect_order = effect_order
        self.handles: dict[Variable, Tensor] = {}
        self.gradient_rules: dict[str, Any] = {}
        self.functions = FunctionLibrary() if functions is None else functions
        self.extensions: dict[Operation, Operation] = {}
        self.raised: set[Operation] = set()
        self.python_functions: dict[str, Any] = {}
        self.versions: tuple[int, int] = (0, 0)
        self._operations: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._name_counts: dict[str, int] = {}
        self._lock = threading.RLock()
        self._finalized = False
        self._epoch = 0
        self._extended_by: dict[SourceLine, tuple[int, int]] = {}
        self._outermost = Scope(graph=self)

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations in the order of creation; a snapshot."""
        with self._lock:
            return tuple(self._operations)

    @property
    def root(self) -> Graph:
        """The graph around all others: this one, unless it is the body of a function that is being built."""
        return self

    def is_inside(self, graph: Graph) -> bool:
        """True if `graph` is this one or, for the body of a function, one around it."""
        return graph is self

    def own(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for `tensor` in this graph.

        Raises:
          GraphError: it belongs to another graph.
        """
        if tensor.op.graph is not self:
            raise _foreign(tensor.op)
        return tensor

    @property
    def variables(self) -> list[Variable]:
        """The variables that are used in the graph, in the order in which they came to it; a snapshot.

        For the body of a function these are those of the graph around it.
        """
        return list(self.root.handles)

    @property
    def version(self) -> int:
        """A number that grows with each operation added."""
        return len(self._operations)

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Let user functions called inside build in this graph, on the device that was asked for outside any graph."""
        outer = current_scope()
        kept = outer if outer.graph is None else Scope()
        with enter(Scope(graph=self, devices=kept.devices, gradient_override=kept.gradient_override)):
            yield self

    def finalize(self) -> None:
        """Refuse further operations from now on."""
        self._finalized = True

    def note_plan(self) -> None:
        """Record that a session took a plan of the graph; lines that keep extending it afterwards are found by this."""
        self._epoch += 1

    def operation(self, name: str) -> Operation:
        """The operation of a name; raises NotFoundError if there is none.

        One inside a function of the graph is named by both, `function/operation`.
        """
        found = self._by_name.get(name)
        function, _, inner = str(name).partition("/")
        if found is None and inner and function in self.functions:
            return self.functions[function].operation(inner)
        if found is None:
            raise NotFoundError(
                f"the graph has no operation '{name}'",
                expected=known_names(name, self._by_name),
                got=name,
                hint="[op.name for op in graph.operations] lists the names",
            )
        return found

    def tensor(self, name: str) -> Tensor:
        """The tensor of a name `operation:index`; `operation` alone means output 0.

        Raises:
          NotFoundError: there is no such operation or output.
        """
        op_name, _, index_text = str(name).partition(":")
        operation = self.operation(op_name)
        index = int(index_text) if index_text.isdecimal() else 0 if not index_text else -1
        if not 0 <= index < len(operation.outputs):
            raise NotFoundError(
                f"operation '{op_name}' has no output '{index_text}'",
                where=operation.location,
                expected=f"an index below {len(operation.outputs)}",
                got=name,
                hint=f"'{op_name}:0' is its first output"
                if operation.outputs
                else f"run it by its name alone: '{op_name}'",
            )
        return operation.outputs[index]

    def unique_name(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, ... if it is taken; the result is reserved."""
        with self._lock:
            count = self._name_counts.get(name, 0)
            self._name_counts[name] = count + 1
            if count == 0:
                return name
            while f"{name}_{count}" in self._name_counts:
                count += 1
            self._name_counts[name] = count + 1
            return self.unique_name(f"{name}_{count}")

    def create_op(
        self,
        type_name: str,
        inputs: Sequence[Tensor] = (),
        attrs: Mapping[str, AttrValue] | None = None,
        *,
        name: str | None = None,
        control_inputs: Sequence[Operation] = (),
        device: str | None = None,
        colocation: Sequence[str] = (),
        source: SourceLine | None = None,
        op_def: OpDef | None = None,
        like: Operation | None = None,
        extends: Operation | None = None,
        may_not_run: bool = False,
    ) -> Operation:
        """Add one operation: every user function, import and pass goes through here and through its checks.

        Args:
          type_name: the operation's type.
          inputs: its inputs, flat, in the order of the signature.
          attrs: its attributes; those with a default may be left out.
          name: its name within the current scope, or None to derive one from the type. A name that ends in `/` is
            taken as absolute, without the scope.
          control_inputs: operations to run before it, beside those of the scope.
          device: the requested device, or None for the scope's.
          colocation: names of operations whose device it must share, beside those of the scope.
          source: the user's line, or None to find it on the call stack.
          op_def: the signature to use where the type is not registered (an unknown operation of an imported graph).
          like: the operation of which this is a copy, with its type, signature and source; checks that have passed
            for it, on equal inputs, are not repeated.
          extends: the operation that the new one does more than, and stands for in every step that needs both: it
            waits for the same, and its effects are no new ones.
          may_not_run: it is a copy in a branch or loop, to which a step may not come: where the shape function refuses
            the shapes of that step, nothing is known of the outputs, and running it fails.
        Returns:
          The new operation.
        Raises:
          UnknownOpError: the type is not registered.
          AttrError: an attribute is missing, unknown or of the wrong kind.
          DTypeError: the inputs do not fit the signature.
          GraphError: an input belongs to another graph, or the graph is finalized.
          ShapeError: the shape function refuses the inputs.
        """
        scope = current_scope()
        if scope.graph is not self:
            scope = self._outermost
            if like is not None and name and self._takes_as_it_is(like, attrs, inputs, control_inputs, device):
                with self._lock:
                    return self._add(
                        self._full_name("", name), like.op_def, like.attrs, inputs, control_inputs, like.device,
                        colocation, like.source, like.outputs,
                    )  # fmt: skip
        definition = op_def or lookup_op_def(type_name)
        line = source or user_line()
        requested = type_name.lstrip("_") if name is None else name
        if like is None:  # the name of a copy was looked at before
            check_name(requested)
        if type_name in scope.gradient_override:
            attrs = {**(attrs or {}), "_gradient_op_type": self._name_of_rule(type_name, scope)}

        def place() -> str:
            return f"{type_name} '{requested.rstrip('/')}' created at {line}"

        order = (self.effect_order or scope.effect_order) if extends is None else None
        awaited = (*scope.control_inputs, *control_inputs) if extends is None else extends.control_inputs
        values: Mapping[str, AttrValue]
        specs: Sequence[TensorSpec | Tensor]
        try:
            inputs = self._owned(inputs, control_inputs)
            if order is not None:
                awaited = (*awaited, *order.before(definition, attrs or {}, inputs, self.functions))
            asked = canonical_device(device) if device else ""
            if like is not None and like.attrs is attrs and sees_the_same(like, inputs):
                values, specs = like.attrs, like.outputs
            else:
                values, specs = attrs_and_specs(
                    definition, requested, attrs or {}, inputs, self.functions, may_not_run=may_not_run
                )
        except HeadraceError as error:
            error.at(place())
            raise
        except Exception as error:
            error.add_note(f"in the shape function of {place()}")
            raise
        with self._lock:
            self._check_growth(line, place)
            operation = self._add(
                self._full_name(scope.prefix, requested), definition, values, inputs, awaited, asked,
                (*scope.colocation, *colocation), line, specs,
            )  # fmt: skip
            if device is None and scope.devices:
                operation.device = requested_device(operation, scope.devices)
        if order is not None:
            order.record(operation)
        if extends is not None:
            self.extensions[extends] = operation
        return operation

    def _takes_as_it_is(
        self,
        op: Operation,
        attrs: Mapping[str, AttrValue] | None,
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        device: str | None,
    ) -> bool:
        """True if all that was found out about an operation holds for its copy in this graph, outside of any scope."""
        grows = self.extend and not self._finalized and self.effect_order is None
        if not grows or attrs is not op.attrs or device != op.device:
            return False
        for item in inputs:
            if type(item) is not Tensor or item.op.graph is not self:
                return False
        for operation in control_inputs:
            if operation.graph is not self:
                return False
        return sees_the_same(op, inputs)

    def _add(
        self,
        name: str,
        op_def: OpDef,
        attrs: Mapping[str, AttrValue],
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        device: str,
        colocation: Sequence[str],
        source: SourceLine,
        specs: Sequence[TensorSpec | Tensor],
    ) -> Operation:
        """Make an operation of what has been checked; the caller holds the lock."""
        operation = Operation(
            graph=self,
            index=len(self._operations),
            name=name,
            op_def=op_def,
            attrs=attrs,
            inputs=tuple(inputs),
            control_inputs=tuple(dict.fromkeys(control_inputs)) if control_inputs else (),
            device=device,
            colocation=tuple(colocation),
            source=source,
        )
        operation.outputs = tuple([Tensor(operation, index, spec) for index, spec in enumerate(specs)])
        self._operations.append(operation)
        self._by_name[operation.name] = operation
        return operation

    def close_loop(self, merge: Operation, back: Tensor) -> None:
        """Give the head of a loop its back edge: the value that it takes from the second iteration on.

        This is the one place where an operation changes after it was made, and where an edge leads backward.

        Args:
          merge: a `Merge` that reads what an `Enter` brings in.
          back: the output of a `NextIteration`.
        Raises:
          GraphError: one of them is something else, or the loop is closed already.
          DTypeError: the dtypes differ.
          ShapeError: the static shape of the loop variable promises more than `back` keeps.

        Example:
          >>> import headrace as hr
          >>> with hr.Graph().as_default() as graph:
          ...     enter = hr.apply_op("Enter", hr.constant(0), frame_name="loop")
          ...     i, _ = hr.apply_op("Merge", [enter])
          ...     more = hr.apply_op("LoopCond", i < 3)
          ...     done, body = hr.apply_op("Switch", i, more)
          ...     graph.close_loop(i.op, hr.apply_op("NextIteration", body + 1))
          ...     result = hr.apply_op("Exit", done)
          >>> print(hr.Session(graph).run(result))
          3
        """
        with self._lock:
            check_back_edge(self, merge, back)
            merge.inputs = (*merge.inputs, back)
            merge.attrs = {**merge.attrs, "N": len(merge.inputs)}

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what is added inside if it ends with an error; other threads wait meanwhile."""
        with self._lock:
            length, handles, versions = len(self._operations), dict(self.handles), self.versions
            restore_functions = self.functions.mark()
            try:
                yield
            except BaseException:
                for operation in self._operations[length:]:
                    del self._by_name[operation.name]
                del self._operations[length:]
                self.handles, self.versions = handles, versions
                restore_functions()
                raise

    def _name_of_rule(self, op_type: str, scope: Scope) -> str:
        """The name of the gradient rule in force for a type; one that has none gets a name that ends with the graph."""
        rule = scope.gradient_override[op_type]
        if isinstance(rule, str):
            return rule
        with self._lock:
            for name, known in self.gradient_rules.items():
                if known is rule:
                    return name
            name = f"{op_type}Override{next(_rule_numbers)}"  # no import brings an operation of another one's rule
            self.gradient_rules[name] = rule
            return name

    def _full_name(self, prefix: str, name: str) -> str:
        absolute = name[:-1] if name.endswith("/") else ""
        if absolute and absolute not in self._by_name:
            self._name_counts.setdefault(absolute, 1)
            return absolute
        if absolute:
            return self.unique_name(absolute)
        return self.unique_name(prefix + name)

    def _owned(self, inputs: Sequence[Tensor], control_inputs: Sequence[Operation]) -> tuple[Tensor, ...]:
        """The inputs as tensors of this graph."""
        for item in inputs:
            if not isinstance(item, Tensor):
                raise GraphError(
                    "an input is not a tensor",
                    expected="hr.Tensor",
                    got=repr(item),
                    hint="convert the value first with hr.convert_to_tensor",
                )
        for operation in control_inputs:
            if operation.graph is not self:
                raise self.foreign_control(operation)
        return tuple([item if item.op.graph is self else self.own(item) for item in inputs])

    def foreign_control(self, operation: Operation) -> GraphError:
        """The error of an operation of another graph that an operation of this one is to wait for."""
        return _foreign(operation)

    def _finished_error(self, place: str) -> GraphError:
        """The error of an operation that comes after the last one, and was asked for at `place`."""
        return GraphError(
            "the graph is finalized",
            where=place,
            expected="a graph that may still grow",
            got="a new operation after graph.finalize()",
            hint="create every operation before graph.finalize()",
        )

    def _check_growth(self, line: SourceLine, place: Callable[[], str]) -> None:
        if self._finalized:
            raise self._finished_error(place())
        if self._epoch == 0 or self.extend:
            return
        last_epoch, times = self._extended_by.get(line, (0, 0))
        if last_epoch == self._epoch:
            return
        if times >= GROWTH_LIMIT:
            raise GraphError(
                "the graph grows while it is being run: this line adds operations again and again between steps",
                where=place(),
                expected="operations created once, before the loop",
                got=f"{times + 1} additions from one line, {len(self._operations)} operations so far",
                hint="create the operation before the loop and run it inside; hr.Graph(extend=True) permits growth",
            )
        self._extended_by[line] = (self._epoch, times + 1)

    def __repr__(self) -> str:
        return f"<hr.Graph of {len(self._operations)} operations>"


def take_back(graph: Graph, operations: Collection[Operation]) -> None:
    """Remove operations that no other one needs: a pass does so with a graph that nobody else has seen yet."""
    with graph._lock:
        for operation in operations:
            del graph._by_name[operation.name]
        dropped = frozenset(operations)
        graph._operations = [operation for operation in graph._operations if operation not in dropped]
        for index, operation in enumerate(graph._operations):
            operation.index = index


def _foreign(operation: Operation) -> GraphError:
    return GraphError(
        f"'{operation.name}' belongs to another graph",
        expected="inputs and control inputs of the graph in which an operation is created",
        got=operation.location,
        hint="build both in one graph, or feed the value through a placeholder",
    )
