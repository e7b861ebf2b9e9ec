"""The scopes that surround the creation of an operation: graph, name, device, control inputs, colocation.

They live in one context variable, so threads and tasks that build different graphs do not see each other's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.errors import GraphError, HeadraceError, NoGraphError
from headrace.graph.device_name import ANY_DEVICE, DeviceName, canonical_device, parse_device

if TYPE_CHECKING:
    from headrace.graph.effect_order import EffectOrder
    from headrace.graph.graph import Graph
    from headrace.graph.operation import Operation, Tensor

__all__ = [
    "DeviceFunction",
    "Scope",
    "check_name",
    "colocate_with",
    "control_dependencies",
    "current_graph",
    "current_scope",
    "device",
    "enter",
    "has_graph",
    "name_scope",
    "outermost_graph",
    "requested_device",
    "without_control_dependencies",
]


DeviceFunction = Callable[["Operation"], "str | None"]
"""Gets a new operation, with what inner scopes have asked for it, and gives a device name, or None to ask nothing."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that surrounds the creation of an operation.

    Attributes:
      graph: the graph that is being built, or None.
      prefix: what comes before a name: "" or a path that ends in `/`.
      devices: what is asked of the device, the outermost first: names and functions of the operation.
      control_inputs: the operations that run before each new one.
      colocation: names of operations whose device a new one must share.
      effect_order: keeps effects in the order of the program, or None where edges alone order them.
      gradient_override: the gradient rule, or its registered name, by the operation type it is to serve.
    """

    graph: Graph | None = None
    prefix: str = ""
    devices: tuple[DeviceName | DeviceFunction, ...] = ()
    control_inputs: tuple[Operation, ...] = ()
    colocation: tuple[str, ...] = ()
    effect_order: EffectOrder | None = None
    gradient_override: Mapping[str, Any] = field(default_factory=dict)


_scope: ContextVar[Scope] = ContextVar("headrace_scope", default=Scope())  # noqa: B039  # Scope is immutable

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")


def current_scope() -> Scope:
    """The scope of the calling context."""
    return _scope.get()


def has_graph() -> bool:
    """True where a user function would build graph."""
    return _scope.get().graph is not None


def current_graph() -> Graph:
    """The graph that is being built.

    Raises:
      NoGraphError: none is.
    """
    graph = _scope.get().graph
    if graph is None:
        raise NoGraphError(
            "a Headrace function was called where no graph is being built",
            expected="a call inside `with graph.as_default():` or inside a function decorated with @hr.function",
            got="a call outside of both (there is no hidden global graph, and values are not computed at once)",
            hint="graph = hr.Graph(); with graph.as_default(): ...",
        )
    return graph


@contextmanager
def enter(scope: Scope) -> Iterator[None]:
    """Make `scope` the one of the calling context."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def check_name(name: object) -> str:
    """Return `name` if an operation or scope may have it; raises GraphError otherwise."""
    if not (isinstance(name, str) and _NAME.match(name)):
        raise GraphError(
            "a name has characters that graph files cannot hold",
            expected="letters, digits, '.', '_', '-', '>' and '/', not starting with '_', '-' or '/'",
            got=repr(name),
            hint="re.sub(r'[^A-Za-z0-9._/>-]', '_', name) replaces the others",
        )
    return name


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Prefix the names of the operations created inside with `name/`, made unique.

    Args:
      name: the scope's name; a name that ends in `/` is taken as an absolute scope and re-entered.
    Yields:
      The full prefix, ending in `/`.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default(), hr.name_scope("layer"):
      ...     print(hr.constant(1.0, name="bias").name)
      layer/bias:0
    """
    graph = current_graph()
    outer = _scope.get()
    check_name(name)
    prefix = name if name.endswith("/") else graph.unique_name(outer.prefix + name) + "/"
    with enter(replace(outer, prefix=prefix)):
        yield prefix


@contextmanager
def device(device: str | DeviceFunction | None) -> Iterator[None]:
    """Ask that the operations created inside run on a device.

    Where blocks are nested, the names are merged field by field; the inner one wins where both say something.

    Args:
      device: a whole name, or a part that leaves the rest open: `"/job:ps/task:1"`, `"GPU:0"`, `"GPU:*"` (any GPU); or
        a function that gets each new operation and gives a name for what inner blocks leave open, or None; or None to
        forget the blocks around.
    Raises:
      InvalidArgumentError: the text is no device name.
      GraphError: it is neither text nor a function.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default(), hr.device("/job:ps/task:1"), hr.device("cpu:0"):
      ...     hr.constant(1.0).op.device
      '/job:ps/task:1/device:CPU:0'
    """
    outer = _scope.get()
    devices: tuple[DeviceName | DeviceFunction, ...]
    if device is None:
        devices = ()
    elif callable(device):
        devices = (*outer.devices, device)
    elif not isinstance(device, str):
        raise GraphError(
            "a device is asked for by name",
            expected='text, such as "GPU:0", a function of the operation, or None',
            got=repr(device),
            hint="leave hr.device out to have the device chosen",
        )
    else:
        name = parse_device(device)
        last = outer.devices[-1] if outer.devices else None
        devices = (*outer.devices[:-1], last.merge(name)) if isinstance(last, DeviceName) else (*outer.devices, name)
    with enter(replace(outer, devices=devices)):
        yield


def requested_device(operation: Operation, devices: tuple[DeviceName | DeviceFunction, ...]) -> str:
    """The device that the scopes around ask of a new operation, as canonical text.

    While a device function is called, `operation.device` is what inner scopes have asked for.
    """
    for item in reversed(devices):
        if isinstance(item, DeviceName):
            asked = item
        else:
            asked = _answer(item, operation)
        operation.device = str(asked.merge(parse_device(operation.device)))
    return canonical_device(operation.device)


def _answer(function: DeviceFunction, operation: Operation) -> DeviceName:
    given = function(operation)
    if given is None:
        return ANY_DEVICE
    if not isinstance(given, str):
        raise GraphError(
            "a device function gave no device name",
            where=operation.location,
            expected="text, such as '/job:ps/task:0', or None",
            got=repr(given),
            hint="return None for operations that may run anywhere",
        )
    try:
        return parse_device(given)
    except HeadraceError as error:
        error.at(operation.location)
        raise


@contextmanager
def control_dependencies(control_inputs: Iterable[Operation | Tensor]) -> Iterator[None]:
    """Let the operations created inside run only after the given ones; an empty sequence changes nothing.

    Inside the function of a loop or branch, operations without effect of the graph around it have run already.
    """
    if hasattr(control_inputs, "graph"):
        raise GraphError(
            "control dependencies are a sequence",
            expected="a list of operations or tensors",
            got=repr(control_inputs),
            hint="[operation]",
        )
    outer = _scope.get()
    graph = current_graph()
    operations = tuple(_operation(item) for item in control_inputs)
    for operation in operations:
        if not graph.is_inside(operation.graph):
            raise GraphError(
                "a control dependency lies in another graph",
                where=operation.location,
                expected="operations of the graph that is being built",
                got="one of another graph",
                hint="build both in one graph",
            )
        if operation.graph is not graph and operation.has_effect:
            raise graph.foreign_control(operation)
    operations = tuple(operation for operation in operations if operation.graph is graph)  # what is outside comes first
    with enter(replace(outer, control_inputs=outer.control_inputs + operations)):
        yield


@contextmanager
def without_control_dependencies() -> Iterator[None]:
    """Forget surrounding control dependencies and effects, for operations that must not wait (initial values)."""
    with enter(replace(_scope.get(), control_inputs=(), effect_order=None)):
        yield


@contextmanager
def colocate_with(item: Any) -> Iterator[None]:
    """Ask that the operations created inside run on the device of the given one, wherever that will be.

    It is an operation, or a tensor that one gives; or a variable, whose device is the one on which it lives.

    What `hr.device` asks for around is forgotten inside: it was not meant for what lives with something else.
    """
    outer = _scope.get()
    name = _operation(getattr(item, "handle", item)).name
    with enter(replace(outer, devices=(), colocation=(*outer.colocation, name))):
        yield


@contextmanager
def outermost_graph() -> Iterator[None]:
    """Leave the functions that are being built, for what is made once however often they run (variables)."""
    outer = _scope.get()
    root = current_graph().root
    with enter(outer if outer.graph is root else Scope(graph=root, devices=outer.devices)):
        yield


def _operation(item: Any) -> Operation:
    """The operation itself, or the one that gives the tensor."""
    operation: Operation = getattr(item, "op", item)
    if not hasattr(operation, "control_inputs"):
        raise GraphError(
            "this is neither an operation nor a tensor",
            expected="one of the graph",
            got=repr(item),
            hint="pass what a function of Headrace returned, such as hr.add(x, y) or variable.assign(x)",
        )
    return operation
