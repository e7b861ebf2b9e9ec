"""The backend of devices that bring only a driver: memory, moves, and a way to issue kernels.

Operations with a kernel registered for the device type run there, on buffers of the device; all others run on the host.
A value is moved when it is needed on the other side, once, and stays on both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.graph.device_name import parse_device
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.interfaces import INTERFACE_VERSION, DeviceDriver, Functions, OpContext, OpHook, Resources
from headrace.kernels.context import context_of, group_inputs
from headrace.kernels.registry import Kernel, find_kernel
from headrace.plan.failure import explained
from headrace.plan.late_shapes import checked_late, shows_late
from headrace.plan.program import is_handle

__all__ = ["DriverBackend"]


class DriverBackend:
    """Compiles segments for devices of one type that are reached by their drivers (see `interfaces.Backend`).

    Args:
      drivers: one for each device, all of one type.
    Raises:
      InvalidArgumentError: the names are not those of devices of one type.
    """

    interface_version = INTERFACE_VERSION

    def __init__(self, drivers: Sequence[DeviceDriver]) -> None:
        self._drivers = {parse_device(driver.name).short: driver for driver in drivers}
        types = {parse_device(name).type for name in self._drivers}
        if len(types) != 1 or None in types:
            raise InvalidArgumentError(
                "the drivers of one backend are for devices of one type",
                expected='names such as "TRACE:0", "TRACE:1"',
                got=", ".join(driver.name for driver in drivers) or "none",
                hint="register devices of another type by another call",
            )
        self._type = str(types.pop())
        self.name = self._type.lower()

    def devices(self) -> Sequence[str]:
        """The devices that have a driver."""
        return list(self._drivers)

    def compile(self, segment: Graph, resources: Resources, functions: Functions) -> _DriverPlan:
        """Choose for each operation a kernel and the side on which it runs."""
        placed = next((parse_device(op.device).short for op in segment.operations if op.device), "")
        driver = self._drivers.get(placed) or next(iter(self._drivers.values()))
        return _DriverPlan(segment, driver, self._type, resources, functions)


@dataclass(frozen=True, slots=True)
class _Line:
    """One operation with its kernel.

    Attributes:
      op: the operation.
      kernel: the kernel.
      context: what the kernel sees of the operation.
      on_host: calls the kernel on host arrays, or None where it runs on the device.
    """

    op: Operation
    kernel: Kernel
    context: OpContext
    on_host: Callable[..., Any] | None


class _DriverPlan:
    """A compiled segment (see `interfaces.Compiled`)."""

    def __init__(
        self, segment: Graph, driver: DeviceDriver, device_type: str, resources: Resources, functions: Functions
    ) -> None:
        self._driver = driver
        self._arguments: dict[int, Tensor] = {}
        self._results: dict[int, Tensor] = {}
        self._constants: dict[Tensor, Any] = {}
        self._lines: list[_Line] = []
        for op in segment.operations:
            if op.type == "_Arg":
                self._arguments[op.attrs["index"]] = op.outputs[0]
            elif op.type == "_Retval":
                self._results[op.attrs["index"]] = op.inputs[0]
            elif op.type == "Const":
                self._constants[op.outputs[0]] = op.attrs["value"]
            elif op.type != "NoOp":
                self._lines.append(_line(op, device_type, context_of(op, resources, functions)))

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations it runs, in order."""
        return tuple(line.op for line in self._lines)

    @property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of the function that computes it."""
        return tuple(getattr(line.kernel.function, "__qualname__", str(line.kernel.function)) for line in self._lines)

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run the segment once."""
        return self.run_with_hook(arguments, lambda index: None)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run the segment once, calling `hook(i)` before operation i."""
        values = _Values(self._driver, self._constants)
        for index, argument in enumerate(arguments):
            values.on_host[self._arguments[index]] = argument
        for index, line in enumerate(self._lines):
            hook(index)
            try:
                _run(line, values, self._driver)
            except Exception as error:
                failure = explained(error, line.op)
                raise failure from failure.__cause__
        return [_owned(values.host(self._results[index]), self._results[index]) for index in range(len(self._results))]


class _Values:
    """The values of one run, on the host, on the device or on both. Mutable."""

    def __init__(self, driver: DeviceDriver, constants: dict[Tensor, Any]) -> None:
        self.on_host: dict[Tensor, Any] = dict(constants)
        self.on_device: dict[Tensor, Any] = {}
        self._driver = driver

    def host(self, tensor: Tensor) -> Any:
        """The value as a host array."""
        if tensor not in self.on_host:
            array = np.empty(tensor.shape.as_tuple(), tensor.dtype.array_type)
            self._driver.move(self.on_device[tensor], array)
            self.on_host[tensor] = array
        return self.on_host[tensor]

    def device(self, tensor: Tensor) -> Any:
        """The value as a buffer of the device."""
        if tensor not in self.on_device:
            array = np.ascontiguousarray(self.on_host[tensor]).reshape(np.shape(self.on_host[tensor]))
            buffer = self._driver.allocate(array.shape, tensor.dtype)
            self._driver.move(array, buffer)
            self.on_device[tensor] = buffer
        return self.on_device[tensor]


def _owned(value: Any, tensor: Tensor) -> Any:
    """A result that shares memory with nothing; handles are the objects themselves."""
    return value if is_handle(tensor.dtype) else np.array(value)


def _line(op: Operation, device_type: str, context: OpContext) -> _Line:
    """The kernel for the device where there is one and every output has room there; else that for the host."""
    try:
        kernel = find_kernel(op.type, op.attrs, device_type)
        fits = all(output.shape.is_fully_defined and output.dtype.numpy is not None for output in op.outputs)
        if kernel.device == device_type and fits:
            return _Line(op, kernel, context, None)
        kernel = find_kernel(op.type, op.attrs)
    except HeadraceError as error:
        error.at(op.location)
        raise
    function = kernel.function if kernel.direct else functools.partial(kernel.function, context)
    return _Line(op, kernel, context, checked_late(op, function) if shows_late(op) else function)


def _run(line: _Line, values: _Values, driver: DeviceDriver) -> None:
    if line.on_host is None:
        buffers = [driver.allocate(output.shape.as_tuple(), output.dtype) for output in line.op.outputs]
        driver.issue(line.kernel.function, line.context, [values.device(tensor) for tensor in line.op.inputs], buffers)
        values.on_device.update(zip(line.op.outputs, buffers, strict=True))
        return
    inputs = group_inputs(line.op, [values.host(tensor) for tensor in line.op.inputs])
    with np.errstate(all="ignore"):
        result = line.on_host(*inputs)
    single = len(line.op.outputs) == 1 and not line.op.op_def.outputs[0].is_list
    outputs = [result] if single else list(result or ())
    values.on_host.update(zip(line.op.outputs, outputs, strict=True))
