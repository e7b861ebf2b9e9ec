"""Operation and Tensor: the vertices and the edges of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from headrace.errors import InvalidArgumentError
from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.op_def import OpDef
from headrace.graph.operators import Operators
from headrace.graph.source import SourceLine
from headrace.types import DType, Shape, TensorSpec

if TYPE_CHECKING:
    from headrace.graph.functions import Body
    from headrace.graph.graph import Graph

__all__ = ["Effects", "Operation", "Tensor", "bodies_of", "origin"]


@dataclass(frozen=True, slots=True)
class Effects:
    """What running a function does besides giving its results.

    Attributes:
      reads: the indices of the arguments whose resource it reads only.
      writes: the indices of the arguments whose resource it may change.
      stateful: running it twice is not the same as running it once.
      has_effect: it changes something outside, so it runs whether or not its results are read.
      blocks: it may wait for another operation or step.
    """

    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    stateful: bool = False
    has_effect: bool = False
    blocks: bool = False


class Operation:
    """A vertex of a graph: a type, attributes and inputs under a unique name.

    Immutable once created, except for `device`, which a placer fills in on its own copy of the graph. Made by
    `Graph.create_op` only.

    Attributes:
      graph: the graph that owns it.
      index: its position in the order of creation.
      name: its unique name, scopes separated by `/`.
      op_def: the signature of its type.
      type: the name of its type, e.g. `MatMul`.
      attrs: the values of all its attributes.
      inputs: the tensors it reads, flat.
      control_inputs: operations that must run before it.
      outputs: the tensors it gives.
      device: the requested device, possibly partial, or an empty string.
      colocation: names of operations whose device it must share.
      source: the user's line that created it.
    """

    __slots__ = (
        "attrs", "colocation", "control_inputs", "device", "graph", "index", "inputs", "name", "op_def", "outputs",
        "source", "type",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        index: int,
        name: str,
        op_def: OpDef,
        attrs: Mapping[str, AttrValue],
        inputs: tuple[Tensor, ...],
        control_inputs: tuple[Operation, ...],
        device: str,
        colocation: tuple[str, ...],
        source: SourceLine,
    ) -> None:
        self.graph = graph
        self.index = index
        self.name = name
        self.op_def = op_def
        self.type = op_def.name
        self.attrs = attrs
        self.inputs = inputs
        self.control_inputs = control_inputs
        self.device = device
        self.colocation = colocation
        self.source = source
        self.outputs: tuple[Tensor, ...] = ()

    def attr(self, name: str) -> AttrValue:
        """The value of an attribute.

        Raises:
          InvalidArgumentError: the type has no such attribute.
        """
        try:
            return self.attrs[name]
        except KeyError:
            raise InvalidArgumentError(
                f"{self.type} '{self.name}' has no attr '{name}'",
                where=self.location,
                expected="one of: " + ", ".join(sorted(self.attrs)),
                got=name,
                hint="operation.attrs holds all of them with their values",
            ) from None

    @property
    def bodies(self) -> tuple[Body, ...]:
        """The bodies of the functions that it calls: the branches of an `If`, condition and body of a `While`."""
        return bodies_of(self.op_def, self.attrs, self.graph.functions)

    @property
    def is_stateful(self) -> bool:
        """True if running it twice is not the same as running it once; what calls functions is as they are."""
        bodies = self.bodies
        return any(body.effects.stateful for body in bodies) if bodies else self.op_def.stateful

    @property
    def has_effect(self) -> bool:
        """True if running it changes something outside, so that it runs whether or not its outputs are read."""
        return self.op_def.has_effect or any(body.effects.has_effect for body in self.bodies)

    @property
    def blocks(self) -> bool:
        """True if running it may wait for another operation or step."""
        return self.op_def.blocks or any(body.effects.blocks for body in self.bodies)

    @property
    def location(self) -> str:
        """Where it was created and where it runs, for the `where` field of errors."""
        device = f"; device '{self.device}'" if self.device else ""
        return f"{self.type} '{self.name}' created at {self.source}{device}"

    def __repr__(self) -> str:
        return f"<hr.Operation '{self.name}' {self.type}>"


class Tensor(Operators):
    """An edge of a graph: one output of an operation, with its dtype and static shape. It holds no value.

    Attributes:
      op: the operation that gives it.
      index: which of the operation's outputs it is.
      dtype: the element type.
      shape: the static shape, parts of which may be unknown.
    """

    __slots__ = ("dtype", "index", "op", "shape")

    def __init__(self, op: Operation, index: int, spec: TensorSpec | Tensor) -> None:
        self.op = op
        self.index = index
        self.dtype: DType = spec.dtype
        self.shape: Shape = spec.shape

    @property
    def name(self) -> str:
        """Its name, `operation:index`."""
        return f"{self.op.name}:{self.index}"

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.op.graph

    @property
    def spec(self) -> TensorSpec:
        """Its dtype and static shape as one value."""
        return TensorSpec(self.dtype, self.shape)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is not known."""
        return self.shape.rank

    def set_shape(self, shape: Shape) -> None:
        """Add what the caller knows about the static shape; raises ShapeError if it contradicts what is known."""
        self.shape = self.shape.merge(shape)

    def __repr__(self) -> str:
        device = f" on {self.op.device}" if self.op.device else ""
        return f"<hr.Tensor '{self.name}' {self.dtype}{self.shape}{device}; session.run(...) gives its value>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __bool__(self) -> NoReturn:
        raise self._no_value(
            "is used as a Python truth value",
            "hr.where and hr.cond choose in the graph, hr.logical_and joins conditions; session.run gives the value",
        )

    def __float__(self) -> NoReturn:
        raise self._no_value("is used as a Python number", "session.run(tensor) gives the value")

    def __int__(self) -> NoReturn:
        raise self._no_value("is used as a Python number", "session.run(tensor) gives the value")

    def __index__(self) -> NoReturn:
        raise self._no_value("is used as a Python integer", "session.run(tensor) gives the value")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise self._no_value(
            "is used as a NumPy array", "session.run(tensor) gives the value, hr.* functions compute with it"
        )

    def __len__(self) -> int:
        size = self.shape[0] if self.shape.rank else None
        if size is None:
            raise self._no_value("has no static length", "hr.shape(x)[0] gives it in the graph")
        return size

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def _no_value(self, what: str, hint: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"tensor '{self.name}' {what}",
            where=self.op.location,
            expected="a concrete value",
            got=f"a symbolic tensor {self.spec}",
            hint=hint,
        )


def bodies_of(op_def: OpDef, attrs: Mapping[str, AttrValue], functions: FunctionLibrary) -> tuple[Body, ...]:
    """The bodies of the functions that an operation of these attributes calls, in the order of the attributes."""
    if not op_def.function_attrs:
        return ()
    bodies: list[Body] = []
    for name in op_def.function_attrs:
        value = attrs.get(name, ())
        bodies += [
            functions[item.name if isinstance(item, FunctionName) else item]
            for item in (value if isinstance(value, (list, tuple)) else (value,))
        ]
    return tuple(bodies)


_PASSES_ON = frozenset({"Identity", "Switch", "Enter"})


def origin(tensor: Tensor) -> Operation:
    """The operation that makes the value of `tensor`: what only passes it on, as `Identity` does, is passed over."""
    source = tensor.op
    while source.type in _PASSES_ON:
        source = source.inputs[0].op
    return source
