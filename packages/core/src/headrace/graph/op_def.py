"""OpDef: the signature of an operation type, and the registry of all of them."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Protocol

from headrace import types
from headrace.errors import AlreadyExistsError, AttrError, InvalidArgumentError, UnknownOpError, known_names
from headrace.graph.attr import AttrSpec, AttrValue, any_type
from headrace.types import Array, DType, Shape, TensorSpec, as_dtype

if TYPE_CHECKING:
    from headrace.graph.operation import Operation

if TYPE_CHECKING:
    from headrace.graph.functions import Body

__all__ = [
    "UNKNOWN_OUTPUT",
    "ArgSpec",
    "HasAttrs",
    "InferenceContext",
    "OpDef",
    "find_op_def",
    "lookup_op_def",
    "op_defs",
    "register_op",
    "unknown_op_def",
]


class HasAttrs(Protocol):
    """An operation as shape functions and kernels both see it, for what they share."""

    def attr(self, name: str) -> AttrValue:
        """The value of an attribute, defaults filled in."""


class InferenceContext(Protocol):
    """What a shape function sees of the operation that is being created."""

    @property
    def name(self) -> str:
        """The operation's name."""

    @property
    def type(self) -> str:
        """The operation's type."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """dtype and static shape of each input, flat."""

    def attr(self, name: str) -> AttrValue:
        """The value of an attribute, defaults filled in."""

    @property
    def bodies(self) -> Sequence[Body]:
        """The bodies of the functions that the attributes name."""

    def constant(self, index: int) -> Array | None:
        """The value of input `index` if it is known while the graph is built, else None."""

    def constant_shape(self, index: int) -> Shape:
        """Input `index`, a vector of sizes, read as a shape of which parts may be unknown."""

    def variable_spec(self, index: int) -> TensorSpec | None:
        """dtype and shape of the variable whose handle input `index` is, or None if that is not known here."""

    def handle_origin(self, index: int) -> Operation | None:
        """The operation that made the handle which input `index` is, or None if that is not known here."""

    def list_spec(self, index: int) -> TensorSpec | None:
        """dtype and shape of the elements of the list that input `index` is, or None if that is not known here."""


ShapeFunction = Callable[[InferenceContext], Sequence[Shape]]


_MAX_TENSORS = 1 << 20
"""The tensors that one argument may stand for: a graph file of 100 bytes may ask for 2**62."""


@dataclass(frozen=True, slots=True)
class ArgSpec:
    """One input or output of an operation type.

    Attributes:
      name: the name of the argument.
      dtype: its fixed dtype, or None.
      type_attr: the attr that gives its dtype, or None.
      number_attr: the attr that gives how many tensors of one dtype it stands for, or None for one.
      type_list_attr: the attr that lists the dtypes of the tensors it stands for, or None.
    """

    name: str
    dtype: DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None

    @property
    def is_list(self) -> bool:
        """True if the argument stands for a list of tensors."""
        return self.number_attr is not None or self.type_list_attr is not None

    def dtypes(self, attrs: Mapping[str, AttrValue]) -> tuple[DType, ...]:
        """The dtypes of the tensors that the argument stands for under the given attributes.

        Raises:
          AttrError: there would be too many of them.
        """
        if self.type_list_attr is not None:
            return tuple(attrs[self.type_list_attr])
        dtype = self.dtype if self.dtype is not None else attrs[str(self.type_attr)]
        count = 1 if self.number_attr is None else attrs[self.number_attr]
        if count > _MAX_TENSORS:
            raise AttrError(
                f"attr '{self.number_attr}' is too large",
                expected=f"at most {_MAX_TENSORS}",
                got=str(count),
                hint="use several operations, one for each part of the list",
            )
        return (dtype,) * count

    def __str__(self) -> str:
        if self.type_list_attr is not None:
            return f"{self.name}: {self.type_list_attr}"
        element = str(self.dtype) if self.dtype is not None else str(self.type_attr)
        return f"{self.name}: {element}" if self.number_attr is None else f"{self.name}: {self.number_attr} * {element}"


@dataclass(frozen=True, slots=True)
class OpDef:
    """The signature and static meaning of an operation type.

    Attributes:
      name: the type's name, TensorFlow's where the meaning is the same.
      inputs: the inputs in order.
      outputs: the outputs in order.
      attrs: the attributes by name.
      shape_function: gives the output shapes while the graph is built.
      stateful: running it twice is not the same as running it once (variables, queues, random numbers): it is never
        merged, folded or reordered.
      reads_only: it is stateful but leaves the resource it reads unchanged.
      commutative: its two inputs may be exchanged.
      blocks: running it may wait for another operation or step, so it never shares a segment with others.
      passes_dead: it runs even if an input lies on a branch that was not taken; its kernel gets `interfaces.DEAD` for
        such an input, and may give it.
      doc: what it computes.
      function_attrs: the attributes that name functions: those that the operation calls.
    """

    name: str
    inputs: tuple[ArgSpec, ...]
    outputs: tuple[ArgSpec, ...]
    attrs: Mapping[str, AttrSpec]
    shape_function: ShapeFunction
    stateful: bool = False
    reads_only: bool = False
    commutative: bool = False
    blocks: bool = False
    passes_dead: bool = False
    doc: str = ""
    function_attrs: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = tuple(name for name, spec in self.attrs.items() if spec.kind == "function")
        object.__setattr__(self, "function_attrs", named)  # asked of every operation by every pass

    @property
    def has_effect(self) -> bool:
        """True if running it changes something outside: it then runs whether or not its outputs are read."""
        if not self.stateful or self.reads_only:
            return False
        return not self.outputs or any(argument.dtype is types.resource for argument in self.inputs)

    @property
    def signature(self) -> str:
        """The signature on one line, as errors and `headrace ops` show it."""
        inputs = ", ".join(str(arg) for arg in self.inputs)
        outputs = ", ".join(str(arg) for arg in self.outputs)
        attrs = "; ".join(f"{name}: {spec}" for name, spec in self.attrs.items())
        return f"{self.name}({inputs}) -> ({outputs})" + (f" where {attrs}" if attrs else "")


_NAME = re.compile(r"[A-Za-z_]\w*(>[A-Za-z_]\w*)*", re.ASCII)
"""With TensorFlow's namespaces, `Package>Name`."""

