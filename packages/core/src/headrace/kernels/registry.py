"""The kernel registry: one call, one key (operation type, device, dtypes)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.errors import AlreadyExistsError, NotFoundError
from headrace.graph.op_def import find_op_def, lookup_op_def
from headrace.graph.operation import Operation
from headrace.types import DType, DTypeLike, as_dtype

__all__ = ["Kernel", "explain_kernels", "find_kernel", "kernels_of", "register_kernel", "register_ufunc"]

KernelFunction = Callable[..., Any]
Workspace = Callable[[Operation], int]
Function = TypeVar("Function", bound=KernelFunction)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One implementation of an operation type.

    Attributes:
      op_type: the type it computes.
      function: called as `function(op, *inputs)`, where `op` is an `interfaces.OpContext` and list inputs are lists;
        gives the output, or a tuple of them.
      device: the device type it runs on, or None for every device (NumPy).
      dtypes: for some type attrs the dtypes it accepts; others are unrestricted.
      takes_out: the function accepts one more positional argument, the array to write the output to (a tuple of arrays
        where the outputs are several).
      in_place: the array to write to may be one of the inputs of the same dtype and shape.
      aliases: indices of inputs that an output may share memory with.
      binds_once: the value cannot change during the life of a plan, so it is computed when the plan is compiled
        (handles).
      direct: the function is called without `op`, and with the array to write to as `out=`: a NumPy universal function.
      workspace: for an operation with known shapes the bytes that the function allocates beside its outputs while it
        runs, or None where they are few. Plans count them.
      copies: flat indices of inputs of which it allocates a copy, or as much, while it runs; unlike `workspace` it is
        counted where sizes only show in the step, too.
      packs: flat indices of inputs that it copies where they are views with gaps; where such an input may share memory
        with the output, the copy is the output.
    """

    op_type: str
    function: KernelFunction
    device: str | None = None
    dtypes: Mapping[str, tuple[DType, ...]] = field(default_factory=dict)
    takes_out: bool = False
    in_place: bool = False
    aliases: tuple[int, ...] = ()
    binds_once: bool = False
    direct: bool = False
    workspace: Workspace | None = None
    copies: tuple[int, ...] = ()
    packs: tuple[int, ...] = ()

    def accepts(self, attrs: Mapping[str, Any]) -> bool:
        """True if the type attrs are among those the kernel computes."""
        return all(attrs.get(name) in allowed for name, allowed in self.dtypes.items())


_registry: dict[str, list[Kernel]] = {}
_lock = threading.Lock()


def register_kernel(
    op_type: str,
    *,
    device: str | None = None,
    dtypes: Mapping[str, Iterable[DTypeLike]] | None = None,
    takes_out: bool = False,
    in_place: bool = False,
    aliases: Sequence[int] = (),
    binds_once: bool = False,
    workspace: Workspace | None = None,
    copies: Sequence[int] = (),
    packs: Sequence[int] = (),
) -> Callable[[Function], Function]:
    """Register the decorated function as a kernel of an operation type.

    Kernels for a device win over those for every device, and kernels that name dtypes over those that do not.

    Args:
      op_type: the operation type.
      device: a device type such as `"GPU"`, or None for every device.
      dtypes: see `Kernel`.
      takes_out: see `Kernel`.
      in_place: see `Kernel`.
      aliases: see `Kernel`; a kernel that may return its input or a view of it must say so.
      binds_once: see `Kernel`.
      workspace: see `Kernel`.
      copies: see `Kernel`.
      packs: see `Kernel`.
    Raises:
      AlreadyExistsError: a kernel of the same key is registered.
      UnknownOpError: there is no such operation type.

    Example:
      >>> import headrace as hr, numpy as np
      >>> @hr.register_op("DocHalf", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.floating))
      ... def half_shape(op):
      ...     '''x / 2.'''
      ...     return [op.inputs[0].shape]
      >>> @hr.register_kernel("DocHalf")
      ... def half(op, x):
      ...     return x / 2
    """
    lookup_op_def(op_type)

    def decorate(function: Function) -> Function:
        _add(
            Kernel(
                op_type=op_type,
                function=function,
                device=device,
                dtypes={name: tuple(as_dtype(item) for item in allowed) for name, allowed in (dtypes or {}).items()},
                takes_out=takes_out,
                in_place=in_place,
                aliases=tuple(aliases),
                binds_once=binds_once,
                workspace=workspace,
                copies=tuple(copies),
                packs=tuple(packs),
            )
        )
        return function

    return decorate


def register_ufunc(
    op_type: str, function: KernelFunction, *, dtypes: Mapping[str, Iterable[DTypeLike]] | None = None
) -> None:
    """Register a NumPy universal function whose result dtype is the operation's.

    It writes to planned buffers, in place too.
    """
    _add(
        Kernel(
            op_type=op_type,
            function=function,
            dtypes={name: tuple(as_dtype(item) for item in allowed) for name, allowed in (dtypes or {}).items()},
            takes_out=True,
            in_place=True,
            direct=True,
        )
    )


def _add(kernel: Kernel) -> None:
    with _lock:
        existing = _registry.setdefault(kernel.op_type, [])
        if any(other.device == kernel.device and other.dtypes == kernel.dtypes for other in existing):
            raise AlreadyExistsError(
                f"a kernel of {kernel.op_type} for this device and these dtypes is registered already",
                expected="one kernel for each device and each choice of dtypes",
                got=_describe(kernel),
                hint="name a device or dtypes to add a more special kernel",
            )
        existing.append(kernel)
        existing.sort(key=lambda item: (item.device is None, not item.dtypes))


def _describe(kernel: Kernel) -> str:
    dtypes = "; ".join(f"{name} in {', '.join(map(str, allowed))}" for name, allowed in kernel.dtypes.items())
    return f"{kernel.op_type} on {kernel.device or 'every device'}" + (f" for {dtypes}" if dtypes else "")


def kernels_of(op_type: str) -> Sequence[Kernel]:
    """The kernels of a type, the most special first."""
    find_op_def(op_type)  # loads the package that adds the operation
    return tuple(_registry.get(op_type, ()))


def find_kernel(op_type: str, attrs: Mapping[str, Any], device: str = "CPU") -> Kernel:
    """The kernel to run for an operation.

    Args:
      op_type: the operation type.
      attrs: the operation's attributes.
      device: the device type.
    Raises:
      NotFoundError: none fits; the text says which there are and why each does not fit.
    """
    for kernel in _registry.get(op_type, ()):
        if kernel.device in (None, device) and kernel.accepts(attrs):
            return kernel
    raise NotFoundError(
        f"{op_type} has no kernel here",
        expected=explain_kernels(op_type),
        got=f"device {device}; "
        + ", ".join(f"{key}={value}" for key, value in attrs.items() if isinstance(value, DType)),
        hint="cast the inputs, or register a kernel with hr.register_kernel",
    )


def explain_kernels(op_type: str) -> str:
    """One line that lists the kernels of a type."""
    kernels = kernels_of(op_type)
    if not kernels:
        known = (
            "is known, but has no kernel in this program" if find_op_def(op_type) else "is not known in this program"
        )
        return f"a registered kernel; operation type '{op_type}' {known}"
    return "one of: " + "; ".join(_describe(kernel) for kernel in kernels)
