"""Variable: mutable state with one meaning in graphs, functions and outside of both.

made under `with graph.as_default()`            made outside any graph
────────────────────────────────────            ──────────────────────
handle op in that graph                         value at once, in the container of the process
      │                                               │
      ▼                                               ▼
value in the container of the session           every graph that uses it gets a handle op that
(or cluster task) that runs the graph:          names the process's container: all sessions and
two sessions have two values                    functions share the one value
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import FailedPreconditionError, InvalidArgumentError
from headrace.graph.apply import TensorLike, apply_op, as_array, convert_to_tensor
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.operators import Operators
from headrace.graph.scopes import (
    check_name,
    colocate_with,
    current_graph,
    has_graph,
    name_scope,
    outermost_graph,
    without_control_dependencies,
)
from headrace.runtime.resources import PROCESS_CONTAINER, VariableBuffer, process_resources, read_only
from headrace.runtime.spare_memory import SpareMemory
from headrace.session import Session
from headrace.types import Array, DType, DTypeLike, Shape, ShapeLike, TensorSpec, as_dtype, as_shape

__all__ = ["Variable", "VariableRows"]


class Variable(Operators):
    """A mutable tensor that keeps its value between steps.

    Made under a graph it is a handle in that graph, and each session has its own value, set from `initial_value` on
    first use. Made outside any graph its value lives in the process at once.

    Args:
      initial_value: a tensor, array or Python value; or a function of no arguments that returns one.
      name: its name, made unique; a name that ends in `/` is taken as absolute, without the surrounding scopes.
      dtype: the element type; by default that of the initial value.
      shape: the static shape every value must satisfy; by default that of the initial value.
      trainable: whether optimisers update it.
      beside: another variable: the new one lives where that one lives (its graph, or the process) and on its device.
    Attributes:
      spec: dtype and static shape.
      initializer: the operation that gives it its initial value, or None outside a graph.
    Raises:
      InvalidArgumentError: outside a graph the initial value is symbolic.

    Example:
      >>> import headrace as hr, numpy as np
      >>> w = hr.Variable(np.zeros(2, np.float32), name="w")
      >>> w.assign_add([1.0, 2.0])
      >>> w.numpy()
      array([1., 2.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_read", "_storage", "initializer", "name", "spec", "trainable")

    def __init__(
        self,
        initial_value: TensorLike | Callable[[], TensorLike],
        *,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        shape: ShapeLike | None = None,
        trainable: bool = True,
        beside: Variable | None = None,
    ) -> None:
        self.trainable = trainable
        self.initializer: Operation | None = None
        self._read: Tensor | None = None
        self._storage: VariableBuffer | None = None
        wanted = None if dtype is None else as_dtype(dtype)
        if beside is not None and beside._storage is None:
            with outermost_graph(), colocate_with(beside.handle):
                self._create_in_graph(initial_value, name or "Variable", wanted, shape)
        elif beside is None and has_graph() and current_graph().root.effect_order is None:
            with outermost_graph():
                self._create_in_graph(initial_value, name or "Variable", wanted, shape)
        else:
            self._create_in_process(initial_value, name or "Variable", wanted, shape)

    @classmethod
    def of_handle(cls, handle: Tensor, *, trainable: bool = True, initializer: Operation | None = None) -> Variable:
        """The variable behind a handle that is in a graph already, as graph files bring them.

        Args:
          handle: what a `VarHandleOp` gives.
          trainable: whether optimisers update it.
          initializer: the operation that gives it its initial value; without one it needs a checkpoint or an assignment
            before it is read.
        Returns:
          The variable, which is now among the graph's; the same one where the handle has one already.
        Raises:
          InvalidArgumentError: the tensor is no such handle.
        """
        if handle.op.type != "VarHandleOp":
            raise InvalidArgumentError(
                f"'{handle.name}' is not the handle of a variable",
                where=handle.op.location,
                expected="what a VarHandleOp gives",
                got=str(handle.spec),
                hint="[op.outputs[0] for op in graph.operations if op.type == 'VarHandleOp'] lists the handles",
            )
        graph = handle.graph
        known = next((variable for variable, other in graph.handles.items() if other is handle), None)
        if known is not None:
            return known
        variable = cls.__new__(cls)
        variable.trainable = trainable
        variable.initializer = initializer
        variable.name = handle.op.name
        variable.spec = TensorSpec(handle.op.attrs["dtype"], handle.op.attrs["shape"])
        variable._storage = None
        with graph.as_default(), name_scope(f"{handle.op.name}/"):
            variable._read = variable._add_read(handle)
        graph.handles[variable] = handle
        return variable

    def _create_in_graph(self, initial_value: Any, name: str, dtype: DType | None, shape: ShapeLike | None) -> None:
        graph = current_graph()
        if name.endswith("/"):
            name = graph.unique_name(name[:-1]) + "/"  # a scope of that name is entered again, a variable is not
        with without_control_dependencies(), name_scope(name) as scope:
            given = initial_value() if callable(initial_value) else initial_value
            if isinstance(given, Tensor) and isinstance(given.graph, Body):
                given = given.graph.lifted(given)  # it was computed in the function in which the variable is made
            with name_scope("initial_value"):
                value = convert_to_tensor(given, dtype)
            self.spec = TensorSpec(value.dtype, value.shape if shape is None else as_shape(shape))
            self.name = scope[:-1]
            handle = graph.create_op(
                "VarHandleOp",
                (),
                {"shared_name": self.name, "dtype": self.spec.dtype, "shape": self.spec.shape},
                name=scope,
            ).outputs[0]
            self.initializer = apply_op("AssignVariableOp", handle, value, dtype=self.spec.dtype, name="assign")
            self._read = self._add_read(handle)
        graph.handles[self] = handle

    def _create_in_process(self, initial_value: Any, name: str, dtype: DType | None, shape: ShapeLike | None) -> None:
        check_name(name)
        value = _evaluate(initial_value, dtype)
        self.spec = TensorSpec(as_dtype(value.dtype), Shape(value.shape) if shape is None else as_shape(shape))
        self._storage = process_resources().new_variable(
            PROCESS_CONTAINER, name.rstrip("/"), self.spec.dtype, self.spec.shape
        )
        self.name = self._storage.name
        self._storage.assign(value)
        order = current_graph().root.effect_order if has_graph() else None
        if order is not None:
            order.new_variables.append(self.name)
        weakref.finalize(self, process_resources().forget, PROCESS_CONTAINER, self.name)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        """The static shape."""
        return self.spec.shape

    @property
    def handle(self) -> Tensor:
        """The handle in the graph that is being built, or in the variable's own."""
        return self.handle_in(current_graph().root) if has_graph() and self._storage is not None else self._own_handle()

    def _own_handle(self) -> Tensor:
        if self._read is None:
            raise FailedPreconditionError(
                f"variable '{self.name}' has no handle here",
                expected="a graph that is being built",
                got="none, and the variable belongs to none",
                hint="use it under a graph or inside a function",
            )
        return self._read.op.inputs[0]

    def handle_in(self, graph: Graph) -> Tensor:
        """The handle in `graph`; a variable of the process gets one in every graph that asks."""
        found = graph.handles.get(self)
        if found is not None:
            return found
        if self._storage is None:
            raise InvalidArgumentError(
                f"variable '{self.name}' belongs to another graph",
                where=self._own_handle().op.location,
                expected="a variable of this graph, or of the process",
                got=f"one of {self._own_handle().graph}",
                hint="make it outside any graph to share it between graphs",
            )
        with graph.as_default(), without_control_dependencies():
            attrs = {
                "container": PROCESS_CONTAINER,
                "shared_name": self._storage.name,
                "dtype": self.spec.dtype,
                "shape": self.spec.shape,
            }
            handle = graph.create_op("VarHandleOp", (), attrs, name=self.name + "/").outputs[0]
        graph.handles[self] = handle
        return handle

    @property
    def value(self) -> Tensor:
        """A tensor of the value: made with the variable in its own graph, a new read elsewhere."""
        if self._read is not None and (not has_graph() or current_graph() is self._read.graph):
            return self._read
        return self.read()

    def read(self) -> Tensor:
        """A tensor of the value at the moment when this very operation runs."""
        return self._add_read(self.handle)

    def _add_read(self, handle: Tensor) -> Tensor:
        result: Tensor = apply_op("ReadVariableOp", handle, dtype=self.spec.dtype, name="read")
        return result

    def __headrace_tensor__(self) -> Tensor:
        return self.read()

    def assign(self, value: TensorLike) -> Operation | None:
        """Replace the value: at once outside any graph, else by the operation that is returned."""
        return self._change("AssignVariableOp", value)

    def assign_add(self, value: TensorLike) -> Operation | None:
        """Add to the value, atomically; see `assign`."""
        return self._change("AssignAddVariableOp", value)

    def assign_sub(self, value: TensorLike) -> Operation | None:
        """Subtract from the value, atomically; see `assign`."""
        return self._change("AssignSubVariableOp", value)

    def _change(self, op_type: str, value: TensorLike) -> Operation | None:
        if not has_graph() and self._storage is not None:
            with Graph().as_default() as graph:
                operation = apply_op(
                    op_type, self.handle_in(graph), convert_to_tensor(value, self.dtype), dtype=self.dtype
                )
            Session(graph).run(operation)
            return None
        operation = apply_op(op_type, self.handle, convert_to_tensor(value, self.dtype), dtype=self.dtype)
        result: Operation = operation
        return result

    def rows(self, indices: TensorLike) -> VariableRows:
        """Some rows of the variable, to read and change as if they were a variable.

        Args:
          indices: int32 or int64 `[n]`, which rows.
        """
        return VariableRows(self, convert_to_tensor(indices))

    def numpy(self, *, copy: bool = True, spare: SpareMemory | None = None) -> Array:
        """A copy of the value of a variable that lives in the process.

        Args:
          copy: False gives a read-only view instead, at no cost. It stays as it is: while it lives, the next update of
            the variable writes to fresh memory.
          spare: where updates take that memory from, now and later.
        Raises:
          FailedPreconditionError: the variable belongs to a graph, so each session has its own value.
        """
        if self._storage is None:
            raise FailedPreconditionError(
                f"variable '{self.name}' has one value per session",
                where=self._own_handle().op.location,
                expected="a variable of the process, made outside any graph",
                got="one of a graph",
                hint="session.run(variable) gives the value in that session",
            )
        value = self._storage.read(spare)
        return value.copy() if copy else read_only(value)

    def __repr__(self) -> str:
        home = "in the process" if self._storage is not None else "in a graph"
        return f"<hr.Variable '{self.name}' {self.spec} {home}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class VariableRows(Operators):
    """Rows of a variable, read and changed like a variable of their own; all others stay as they are, bit for bit.

    Args:
      variable: whose rows, `[rows, ...]`.
      indices: int32 or int64 `[n]`, which ones; where one repeats, `assign` keeps its last value.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     table = hr.Variable([[1.0], [2.0], [3.0]])
      ...     change = table.rows([0, 2]).assign_add([[10.0], [20.0]])
      >>> with hr.Session(graph) as session:
      ...     _ = session.run(change)
      ...     print(session.run(table).tolist())
      [[11.0], [2.0], [23.0]]
    """

    __slots__ = ("indices", "variable")

    def __init__(self, variable: Variable, indices: Tensor) -> None:
        self.variable = variable
        self.indices = indices

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.variable.dtype

    @property
    def shape(self) -> Shape:
        """The static shape, `[n, ...]`."""
        whole, picked = self.variable.shape.dims, self.indices.shape.dims
        return Shape() if whole is None or picked is None else Shape((*picked, *whole[1:]))

    def read(self) -> Tensor:
        """A tensor of the rows at the moment when this very operation runs."""
        rows: Tensor = apply_op("ResourceGather", self.variable.handle, self.indices, dtype=self.dtype, name="read")
        return rows

    def __headrace_tensor__(self) -> Tensor:
        return self.read()

    def assign(self, value: TensorLike) -> Operation:
        """Replace the rows."""
        return self._change("ResourceScatterUpdate", value)

    def assign_add(self, value: TensorLike) -> Operation:
        """Add to the rows."""
        return self._change("ResourceScatterAdd", value)

    def assign_sub(self, value: TensorLike) -> Operation:
        """Subtract from the rows."""
        return self._change("ResourceScatterSub", value)

    def _change(self, op_type: str, value: TensorLike) -> Operation:
        updates = convert_to_tensor(value, self.dtype)
        operation: Operation = apply_op(op_type, self.variable.handle, self.indices, updates, dtype=self.dtype)
        return operation

    def __repr__(self) -> str:
        return f"<hr.VariableRows of '{self.variable.name}'>"


def _evaluate(initial_value: Any, dtype: DType | None) -> Array:
    """The value of an initial value that no graph holds: a function is run in a graph of its own."""
    if not callable(initial_value):
        if isinstance(initial_value, Tensor):
            raise InvalidArgumentError(
                "a variable outside any graph cannot start from a symbolic tensor",
                where=initial_value.op.location,
                expected="an array, a Python value, or a function that returns a tensor",
                got=repr(initial_value),
                hint="hr.Variable(lambda: hr.random.normal([2, 3]))",
            )
        value = as_array(initial_value, None if isinstance(initial_value, np.ndarray) else dtype)
        return value if dtype is None else value.astype(dtype.array_type)
    with Graph().as_default() as graph:
        tensor = convert_to_tensor(initial_value(), dtype)
    result: Array = Session(graph).run(tensor)
    return result
