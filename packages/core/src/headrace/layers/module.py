"""Module: a plain Python object with parameters, found by walking its attributes and named by the way to them.

model                     Sequential          named_parameters()
└── layers                list
    ├── [0]               Dense
    │   ├── kernel        hr.Variable         layers/0/kernel
    │   └── bias          hr.Variable         layers/0/bias
    └── [1]               Dense ...           layers/1/kernel ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import headrace as hr
from headrace.errors import ShapeError
from headrace.layers.initializers import Initializer, lookup

__all__ = ["Module", "required_size"]

_running: ContextVar[bool] = ContextVar("headrace_module_running", default=False)
"""Whether a module is being called: the outermost one names all that are below it."""


class Module:
    """Base class of layers and models. Mutable: its parameters are made at the first call.

    A subclass has `build`, which makes the parameters once the shape of the input is known, and `call`. Submodules and
    variables are found in its attributes, and in lists, tuples and dictionaries there; attributes that start with `_`
    are not looked at.

    Args:
      name: the first part of the names of its variables; by default there is none.

    Example:
      >>> import headrace as hr
      >>> class Scale(hr.layers.Module):
      ...     def build(self, shape):
      ...         self.add_parameter("factor", [shape[-1]], "ones")
      ...     def call(self, x, *, training=False):
      ...         return x * self.factor
      >>> model = hr.layers.Sequential([Scale()], name="model")
      >>> with hr.Graph().as_default():
      ...     y = model(hr.placeholder(hr.float32, [None, 3]))
      >>> print(y.spec, {path: variable.name for path, variable in model.named_parameters().items()})
      float32[?, 3] {'layers/0/factor': 'model/layers/0/factor'}
    """

    trainable = True
    """False where `freeze` was called: parameters keep their value, and BatchNorm its statistics."""

    _name: str | None = None
    _path = ""
    _is_built = False

    def __init__(self, *, name: str | None = None) -> None:
        self._name = name

    def build(self, shape: hr.Shape) -> None:
        """Make the parameters; called once, before the first `call`.

        Args:
          shape: static shape of the first argument.
        """

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Add the operations of one application.

        Args:
          x: the input.
          training: whether this is for training, where some layers behave differently.
        """
        raise NotImplementedError(f"{type(self).__name__} has no call: def call(self, x, *, training=False)")

    def __call__(self, x: Any, *args: Any, training: bool = False, **kwargs: Any) -> Any:
        """Apply the module to a tensor; the first time its parameters are made.

        Args:
          x: the input, of at least partly known static shape.
          *args: further arguments of `call`.
          training: handed on to `call`.
          **kwargs: further arguments of `call`.
        """
        outermost = not _running.get()
        if outermost:
            self._name_all(self._name or "")
        token = _running.set(True)
        try:
            value = hr.convert_to_tensor(x)
            self._input_dtype = value.dtype
            with hr.name_scope(_scope_name(self)):
                if not self._is_built:
                    self.build(value.shape)
                    self._is_built = True
                return self.call(value, *args, training=training, **kwargs)
        finally:
            _running.reset(token)

    def add_parameter(
        self,
        name: str,
        shape: Sequence[int | None] | hr.Shape,
        initializer: str | Initializer = "glorot_uniform",
        *,
        dtype: Any = None,
        trainable: bool = True,
    ) -> hr.Variable:
        """Make a parameter and keep it in the attribute of that name.

        Args:
          name: the attribute.
          shape: its sizes, all known.
          initializer: see `hr.layers.initializers`.
          dtype: by default that of the input if it is floating, else float32.
          trainable: False for state that optimisers leave alone, such as running statistics.
        Raises:
          ShapeError: a size is not known.
          NotFoundError: there is no initializer of that name.
        """
        wanted = hr.Shape(shape)
        if not wanted.is_fully_defined:
            raise ShapeError(
                f"parameter '{name}' of {type(self).__name__} needs to know the shape of the input",
                expected="known sizes of the axes it depends on",
                got=f"a parameter of shape {wanted}",
                hint="give the placeholder those sizes, e.g. hr.placeholder(hr.float32, [None, 784])",
            )
        given = vars(self).get("_input_dtype", hr.float32)
        element = hr.as_dtype(dtype or (given if given.is_floating else hr.float32))
        initialize, sizes = lookup(initializer), wanted.as_tuple()
        path = f"{self._path}/{name}" if self._path else name
        variable = hr.Variable(
            lambda: initialize(sizes, element), name=f"{path}/", trainable=trainable and self.trainable
        )
        setattr(self, name, variable)
        if trainable and not self.trainable:
            self._frozen = [*vars(self).get("_frozen", []), variable]
        return variable

    def named_parameters(self, *, trainable: bool | None = None) -> dict[str, hr.Variable]:
        """The variables of this module and those below it, by the way to them.

        Args:
          trainable: only those that are trainable (True) or not (False).
        Returns:
          Path -> Variable in the order of the attributes; a variable that is shared has its first path.
        """
        found: dict[hr.Variable, str] = {}
        for path, item in _walk(self):
            if isinstance(item, hr.Variable) and (trainable is None or item.trainable == trainable):
                found.setdefault(item, path)
        return {path: variable for variable, path in found.items()}

    def parameters(self, *, trainable: bool | None = None) -> list[hr.Variable]:
        """The variables of `named_parameters` without their paths."""
        return list(self.named_parameters(trainable=trainable).values())

    def modules(self) -> dict[str, Module]:
        """This module (path "") and those below it, by the way to them."""
        found: dict[Module, str] = {self: ""}
        for path, item in _walk(self):
            if isinstance(item, Module):
                found.setdefault(item, path)
        return {path: module for module, path in found.items()}

    def freeze(self) -> None:
        """Let optimisers that are asked from now on leave all parameters alone."""
        for module in self.modules().values():
            module.trainable = False
            own = [item for _, item in _own(module) if isinstance(item, hr.Variable) and item.trainable]
            module._frozen = [*vars(module).get("_frozen", []), *own]
            for variable in own:
                variable.trainable = False

    def unfreeze(self) -> None:
        """Undo `freeze`."""
        for module in self.modules().values():
            module.trainable = True
            for variable in vars(module).pop("_frozen", []):
                variable.trainable = True

    def _name_all(self, prefix: str) -> None:
        for path, module in self.modules().items():
            module._path = "/".join(part for part in (prefix, path) if part)

    def __repr__(self) -> str:
        return f"<hr.layers.{type(self).__name__} of {len(self.named_parameters())} parameters>"


