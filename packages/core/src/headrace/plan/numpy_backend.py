"""The `numpy` backend: a segment becomes straight-line Python over NumPy kernels and planned buffers.

It is always there and is the reference for every other backend. The generated function has one line per operation, so
the line number in a traceback says which operation failed, at no cost to steps that succeed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.interfaces import INTERFACE_VERSION, Functions, OpHook, Resources
from headrace.passes.cost import tensor_bytes
from headrace.passes.soon import soon
from headrace.plan.alignment import aligned_array
from headrace.plan.failure import exhausted, explained
from headrace.plan.needs import PlannedMemory, Work, memory_of, work_of
from headrace.plan.program import Line, Program, is_handle
from headrace.plan.step_source import FIRST_LINE, step_source
from headrace.types import Shape

__all__ = ["NumpyBackend", "NumpyPlan", "checked_kernel"]

_plan_numbers = itertools.count()


class NumpyBackend:
    """Compiles segments to NumPy calls (see `interfaces.Backend`)."""

    name = "numpy"
    interface_version = INTERFACE_VERSION

    def devices(self) -> Sequence[str]:
        """The one device of this backend."""
        return ["CPU:0"]

    def compile(self, segment: Graph, resources: Resources, functions: Functions) -> NumpyPlan:
        """Compile a bounded graph."""
        program = Program.of(soon(segment), resources, functions)
        return _NestedPlan(program) if program.is_nested else NumpyPlan(program)


class NumpyPlan:
    """A compiled segment: straight-line code and a pool of arenas. May be called by several threads at once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._operations = tuple(line.op for line in program.lines)
        self._filename = f"<headrace plan {next(_plan_numbers)}>"
        self._arenas: list[tuple[Any, ...]] = []
        self._function = self._first_run
        self._instrumented: Callable[..., Any] | None = None

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations it runs, in order."""
        return self._operations

    @functools.cached_property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of the function that computes it."""
        return tuple(_function_name(line.kernel.function) for line in self._program.lines)

    @property
    def arena_bytes(self) -> int:
        """Bytes of one arena; each step that runs at the same time has its own."""
        return self._program.allocation.size

    @functools.cached_property
    def memory(self) -> PlannedMemory:
        """What one step needs."""
        return memory_of(self._program)

    @functools.cached_property
    def work(self) -> Sequence[Work]:
        """What it runs, line by line."""
        return tuple(
            work_of([line.op], _function_name(line.kernel.function), "numpy", _reason(line), _moved(line))
            for line in self._program.lines
        )

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run the segment once."""
        return self._run(self._function, arguments)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook) -> Sequence[Any]:
        """Run the segment once, calling `hook(i)` before operation i."""
        if self._instrumented is None:
            self._instrumented = self._bound(self._code(instrumented=True), _kernel_of)
        return self._run(self._instrumented, arguments, hook)

    def _run(self, function: Callable[..., Sequence[Any]], *arguments: Any) -> Sequence[Any]:
        """Run a step function in an arena that no other step uses meanwhile."""
        try:
            buffers = self._arenas.pop()
        except IndexError:
            buffers = self._new_arena()
        try:
            with np.errstate(all="ignore"):
                return function(buffers, *arguments)
        except Exception as error:
            failure = self._explained(error)
            raise failure from failure.__cause__
        finally:
            self._arenas.append(buffers)

    def _first_run(self, buffers: tuple[Any, ...], arguments: Sequence[Any]) -> Sequence[Any]:
        """Check what each kernel gives: a faulty one would spoil values of other operations, without an error."""
        code = self._code(instrumented=False)
        results: Sequence[Any] = self._bound(code, checked_kernel)(buffers, arguments)
        self._function = self._bound(code, _kernel_of)
        return results

    def _new_arena(self) -> tuple[Any, ...]:
        """Fresh memory and the views into it, one per planned value."""
        allocation = self._program.allocation
        try:
            memory = aligned_array((allocation.size,), np.uint8)
        except MemoryError as error:
            raise exhausted("the values of one step", error) from error
        views = []
        for number, offset in allocation.offsets.items():
            spec = self._program.tensors[number].spec
            shape = spec.shape.as_tuple()
            views.append(np.ndarray(shape, spec.dtype.array_type, memory.data, offset))
        return tuple(views)

    def _code(self, *, instrumented: bool) -> CodeType:
        return compile(step_source(self._program, instrumented=instrumented), self._filename, "exec")

    def _bound(self, code: CodeType, kernel_of: Callable[[Line], Callable[..., Any]]) -> Callable[..., Any]:
        """The step function, with the kernels and constants that its code names."""
        namespace: dict[str, Any] = {"copy": _owned_copy, "array": np.asarray}
        namespace.update({f"c{number}": value for number, value in self._program.constants.items()})
        namespace.update({f"f{index}": kernel_of(line) for index, line in enumerate(self._program.lines)})
        exec(code, namespace)  # the source is made of numbers only, never of names or data from outside
        function: Callable[..., Any] = namespace["step"]
        return function

    def _explained(self, error: Exception) -> Exception:
        """Add to an error which operation it came from, and take from it the values of the step."""
        line = _failing_line(error.__traceback__, self._filename)
        _forget_values(error.__traceback__, self._filename)
        index = line - FIRST_LINE
        if not 0 <= index < len(self._program.lines):
            return error
        return explained(error, self._program.lines[index].op)


class _NestedPlan(NumpyPlan):
    """The plan of a function's body: it runs inside a step, which has silenced NumPy's warnings already.

    To silence them again would cost 0.7 us in each iteration of a loop, for its condition and for its body.
    """

    def _run(self, function: Callable[..., Sequence[Any]], *arguments: Any) -> Sequence[Any]:
        try:
            buffers = self._arenas.pop()
        except IndexError:
            buffers = self._new_arena()
        try:
            return function(buffers, *arguments)
        except Exception as error:
            failure = self._explained(error)
            raise failure from failure.__cause__
        finally:
            self._arenas.append(buffers)


def _function_name(function: Callable[..., Any]) -> str:
    module = "numpy" if isinstance(function, np.ufunc) else getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def _reason(line: Line) -> str:
    """Which of the registered kernels it is."""
    dtypes = ", ".join(f"{name} in {'/'.join(map(str, allowed))}" for name, allowed in line.kernel.dtypes.items())
    return f"the kernel for {dtypes}" if dtypes else "the kernel for every dtype"


def _moved(line: Line) -> int:
    """Bytes that it reads and writes; a view moves nothing."""
    tensors = () if line.kernel.aliases else (*line.op.inputs, *line.op.outputs)
    return sum(tensor_bytes(tensor) for tensor in tensors if not is_handle(tensor.dtype))


def _kernel_of(line: Line) -> Callable[..., Any]:
    return line.function


def checked_kernel(line: Line) -> Callable[..., Any]:
    """The kernel of a line, followed by a check of its outputs."""
    count = len(line.op.op_def.inputs)

    def call(*arguments: Any, **out: Any) -> Any:
        result = line.function(*arguments, **out)
        buffers = [*arguments[count:], *out.values()]
        _check_outputs(
            line, arguments[:count], buffers[0] if buffers and type(buffers[0]) is tuple else buffers, result
        )
        return result

    return call


def _check_outputs(line: Line, inputs: Sequence[Any], out: Sequence[Any], result: Any) -> None:
    op = line.op
    single = len(op.outputs) == 1 and not op.op_def.outputs[0].is_list
    values = [result] if single else list(result or ())
    if len(values) != len(op.outputs):
        raise _faulty(op, "number of outputs", str(len(op.outputs)), str(len(values)))
    for tensor, value in zip(op.outputs, values, strict=True):
        if tensor.dtype.kind in ("resource", "variant"):
            continue
        if getattr(value, "dtype", None) != tensor.dtype.array_type:
            got = f"{type(value).__name__} {getattr(value, 'dtype', '')}".rstrip()
            raise _faulty(op, "dtype", str(tensor.spec), got)
        if not tensor.shape.is_compatible_with(Shape(value.shape)):
            raise _faulty(op, "shape", str(tensor.spec), str(list(value.shape)))
        if any(np.may_share_memory(value, buffer) for buffer in out):
            continue
        for position, given in enumerate(inputs):
            arrays = given if isinstance(given, list) else [given]
            if position not in line.kernel.aliases and any(_shares_memory(value, array) for array in arrays):
                raise _faulty(op, "memory", "memory of its own", f"memory of input {position}")


def _shares_memory(value: Any, array: Any) -> bool:
    return isinstance(array, np.ndarray) and value.size > 0 and np.may_share_memory(value, array)


def _faulty(op: Operation, what: str, expected: str, got: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the kernel of {op.type} gave an output with the wrong {what}",
        where=op.location,
        expected=expected,
        got=got,
        hint=f"hr.register_kernel('{op.type}', aliases=[...]) names the inputs whose memory an output may share"
        if what == "memory"
        else "compare the kernel with the shape function, and with what set_shape said",
    )


def _owned_copy(value: Any) -> Any:
    """A result whose memory is not its own is copied, so that the caller may do with it what he likes."""
    return np.array(value)


def _forget_values(traceback: TracebackType | None, filename: str) -> None:
    """Let go of the values of a step that failed: whoever keeps the error must not keep its memory and its locks."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next


def _failing_line(traceback: TracebackType | None, filename: str) -> int:
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
