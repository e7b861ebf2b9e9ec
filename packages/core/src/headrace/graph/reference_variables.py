"""TensorFlow 1's reference variables, mapped to handles while a graph is imported.

In TensorFlow 1 a `VariableV2` gives a reference to its buffer; whoever takes it as a value reads the buffer, and
`Assign` passes the reference on. Here the variable becomes a `VarHandleOp`, an assignment the operation of that name on
handles, and every use as a value a `ReadVariableOp` that runs after the assignments the reference went through. Queues
and tables, which are references to strings there, become those of its second version, which are handles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.graph.attr import AttrValue
from headrace.graph.graph import Graph
from headrace.graph.op_def import OpDef, lookup_op_def
from headrace.graph.operation import Operation, Tensor, origin
from headrace.types import DType, resource

__all__ = [
    "Reference",
    "import_on_reference",
    "import_on_way",
    "import_variable",
    "passes_reference",
    "read_reference",
    "without_reference",
]

VARIABLE_TYPES = frozenset({"Variable", "VariableV2", "TemporaryVariable"})

_ON_HANDLES = {
    "Assign": "AssignVariableOp",
    "AssignAdd": "AssignAddVariableOp",
    "AssignSub": "AssignSubVariableOp",
    "ScatterAdd": "ResourceScatterAdd",
    "ScatterSub": "ResourceScatterSub",
    "ScatterUpdate": "ResourceScatterUpdate",
    "ScatterMul": "ResourceScatterMul",
    "ScatterDiv": "ResourceScatterDiv",
    "ScatterMin": "ResourceScatterMin",
    "ScatterMax": "ResourceScatterMax",
    "ScatterNdUpdate": "ResourceScatterNdUpdate",
    "ScatterNdAdd": "ResourceScatterNdAdd",
    "ScatterNdSub": "ResourceScatterNdSub",
    "CountUpTo": "ResourceCountUpTo",
    "IsVariableInitialized": "VarIsInitializedOp",
}
_UPDATES = {
    **dict.fromkeys(("ApplyGradientDescent", "ApplyProximalGradientDescent"), 1),
    **dict.fromkeys(("ApplyMomentum", "ApplyAdagrad", "ApplyAdagradV2", "ApplyProximalAdagrad"), 2),
    **dict.fromkeys(("SparseApplyMomentum", "SparseApplyAdagrad", "SparseApplyAdagradV2"), 2),
    **dict.fromkeys(("ApplyAdadelta", "ApplyRMSProp", "ApplyAdam", "ApplyAdaMax", "ApplyFtrl", "ApplyFtrlV2"), 3),
    **dict.fromkeys(("SparseApplyAdadelta", "SparseApplyRMSProp", "SparseApplyFtrl", "SparseApplyFtrlV2"), 3),
    **dict.fromkeys(("ApplyCenteredRMSProp", "SparseApplyCenteredRMSProp"), 4),
    "SparseApplyProximalGradientDescent": 1,
    "SparseApplyProximalAdagrad": 2,
}
"""The optimiser updates on references, which have the names of those on handles without `Resource`: how many they take.
"""
_ON_HANDLES |= {name: f"Resource{name}" for name in _UPDATES}


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference on its way through the graph.

    Attributes:
      handle: the handle of the variable.
      after: the operations that must run before the buffer is read through this reference.
    """

    handle: Tensor
    after: tuple[Operation, ...] = ()

    @property
    def dtype(self) -> DType:
        """The element type of the variable."""
        dtype: DType = origin(self.handle).attrs["dtype"]
        return dtype


_WITHOUT_REFERENCE = {
    f"Ref{name}": name for name in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "Identity", "Select")
}
_QUEUE_TYPES = ("FIFOQueue", "RandomShuffleQueue", "PriorityQueue", "PaddingFIFOQueue")
_QUEUE_STEPS = ("Enqueue", "EnqueueMany", "Dequeue", "DequeueMany", "DequeueUpTo", "Close", "Size", "IsClosed")
_TABLE_TYPES = ("HashTable", "LookupTableFind", "LookupTableImport", "LookupTableSize", "LookupTableExport")
_WITHOUT_REFERENCE |= {name: f"{name}V2" for name in (*_QUEUE_TYPES, *_TABLE_TYPES)}
_WITHOUT_REFERENCE |= {f"Queue{name}": f"Queue{name}V2" for name in _QUEUE_STEPS}


def without_reference(type_name: str) -> str:
    """The type on values or handles that stands for one that passes references on, or takes a queue or table by one."""
    return _WITHOUT_REFERENCE.get(type_name, type_name)


def passes_reference(type_name: str) -> bool:
    """True for the types that bring a reference into a branch or loop: the handle goes the same way."""
    return type_name in ("RefSwitch", "RefEnter", "RefIdentity")


def import_on_way(
    graph: Graph,
    type_name: str,
    name: str,
    reference: Reference,
    values: Sequence[Tensor],
    given: Mapping[str, AttrValue],
    control_inputs: Sequence[Operation],
    device: str,
) -> tuple[Operation, list[Reference]]:
    """Create the operation that brings a handle where a reference went, and the references that it gives."""
    operation = graph.create_op(
        without_reference(type_name),
        [reference.handle, *values],
        {**given, "T": resource},
        name=name + "/",
        control_inputs=(*reference.after, *control_inputs),
        device=device,
    )
    return operation, [Reference(output) for output in operation.outputs]


def takes_reference(type_name: str) -> bool:
    """True for the types whose first input stays a reference."""
    return type_name in _ON_HANDLES


def count_of_references(type_name: str) -> int:
    """How many of the first inputs of such a type stay references."""
    return _UPDATES.get(type_name, 1)


def definition_on_handles(type_name: str) -> OpDef:
    """The definition of the operation on handles that stands for one on references."""
    return lookup_op_def(_ON_HANDLES[type_name])


def import_variable(graph: Graph, name: str, attrs: Mapping[str, AttrValue], device: str) -> Reference:
    """Create the handle that stands for a reference variable."""
    handle_attrs = {
        "container": attrs.get("container", ""),
        "shared_name": attrs.get("shared_name") or name,
        **{key: attrs[key] for key in ("dtype", "shape") if key in attrs},
    }
    return Reference(graph.create_op("VarHandleOp", (), handle_attrs, name=name + "/", device=device).outputs[0])


def import_on_reference(
    graph: Graph,
    type_name: str,
    name: str,
    reference: Reference,
    values: Sequence[Tensor],
    given: Mapping[str, AttrValue],
    control_inputs: Sequence[Operation],
    device: str,
) -> tuple[Operation, Reference]:
    """Create the operation on handles that stands for one on a reference, and the reference that it passes on."""
    # An assignment to a handle always checks the shape, so Assign's attribute means nothing to it.
    specs = definition_on_handles(type_name).attrs
    attrs = {key: value for key, value in given.items() if key in specs and key != "validate_shape"}
    for key in {"dtype", "T"} & set(specs):
        attrs[key] = reference.dtype
    operation = graph.create_op(
        _ON_HANDLES[type_name],
        [reference.handle, *values],
        attrs,
        name=name + "/",
        control_inputs=(*reference.after, *control_inputs),
        device=device,
    )
    return operation, Reference(reference.handle, (operation,))


def read_reference(graph: Graph, name: str, reference: Reference, control_inputs: Sequence[Operation]) -> Tensor:
    """A tensor of the buffer's value, read after the assignments that the reference went through."""
    return graph.create_op(
        "ReadVariableOp",
        [reference.handle],
        {"dtype": reference.dtype},
        name=name,
        control_inputs=(*reference.after, *control_inputs),
    ).outputs[0]