def _scope_name(module: Module) -> str:
    """The name scope of a call: the path below the outermost module, whose own scope is its class's name."""
    return module._path.rpartition("/")[2] or type(module).__name__


def _own(module: Module) -> Iterator[tuple[str, Any]]:
    """The variables and modules in the attributes of one module, with their paths, not going into modules."""
    for name, value in vars(module).items():
        if not name.startswith("_"):
            yield from _flat(name, value)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (hr.Variable, Module)):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{path}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flat(f"{path}/{index}", item)


def _walk(module: Module, prefix: str = "", seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Every variable and module below `module`; modules that contain themselves are entered once."""
    inside = seen | {id(module)}
    for path, item in _own(module):
        yield prefix + path, item
        if isinstance(item, Module) and id(item) not in inside:
            yield from _walk(item, f"{prefix}{path}/", inside)


def required_size(module: Module, shape: hr.Shape, axis: int) -> int:
    """Return the size of one axis of an input, which a layer must know.

    Raises:
      ShapeError: it is not known.
    """
    dims = shape.dims
    size = None if dims is None or not -len(dims) <= axis < len(dims) else dims[axis]
    if size is None:
        raise ShapeError(
            f"{type(module).__name__} needs to know the size of axis {axis} of its input",
            expected=f"a known size of axis {axis}",
            got=f"static shape {shape}",
            hint="give the placeholder that size, e.g. hr.placeholder(hr.float32, [None, 784])",
        )
    return int(size)
