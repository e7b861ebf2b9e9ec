"""Random programs give the same bits on every way of running them as a NumPy interpreter that knows no plan.

The interpreter walks the operations in order and calls each kernel on fresh copies: no passes, no shared memory, no
views, no compiled code. Everything that a session does beyond that must not show.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.kernels.context import NO_FUNCTIONS, NO_RESOURCES, context_of, group_inputs
from headrace.kernels.registry import find_kernel
from headrace.placement.colocation import colocation_groups

PASSES = ("fold", "arithmetic", "cse")
SUBSETS = [subset for size in range(4) for subset in itertools.combinations(PASSES, size)]
DTYPES = (np.float32, np.float32, np.float32, np.int32, np.complex64, ml_dtypes.bfloat16, np.bool_)


@dataclass
class _Program:
    """A random graph, what it may be fed with, and its variables."""

    graph: hr.Graph
    rng: random.Random
    numbers: np.random.Generator
    tensors: list[hr.Tensor] = field(default_factory=list)
    effects: list[hr.Operation] = field(default_factory=list)
    initial: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, length: int) -> _Program:
        program = cls(hr.Graph(), random.Random(seed), np.random.default_rng(seed))
        with program.graph.as_default():
            for _ in range(4):
                value = program.array()
                program.tensors.append(hr.placeholder(hr.as_dtype(value.dtype), value.shape))
            variables = [program.variable() for _ in range(2)]
            for _ in range(length):
                program.grow(variables)
        return program

    def array(self, dtype: Any = None, shape: Sequence[int] | None = None) -> np.ndarray:
        """Small whole numbers, so that most results stay finite; now and then a special one."""
        if shape is None:
            shape = [self.rng.choice([0, 1, 2, 2, 3, 3]) for _ in range(self.rng.randrange(4))]
        dtype = dtype or self.rng.choice(DTYPES)
        value = self.numbers.integers(0 if dtype is np.bool_ else -3, 2 if dtype is np.bool_ else 4, shape)
        result = np.array(value).astype(dtype)
        if result.dtype.kind == "f" and result.size and self.rng.random() < 0.3:
            result.reshape(-1)[0] = self.rng.choice([np.nan, np.inf, -0.0, 1e30])
        return result

    def variable(self) -> hr.Variable:
        value = self.array(np.float32)
        variable = hr.Variable(value)
        self.initial[variable.name] = value
        return variable

    def grow(self, variables: Sequence[hr.Variable]) -> None:
        """Add an operation; one that does not fit what it was given adds nothing."""
        if self.rng.random() < 0.12:
            self.touch(self.rng.choice(variables))
            return
        make = self.rng.choice(MAKERS)
        try:
            results = make(self, self.rng.choice(self.tensors[-12:]))
        except (hr.errors.HeadraceError, IndexError):
            return
        for result in results if isinstance(results, (list, tuple)) else [results]:
            if result.shape.num_elements is None or result.shape.num_elements < 200:
                self.tensors.append(result)

    def touch(self, variable: hr.Variable) -> None:
        """Read or change a variable after all earlier effects, so that the order is fixed."""
        fitting = [item for item in self.tensors if item.spec == variable.spec]
        with hr.control_dependencies(self.effects[-1:]):
            if fitting and self.rng.random() < 0.6:
                change = self.rng.choice([variable.assign, variable.assign_add, variable.assign_sub])
                self.effects.append(change(self.rng.choice(fitting)))
                return
            read = variable.read()
        self.effects.append(read.op)
        self.tensors.append(read)

    def like(self, x: hr.Tensor) -> hr.Tensor:
        """Another tensor of the same dtype, or a constant of one."""
        others = [item for item in self.tensors if item.dtype is x.dtype]
        if self.rng.random() < 0.3:
            return hr.constant(self.array(x.dtype.array_type.type, self.rng.choice([(), x.shape.as_tuple()])))
        return self.rng.choice(others)

    def step(self) -> tuple[list[hr.Tensor], list[hr.Operation], dict[hr.Tensor, np.ndarray]]:
        """What a step fetches, runs and is fed: placeholders, and now and then tensors inside."""
        fetches = [self.rng.choice(self.tensors[-20:]) for _ in range(self.rng.randrange(1, 6))]
        targets = [self.rng.choice(self.effects)] if self.effects and self.rng.random() < 0.5 else []
        fed = [item for item in self.tensors if item.op.type == "Placeholder"]
        inner = [item for item in self.tensors if item.op.type != "Placeholder" and item.shape.is_fully_defined]
        fed += self.rng.sample(inner, min(len(inner), self.rng.choice([0, 0, 1, 2])))
        feeds = {item: self.array(item.dtype.array_type.type, item.shape.as_tuple()) for item in dict.fromkeys(fed)}
        return fetches, targets, feeds


Maker = Callable[[_Program, hr.Tensor], Any]


def _axis(program: _Program, x: hr.Tensor) -> int:
    return program.rng.choice(range(len(x.shape.as_tuple())))


def _sliced(program: _Program, x: hr.Tensor) -> hr.Tensor:
    def bound(size: int) -> slice:
        numbers = [None, *range(-size - 1, size + 2)]
        return slice(program.rng.choice(numbers), program.rng.choice(numbers), program.rng.choice([None, 1, 2, -1, -2]))

    return x[tuple(bound(size) for size in x.shape.as_tuple())]


def _transposed(program: _Program, x: hr.Tensor) -> hr.Tensor:
    rank = len(x.shape.as_tuple())
    return hr.permute_dims(x, program.rng.sample(range(rank), rank))


def _reshaped(program: _Program, x: hr.Tensor) -> hr.Tensor:
    sizes = program.rng.sample(x.shape.as_tuple(), len(x.shape.as_tuple()))
    return hr.reshape(x, program.rng.choice([[-1], sizes, [1, *sizes], [*sizes, 1]]))


def _reduced(function: Callable[..., hr.Tensor]) -> Maker:
    def make(program: _Program, x: hr.Tensor) -> hr.Tensor:
        axis = program.rng.choice([None, [], _axis(program, x)])
        return function(x, axis=axis, keepdims=program.rng.random() < 0.5)

    return make


def _unary(function: Callable[..., hr.Tensor]) -> Maker:
    return lambda program, x: function(x)


def _binary(function: Callable[..., hr.Tensor]) -> Maker:
    return lambda program, x: function(*program.rng.sample([x, program.like(x)], 2))


MAKERS: list[Maker] = [
    *map(_unary, [hr.negative, hr.exp, hr.tanh, hr.square, hr.abs, hr.floor]),
    *map(_binary, [hr.add, hr.subtract, hr.multiply, hr.maximum] * 2),
    *map(_unary, [hr.negative, hr.abs, hr.square, hr.sign, hr.exp, hr.tanh, hr.floor, hr.identity, hr.stop_gradient]),
    *map(_unary, [hr.zeros_like, hr.ones_like, hr.shape, hr.size, hr.logical_not]),
    *map(_binary, [hr.add, hr.subtract, hr.multiply, hr.maximum, hr.minimum, hr.squared_difference]),
    *map(_binary, [hr.less, hr.equal, hr.logical_and, hr.divide, hr.matmul]),
    *map(_reduced, [hr.sum, hr.mean, hr.max, hr.prod, hr.any]),
    _sliced, _transposed, _reshaped, _sliced, _transposed, _reshaped,
    lambda program, x: hr.astype(x, program.rng.choice([hr.float32, hr.int32, hr.float64])),
    lambda program, x: hr.concat([x, program.like(x), x], axis=_axis(program, x)),
    lambda program, x: hr.stack([x, program.like(x)]),
    lambda program, x: hr.split(x, x.shape.as_tuple()[0], axis=0),
    lambda program, x: hr.unstack(x)[:4],
    lambda program, x: hr.broadcast_to(x, (2, *x.shape.as_tuple())),
    lambda program, x: hr.expand_dims(x, axis=0),
    lambda program, x: hr.squeeze(x),
    lambda program, x: hr.tile(x, [program.rng.choice([1, 2]) for _ in x.shape.as_tuple()]),
    lambda program, x: hr.add_n([x, x, program.like(x)]),
    lambda program, x: hr.multiply(x, 1.0),
    lambda program, x: hr.add(x, -0.0),
    lambda program, x: hr.negative(hr.negative(x)),
]  # fmt: skip


class _Interpreter:
    """Runs steps one operation after the other, on copies. It has its own values of the variables."""

    def __init__(self, initial: Mapping[str, np.ndarray]) -> None:
        self.state = {name: np.array(value) for name, value in initial.items()}

    def run(
        self, fetches: Sequence[hr.Tensor], targets: Sequence[hr.Operation], feeds: Mapping[hr.Tensor, np.ndarray]
    ) -> list[np.ndarray]:
        values: dict[hr.Tensor, Any] = dict(feeds)
        needed = self._needed([*(item.op for item in fetches if item not in feeds), *targets], feeds)
        for op in sorted(needed, key=lambda item: item.index):
            for tensor, value in zip(op.outputs, self._outputs(op, [values[item] for item in op.inputs]), strict=True):
                values.setdefault(tensor, value)
        return [values[item] for item in fetches]

    def _needed(self, roots: Sequence[hr.Operation], feeds: Mapping[hr.Tensor, np.ndarray]) -> set[hr.Operation]:
        needed: set[hr.Operation] = set()
        stack = list(roots)
        while stack:
            op = stack.pop()
            if op not in needed:
                needed.add(op)
                stack += [item.op for item in op.inputs if item not in feeds]
                stack += [item for item in op.control_inputs if not (item.outputs and set(item.outputs) <= set(feeds))]
        return needed

    def _outputs(self, op: hr.Operation, inputs: Sequence[Any]) -> Sequence[Any]:
        if op.type == "Const":
            return [op.attr("value")]
        if op.type == "VarHandleOp":
            return [op.attr("shared_name")]
        if op.type == "ReadVariableOp":
            return [self.state[inputs[0]].copy()]
        with np.errstate(all="ignore"):
            if op.type.startswith("Assign"):
                name, value = inputs
                changes = {"AssignVariableOp": lambda old: value, "AssignAddVariableOp": lambda old: old + value,
                           "AssignSubVariableOp": lambda old: old - value}  # fmt: skip
                self.state[name] = np.array(changes[op.type](self.state[name]), np.float32)
                return []
            kernel = find_kernel(op.type, op.attrs)
            arguments = group_inputs(op, [np.array(value) for value in inputs])
            head = () if kernel.direct else (context_of(op, NO_RESOURCES, NO_FUNCTIONS),)
            result = kernel.function(*head, *arguments)
        single = len(op.outputs) == 1 and not op.op_def.outputs[0].is_list
        return [np.array(item) for item in ([result] if single else result)]


def _bits(value: np.ndarray) -> tuple[Any, ...]:
    """What must be equal: dtype, shape and every bit; NaNs are one, since which operand's NaN comes out is open."""
    value = np.array(value)
    if value.dtype.kind in "fcV":
        plain = value.astype(np.complex128) if value.dtype.kind == "c" else value.astype(np.float64)
        parts = plain.reshape(-1).view(np.float64)
        parts[np.isnan(parts)] = np.nan
        return (value.dtype, value.shape, parts.tobytes())
    return (value.dtype, value.shape, value.tobytes())


