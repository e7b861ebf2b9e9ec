"""The `numpy` backend: a segment becomes straight-line Python over NumPy kernels and planned buffers.

It is always there and is the reference for every other backend. The generated function has one line per operation, so
the line number in a traceback says which operation failed, at no cost to steps that succeed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from headrace.errors import FeedError, HeadraceError, InvalidArgumentError, ResourceExhaustedError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.interfaces import INTERFACE_VERSION, OpHook, Resources
from headrace.kernels.context import context_of, group_inputs
from headrace.kernels.registry import Kernel, find_kernel
from headrace.plan.memory import ALIGNMENT, Allocation, Step, last_uses, plan_memory
from headrace.types import Shape

__all__ = ["NumpyBackend", "NumpyPlan"]

_plan_numbers = itertools.count()


class NumpyBackend:
    """Compiles segments to NumPy calls (see `interfaces.Backend`)."""

    name = "numpy"
    interface_version = INTERFACE_VERSION

    def devices(self) -> Sequence[str]:
        """The one device of this backend."""
        return ["CPU:0"]

    def compile(self, segment: Graph, resources: Resources) -> NumpyPlan:
        """Compile a bounded graph."""
        return NumpyPlan(_Program.of(segment, resources))


@dataclass(frozen=True, slots=True)
class _Line:
    """One operation of a program.

    Attributes:
      op: the operation.
      function: the bound kernel.
      kernel: its registration.
      inputs: value numbers, flat.
      outputs: value numbers.
    """

    op: Operation
    function: Callable[..., Any]
    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Program:
    """A segment with its kernels chosen and its memory planned.

    Attributes:
      arguments: value numbers of the arguments, in order.
      results: value numbers of the results, in order.
      constants: values known when the plan is made.
      lines: the operations to run.
      tensors: the tensor of each value number.
      allocation: where the planned values live.
      last: see `memory.last_uses`.
      shared: result positions that must be copied, because their memory is not theirs alone.
    """

    arguments: tuple[int, ...]
    results: tuple[int, ...]
    constants: dict[int, Any]
    lines: tuple[_Line, ...]
    tensors: tuple[Tensor, ...]
    allocation: Allocation
    last: dict[int, int]
    shared: frozenset[int]

    @classmethod
    def of(cls, segment: Graph, resources: Resources) -> _Program:
        numbers: dict[Tensor, int] = {}
        constants: dict[int, Any] = {}
        arguments: dict[int, int] = {}
        results: dict[int, int] = {}
        lines: list[_Line] = []
        for op in segment.operations:
            for output in op.outputs:
                numbers[output] = len(numbers)
            if op.type == "_Arg":
                arguments[op.attrs["index"]] = numbers[op.outputs[0]]
            elif op.type == "_Retval":
                _check_has_value(op.inputs[0])
                results[op.attrs["index"]] = numbers[op.inputs[0]]
            elif op.type == "Const":
                constants[numbers[op.outputs[0]]] = op.attrs["value"]
            elif op.type != "NoOp":
                _add_line(op, resources, numbers, constants, lines)
        ordered = tuple(results[index] for index in range(len(results)))
        tensors = tuple(numbers)
        steps = [_memory_step(line, tensors, frozenset(ordered)) for line in lines]
        last, roots = last_uses(steps, ordered)
        return cls(
            arguments=tuple(arguments[index] for index in range(len(arguments))),
            results=ordered,
            constants=constants,
            lines=tuple(lines),
            tensors=tensors,
            allocation=plan_memory(steps, ordered),
            last=last,
            shared=_shared_results(ordered, roots, lines),
        )


def _check_has_value(tensor: Tensor) -> None:
    if tensor.dtype.kind in ("resource", "variant"):
        raise FeedError(
            f"'{tensor.name}' cannot be fetched",
            where=tensor.op.location,
            expected="a tensor of numbers or strings",
            got=str(tensor.spec),
            hint="fetch what is read from the handle",
        )


def _add_line(
    op: Operation, resources: Resources, numbers: dict[Tensor, int], constants: dict[int, Any], lines: list[_Line]
) -> None:
    inputs = tuple(numbers[tensor] for tensor in op.inputs)
    try:
        kernel = find_kernel(op.type, op.attrs)
        function = kernel.function if kernel.direct else functools.partial(kernel.function, context_of(op, resources))
        if kernel.binds_once and all(number in constants for number in inputs):
            constants[numbers[op.outputs[0]]] = function(*group_inputs(op, [constants[number] for number in inputs]))
            return
    except HeadraceError as error:
        error.at(op.location)
        raise
    lines.append(_Line(op, function, kernel, inputs, tuple(numbers[tensor] for tensor in op.outputs)))


def _memory_step(line: _Line, tensors: Sequence[Tensor], results: frozenset[int]) -> Step:
    """Outputs whose size is known go to the arena if the kernel can write there.

    Results never do: the caller owns them.
    """
    outputs = [tensors[number] for number in line.outputs]
    sizes = [output.shape.num_elements for output in outputs]
    planned = line.kernel.takes_out and not any(
        number in results or size is None or not output.dtype.size
        for number, size, output in zip(line.outputs, sizes, outputs, strict=True)
    )
    same = [
        position
        for position, number in enumerate(line.inputs)
        if line.kernel.in_place and planned and tensors[number].spec == outputs[0].spec
    ]
    return Step(
        inputs=line.inputs,
        outputs=line.outputs,
        sizes=tuple(
            (size or 0) * output.dtype.size if planned else None for size, output in zip(sizes, outputs, strict=True)
        ),
        aliases=_flat_aliases(line),
        in_place=tuple(same),
    )


def _flat_aliases(line: _Line) -> tuple[int, ...]:
    """Flat positions of the inputs that outputs may be views of; with list inputs, all of them to be safe."""
    if not line.kernel.aliases or len(line.op.op_def.inputs) == len(line.inputs):
        return line.kernel.aliases
    return tuple(range(len(line.inputs)))


def _shared_results(results: Sequence[int], roots: dict[int, frozenset[int]], lines: Sequence[_Line]) -> frozenset[int]:
    """Positions of results that are arguments, constants, views, or returned twice."""
    made = {number for line in lines for number in line.outputs}
    seen: set[int] = set()
    shared: set[int] = set()
    for position, number in enumerate(results):
        if number not in made or roots[number] != {number} or number in seen:
            shared.add(position)
        seen.add(number)
    return frozenset(shared)


class NumpyPlan:
    """A compiled segment: straight-line code and a pool of arenas. May be called by several threads at once."""

    def __init__(self, program: _Program) -> None:
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

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run the segment once."""
        try:
            buffers = self._arenas.pop()
        except IndexError:
            buffers = self._new_arena()
        try:
            with np.errstate(all="ignore"):
                return self._function(buffers, arguments)
        except Exception as error:
            raise self._explained(error) from error.__cause__
        finally:
            self._arenas.append(buffers)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook) -> Sequence[Any]:
        """Run the segment once, calling `hook(i)` before operation i."""
        if self._instrumented is None:
            self._instrumented = self._bound(self._code(instrumented=True), _kernel_of)
        try:
            buffers = self._arenas.pop()
        except IndexError:
            buffers = self._new_arena()
        try:
            with np.errstate(all="ignore"):
                return self._instrumented(buffers, arguments, hook)  # type: ignore[no-any-return]
        except Exception as error:
            raise self._explained(error) from error.__cause__
        finally:
            self._arenas.append(buffers)

    def _first_run(self, buffers: tuple[Any, ...], arguments: Sequence[Any]) -> Sequence[Any]:
        """Check what each kernel gives: a faulty one would spoil values of other operations, without an error."""
        code = self._code(instrumented=False)
        results: Sequence[Any] = self._bound(code, _checked)(buffers, arguments)
        self._function = self._bound(code, _kernel_of)
        return results

    def _new_arena(self) -> tuple[Any, ...]:
        """Fresh memory and the views into it, one per planned value."""
        allocation = self._program.allocation
        try:
            memory = np.empty(allocation.size + ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise _exhausted("the values of one step", error) from error
        start = -memory.ctypes.data % ALIGNMENT
        views = []
        for number, offset in allocation.offsets.items():
            spec = self._program.tensors[number].spec
            shape = spec.shape.as_tuple()
            views.append(np.ndarray(shape, spec.dtype.array_type, memory.data, start + offset))
        return tuple(views)

    def _code(self, *, instrumented: bool) -> CodeType:
        return compile(_source(self._program, instrumented=instrumented), self._filename, "exec")

    def _bound(self, code: CodeType, kernel_of: Callable[[_Line], Callable[..., Any]]) -> Callable[..., Any]:
        """The step function, with the kernels and constants that its code names."""
        namespace: dict[str, Any] = {"copy": _owned_copy, "array": np.asarray}
        namespace.update({f"c{number}": value for number, value in self._program.constants.items()})
        namespace.update({f"f{index}": kernel_of(line) for index, line in enumerate(self._program.lines)})
        exec(code, namespace)  # the source is made of numbers only, never of names or data from outside
        function: Callable[..., Any] = namespace["step"]
        return function

    def _explained(self, error: Exception) -> Exception:
        """Add to an error which operation it came from."""
        line = _failing_line(error.__traceback__, self._filename)
        index = line - _FIRST_LINE
        if not 0 <= index < len(self._program.lines):
            return error
        op = self._program.lines[index].op
        if isinstance(error, MemoryError) and not isinstance(error, HeadraceError):
            exhausted = _exhausted(op.location, error)
            exhausted.__cause__ = error
            return exhausted
        if isinstance(error, HeadraceError):
            return error.at(op.location)
        error.add_note(f"while computing {op.location}")
        return error


def _exhausted(where: str, error: MemoryError) -> ResourceExhaustedError:
    return ResourceExhaustedError(
        "there is not enough memory",
        where=where,
        expected="shapes that fit into memory",
        got=str(error),
        hint="use smaller batches or shapes",
    )


def _function_name(function: Callable[..., Any]) -> str:
    module = "numpy" if isinstance(function, np.ufunc) else getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__name__', type(function).__name__)}"


def _kernel_of(line: _Line) -> Callable[..., Any]:
    return line.function


def _checked(line: _Line) -> Callable[..., Any]:
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


def _check_outputs(line: _Line, inputs: Sequence[Any], out: Sequence[Any], result: Any) -> None:
    op = line.op
    single = len(op.outputs) == 1 and not op.op_def.outputs[0].is_list
    values = [result] if single else list(result or ())
    if len(values) != len(op.outputs):
        raise _faulty(op, "number of outputs", str(len(op.outputs)), str(len(values)))
    for tensor, value in zip(op.outputs, values, strict=True):
        if tensor.dtype.kind in ("resource", "variant"):
            continue
        if getattr(value, "dtype", None) != tensor.dtype.array_type:
            raise _faulty(op, "dtype", str(tensor.spec), f"{type(value).__name__} {getattr(value, 'dtype', '')}")
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


_FIRST_LINE = 4
"""The line of the generated function on which the first operation stands."""


def _failing_line(traceback: TracebackType | None, filename: str) -> int:
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _source(program: _Program, *, instrumented: bool) -> str:
    """The source of the step function: `v` values, `b` buffers, `c` constants, `f` kernels, one line per operation."""
    buffers = {number: f"b{position}" for position, number in enumerate(program.allocation.offsets)}
    text = [
        f"def step(buffers, arguments{', hook' if instrumented else ''}):",
        f"    {_unpack(list(buffers.values()), 'buffers')}",
        f"    {_unpack([f'v{number}' for number in program.arguments], 'arguments')}",
    ]
    dying = _dying(program, buffers)
    for index, line in enumerate(program.lines):
        call = f"f{index}({', '.join(_arguments(line, program, buffers))})"
        outputs = [f"v{number}" for number in line.outputs]
        listed = len(line.op.op_def.outputs) == 1 and line.op.op_def.outputs[0].is_list
        target = ", ".join(outputs) + ("," if len(outputs) > 1 or listed else "")
        statement = f"{target} = {call}" if outputs else call
        dead = [f"v{number}" for number in dying.get(index, ())]
        forget = f"; {' = '.join(dead)} = None" if dead else ""
        text.append(f"    {f'hook({index}); ' if instrumented else ''}{statement}{forget}")
    results = [
        f"{'copy' if position in program.shared else 'array'}({_value(number, program)})"
        for position, number in enumerate(program.results)
    ]
    text.append(f"    return [{', '.join(results)}]")
    return "\n".join(text) + "\n"


def _unpack(names: Sequence[str], source: str) -> str:
    return f"{', '.join(names)}, = {source}" if names else "pass"


def _value(number: int, program: _Program) -> str:
    return f"c{number}" if number in program.constants else f"v{number}"


def _arguments(line: _Line, program: _Program, buffers: dict[int, str]) -> list[str]:
    grouped = group_inputs(line.op, [_value(number, program) for number in line.inputs])
    texts = [f"[{', '.join(item)}]" if isinstance(item, list) else str(item) for item in grouped]
    planned = [buffers[number] for number in line.outputs if number in buffers]
    if planned:
        out = planned[0] if len(planned) == 1 else f"({', '.join(planned)})"
        texts.append(f"out={out}" if line.kernel.direct else out)
    return texts


def _dying(program: _Program, buffers: dict[int, str]) -> dict[int, list[int]]:
    """For each line the values outside the arena that nothing after it needs.

    Forgetting them frees memory early, and lets a variable be updated in place once nobody holds the value that was
    read from it.
    """
    dying: dict[int, list[int]] = {}
    for number, index in program.last.items():
        if number not in buffers and number not in program.constants:
            dying.setdefault(index, []).append(number)
    return dying
