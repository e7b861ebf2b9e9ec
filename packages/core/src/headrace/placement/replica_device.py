"""Which task keeps which variable where many workers train one model: a device function for `hr.device`.

Source: the paper, section 3.3 and 4.2: parameters lie on tasks of their own, and a client-side helper spreads them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence

from headrace.errors import InvalidArgumentError, known_names
from headrace.graph.device_name import DeviceName, parse_device
from headrace.graph.operation import Operation

__all__ = ["STATE_TYPES", "ReplicaDevice", "replica_device"]

STATE_TYPES = frozenset({
    "VarHandleOp", "Variable", "VariableV2", "HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2",
    "MutableDenseHashTableV2", "ConditionalAccumulator", "ResourceConditionalAccumulator",
    "SparseConditionalAccumulator",
})  # fmt: skip
"""The operation types whose state all replicas share. Queues stay with their worker."""

Strategy = Callable[[Operation, Sequence[int]], int]
"""Chooses the task for an operation, given the bytes that each task keeps so far."""


class ReplicaDevice:
    """A device function that spreads state over tasks and leaves the rest to the worker. Mutable and thread-safe.

    Made by `replica_device`.

    Attributes:
      loads: the bytes of state that were given to each task; dimensions that are not known count as 1.
    """

    def __init__(
        self, tasks: Sequence[DeviceName], worker: DeviceName, choose: Strategy, types: frozenset[str]
    ) -> None:
        self.loads = [0] * len(tasks)
        self._tasks = tasks
        self._worker = worker
        self._choose = choose
        self._types = types
        self._lock = threading.Lock()

    def __call__(self, op: Operation) -> str:
        """The device for a new operation; what inner `hr.device` blocks have asked for goes before it."""
        if op.type not in self._types or not self._tasks:
            return str(self._worker)
        if parse_device(op.device).job is not None:
            return ""  # somebody has chosen already
        with self._lock:
            task = self._choose(op, tuple(self.loads))
            self.loads[task] += _state_bytes(op)
        return str(self._tasks[task])

    @property
    def imbalance(self) -> float:
        """The largest load in relation to the mean: 1.0 is even. 1.0 too where nothing was given out."""
        total = sum(self.loads)
        return max(self.loads) * len(self.loads) / total if total else 1.0

    def __repr__(self) -> str:
        loads = ", ".join(f"{task} {load} B" for task, load in zip(self._tasks, self.loads, strict=True))
        return f"<hr.ReplicaDevice imbalance {self.imbalance:.3g}: {loads}>"


def replica_device(
    tasks: int | Iterable[str],
    *,
    worker: str = "/job:worker",
    strategy: str | Strategy = "round_robin",
    types: Iterable[str] = STATE_TYPES,
) -> ReplicaDevice:
    """A function for `hr.device` that spreads the variables of a model over tasks.

    Operations that take a variable's handle follow it (see `hr.device`), so reads and updates run where it lies.

    Args:
      tasks: how many tasks the job `ps` has, or the names of the tasks; with none of them all stays with the worker.
      worker: where everything else runs.
      strategy: `"round_robin"` in the order of creation, `"bytes"` to the task that keeps least, or a function of the
        operation and of the bytes that each task keeps, which gives the number of a task.
      types: the operation types whose state is spread.
    Returns:
      The device function; its `imbalance` tells how even the bytes are.
    Raises:
      InvalidArgumentError: there is no such strategy, or a name is no device name.

    Example:
      >>> import headrace as hr
      >>> spread = hr.replica_device(2, strategy="bytes")
      >>> with hr.Graph().as_default(), hr.device(spread):
      ...     table, bias = hr.Variable(hr.zeros([6, 2]), name="table"), hr.Variable(hr.zeros([2]), name="bias")
      ...     print(table.handle.op.device, bias.handle.op.device, round(spread.imbalance, 2))
      /job:ps/task:0 /job:ps/task:1 1.71
    """
    names = [f"/job:ps/task:{number}" for number in range(tasks)] if isinstance(tasks, int) else list(tasks)
    return ReplicaDevice(
        [parse_device(name) for name in names], parse_device(worker), _strategy(strategy), frozenset(types)
    )


def _strategy(given: str | Strategy) -> Strategy:
    strategies: dict[str, Callable[[], Strategy]] = {"round_robin": _RoundRobin, "bytes": lambda: _least_bytes}
    if callable(given):
        return given
    if given not in strategies:
        raise InvalidArgumentError(
            f"there is no strategy '{given}'",
            expected=known_names(given, strategies) + ", or a function of an operation and of loads",
            got=repr(given),
            hint="strategy='bytes' gives each variable to the task that keeps least",
        )
    return strategies[given]()


class _RoundRobin:
    """Each task in turn. Mutable."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, op: Operation, loads: Sequence[int]) -> int:
        chosen = self._next % len(loads)
        self._next += 1
        return chosen


def _least_bytes(op: Operation, loads: Sequence[int]) -> int:
    """The task that keeps least, the first of equal ones."""
    return min(range(len(loads)), key=loads.__getitem__)


def _state_bytes(op: Operation) -> int:
    """The bytes of a variable; 0 for state whose size nothing tells."""
    dtype, shape = op.attrs.get("dtype"), op.attrs.get("shape")
    if dtype is None or shape is None or shape.dims is None:
        return 0
    elements = math.prod(1 if size is None else int(size) for size in shape.dims)
    return elements * int(dtype.size)