_registry: dict[str, OpDef] = {}
_lock = threading.Lock()
_loading = threading.RLock()
_plugins_loaded = False

ENTRY_POINT_GROUP = "headrace.ops"


def register_op(
    name: str,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    attrs: Mapping[str, AttrSpec] | None = None,
    stateful: bool = False,
    reads_only: bool = False,
    commutative: bool = False,
    blocks: bool = False,
    passes_dead: bool = False,
) -> Callable[[ShapeFunction], ShapeFunction]:
    """Register an operation type; decorates its shape function, whose docstring, if any, documents the operation.

    Args:
      name: the type's name.
      inputs: for each input a dtype name (`"float32"`), the name of a type attr (`"T"`), of a list-of-types attr
        (`"Tlist"`), or `"N*T"` for N tensors of one dtype, where N is an int attr.
      outputs: the same for the outputs.
      attrs: the attributes; a type attr that is used but not listed may be any type.
      stateful: see `OpDef`.
      reads_only: see `OpDef`.
      commutative: see `OpDef`.
      blocks: see `OpDef`.
      passes_dead: see `OpDef`.
    Returns:
      The decorator; it returns the shape function unchanged.
    Raises:
      AlreadyExistsError: the name is taken.
      InvalidArgumentError: the name is none for a type, or an argument takes its dtype from an attr that is no type, or
        counts by one that is no int.

    Example:
      >>> import headrace as hr
      >>> @hr.register_op("DocTriple", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.numeric))
      ... def triple_shape(op):
      ...     '''Three times x.'''
      ...     return [op.inputs[0].shape]
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{name!r} is no name for an operation type",
            expected="letters, digits and underscores, a letter or underscore first, as in MatMul",
            got=repr(name),
            hint="graph files name types so; the text for people goes into the shape function's docstring",
        )
    specs = dict(attrs or {})
    arguments = [_parse_arg(name, key, text, specs) for key, text in (inputs or {}).items()]
    results = [_parse_arg(name, key, text, specs) for key, text in (outputs or {}).items()]

    def decorate(function: ShapeFunction) -> ShapeFunction:
        doc = inspect.getdoc(function) or f"User operation {name}."
        _add(
            OpDef(
                name=name,
                inputs=tuple(arguments),
                outputs=tuple(results),
                attrs=specs,
                shape_function=function,
                stateful=stateful,
                reads_only=reads_only,
                commutative=commutative,
                blocks=blocks,
                passes_dead=passes_dead,
                doc=doc,
            )
        )
        return function

    return decorate


def _add(op_def: OpDef) -> None:
    with _lock:
        if op_def.name in _registry:
            raise AlreadyExistsError(
                f"operation type '{op_def.name}' is registered already",
                expected="a name that no operation type has",
                got=_registry[op_def.name].signature,
                hint="choose another name; a faster kernel for it is added with hr.register_kernel",
            )
        _registry[op_def.name] = op_def


def _parse_arg(op_name: str, name: str, text: str, attrs: dict[str, AttrSpec]) -> ArgSpec:
    """Read the notation of `register_op`; a type attr that is used but not listed is added as any type."""
    number, _, element = (part.strip() for part in text.rpartition("*"))
    if not number:
        number_attr = None
    elif attrs.get(number, any_type).kind == "int":
        number_attr = number
    else:
        raise InvalidArgumentError(
            f"argument '{name}' of {op_name} counts by '{number}'",
            expected="an int attr of that name",
            got=text,
            hint=f"attrs=dict({number}=hr.attr.int())",
        )
    spec = attrs.get(element)
    if spec is not None and spec.kind == "type":
        if spec.is_list:
            return ArgSpec(name, type_list_attr=element)
        return ArgSpec(name, type_attr=element, number_attr=number_attr)
    if spec is not None:
        raise InvalidArgumentError(
            f"argument '{name}' of {op_name} takes its dtype from '{element}'",
            expected="a type attr",
            got=str(spec),
            hint=f"attrs=dict({element}=hr.attr.any_type), or another name for the type attr",
        )
    if element.islower():
        return ArgSpec(name, dtype=as_dtype(element), number_attr=number_attr)
    attrs[element] = any_type
    return ArgSpec(name, type_attr=element, number_attr=number_attr)


def find_op_def(name: str) -> OpDef | None:
    """The OpDef of a type, or None; packages that add operations are loaded before the answer is None."""
    found = _registry.get(name)
    if found is None:
        _load_plugins()
        found = _registry.get(name)
    return found


def lookup_op_def(name: str) -> OpDef:
    """The OpDef of a type.

    Raises:
      UnknownOpError: no package registered it.
    """
    found = find_op_def(name)
    if found is None:
        raise UnknownOpError(
            f"operation type '{name}' is not known",
            expected=known_names(name, _registry),
            got=name,
            hint="import the package that registers it, or register it with hr.register_op",
        )
    return found


def op_defs() -> Iterator[OpDef]:
    """Every registered OpDef, by name, plug-in packages included."""
    _load_plugins()
    for name in sorted(_registry):
        yield _registry[name]


def _load_plugins() -> None:
    """Import the modules that installed packages name in the entry-point group, once."""
    global _plugins_loaded
    with _loading:  # another thread waits; a package that asks for an operation while it is loaded does not
        if _plugins_loaded:
            return
        _plugins_loaded = True
        for entry in metadata.entry_points(group=ENTRY_POINT_GROUP):
            entry.load()


UNKNOWN_OUTPUT = TensorSpec(types.as_dtype("invalid"), Shape())
"""The spec of an output of an operation type that is not registered here."""


def unknown_op_def(type_name: str, inputs: Sequence[DType], num_outputs: int) -> OpDef:
    """A stand-in signature for a type that is not registered, so that its graph can be kept and written out again."""
    return OpDef(
        name=type_name,
        inputs=tuple(ArgSpec(f"input_{index}", dtype=dtype) for index, dtype in enumerate(inputs)),
        outputs=tuple(ArgSpec(f"output_{index}", dtype=UNKNOWN_OUTPUT.dtype) for index in range(num_outputs)),
        attrs={},
        shape_function=lambda op: [Shape()] * num_outputs,
        stateful=True,
        doc="An operation type that is not registered in this program.",
    )