def _poison(session: hr.Session) -> None:
    """Fill every arena with NaN patterns: a step must not see what the one before left there."""
    for definition in session._definitions.values():
        for plan in definition._plans.values():
            for buffers in plan.compiled._arenas:
                for buffer in buffers:
                    if buffer.size:
                        buffer.reshape(-1).view(np.uint8)[...] = 0xFF


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory is full of NaN patterns too, of arenas and in kernels."""
    real = np.empty

    def empty(*arguments: Any, **options: Any) -> np.ndarray:
        array = real(*arguments, **options)
        if array.dtype != object and array.size and array.flags.c_contiguous:
            array.reshape(-1).view(np.uint8)[...] = 0xFF
        return array

    monkeypatch.setattr(np, "empty", empty)


def _compare(what: str, given: Sequence[np.ndarray], wanted: Sequence[np.ndarray], names: Sequence[str]) -> None:
    for name, value, expected in zip(names, given, wanted, strict=True):
        assert _bits(value) == _bits(expected), f"{what}: {name} is {value!r}, interpreted {expected!r}"


def _check(seed: int, length: int) -> None:
    program = _Program.of(seed, length)
    copy = hr.import_graph_def(hr.to_graph_def(program.graph).SerializeToString())
    spread = _scattered(program.graph, seed)
    for _ in range(3):
        fetches, targets, feeds = program.step()
        interpreter = _Interpreter(program.initial)
        wanted = [interpreter.run(fetches, targets, feeds) for _ in range(3)]
        names = [tensor.name for tensor in fetches]
        for subset in SUBSETS:
            session = hr.Session(program.graph, config=hr.config(passes=subset, verify=True))
            for number, expected in enumerate(wanted):
                options = {"trace": hr.Trace()} if number == 1 else {}
                given, _ = session.run([fetches, targets], feeds=feeds, **options)
                _compare(f"passes {subset}, step {number}", given, expected, names)
                _poison(session)
            _compare("variables", *zip(*_states(session, interpreter), strict=True), list(program.initial))
        session = hr.Session(program.graph)
        step = session.make_callable([fetches, targets], list(feeds))
        for expected in wanted:
            given, _ = step(*feeds.values())
            _compare("make_callable", given, expected, names)
            for value in given:
                value[...] = 1  # the caller's own; the next step must not see it
        other = hr.Session(copy)
        other.write_variables(program.initial)
        by_name = {tensor.name: value for tensor, value in feeds.items()}
        for expected in wanted:
            given, _ = other.run([names, [target.name for target in targets]], feeds=by_name)
            _compare("imported", given, expected, names)
        _check_devices(program, spread, fetches, targets, feeds, wanted)
    _check_threads(program)


def _scattered(graph: hr.Graph, seed: int) -> hr.Graph:
    """A copy of a graph with every colocation group on one of three devices."""
    copy = hr.import_graph_def(hr.to_graph_def(graph).SerializeToString())
    chosen = random.Random(seed)
    for group in colocation_groups(copy):
        device = f"/device:CPU:{chosen.randrange(3)}"
        for op in group.members:
            op.device = device
    return copy


def _check_devices(
    program: _Program,
    graph: hr.Graph,
    fetches: Sequence[hr.Tensor],
    targets: Sequence[hr.Operation],
    feeds: Mapping[hr.Tensor, np.ndarray],
    wanted: Sequence[Sequence[np.ndarray]],
) -> None:
    """A55: divided among devices it gives the same, step after step, and its effects keep their order.

    Not where a read is fed: then nothing orders what came before it and what comes after it, nor do devices.
    """
    if any(tensor.op in program.effects for tensor in feeds):
        return
    names = [tensor.name for tensor in fetches]
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 3}, verify=True))
    session.write_variables(program.initial)
    by_name = {tensor.name: value for tensor, value in feeds.items()}
    for expected in wanted:
        given, _ = session.run([names, [target.name for target in targets]], feeds=by_name, timeout=60.0)
        _compare("devices", given, expected, names)


def _states(session: hr.Session, interpreter: _Interpreter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for name, value in session.read_variables().items():
        yield value, interpreter.state[name]


def _check_threads(program: _Program) -> None:
    """Steps at the same time, each with its own feeds; nothing they fetch changes a variable."""
    fetches, _, first = program.step()
    steps = [
        {item: program.array(item.dtype.array_type.type, value.shape) for item, value in first.items()} for _ in "abc"
    ]
    if any(op.op_def.has_effect for op in _Interpreter({})._needed([item.op for item in fetches], first)):
        return
    wanted = [_Interpreter(program.initial).run(fetches, (), feeds) for feeds in steps]
    call = hr.Session(program.graph).make_callable(fetches, list(first))
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(4):
                given = call(*steps[number].values())
                _compare("thread", given, wanted[number], [item.name for item in fetches])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    _check(seed, length=60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_more_random_programs(seed: int) -> None:
    _check(seed, length=150)
