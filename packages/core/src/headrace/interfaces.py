"""The plug-in interfaces: what a backend and the state behind a session must do to take part.

Every method says when it is called and what it may raise. `INTERFACE_VERSION` changes when one of them does; a plug-in
names the version it was written for and loading checks it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headrace.types import Array, DType, Shape, TensorSpec

if TYPE_CHECKING:
    from headrace.graph.graph import Graph
    from headrace.graph.operation import Operation

__all__ = [
    "DEAD",
    "INTERFACE_VERSION",
    "Backend",
    "Compiled",
    "DeviceDriver",
    "Functions",
    "OpContext",
    "OpHook",
    "Rendezvous",
    "Resources",
    "StepControl",
    "VariableStorage",
]

INTERFACE_VERSION = 3


class VariableStorage(Protocol):
    """The mutable buffer behind one variable. Mutable and thread-safe: a read sees a whole value, old or new."""

    @property
    def name(self) -> str:
        """The name under which it is shared."""

    @property
    def dtype(self) -> DType:
        """The element type, fixed when it is created."""

    @property
    def shape(self) -> Shape:
        """The static shape that every value must satisfy."""

    @property
    def is_initialized(self) -> bool:
        """True once a value was assigned."""

    def read(self) -> Array:
        """The current value; the caller must not write to it.

        Raises FailedPreconditionError before the first assignment.
        """

    def snapshot(self) -> tuple[Array, int]:
        """The current value as `read` gives it, and a number that is another one after each change.

        So what was made of a value is good as long as the number is the same.
        """

    def assign(self, value: Array) -> None:
        """Replace the value by a copy of `value`. Raises ShapeError if it does not fit the static shape."""

    def update(self, change: Callable[[Array], Array | None]) -> None:
        """Apply `change` to the value under the variable's lock.

        `change` gets an array that nobody else sees and either writes to it and returns None, or returns the new value,
        of which a copy is kept. If it raises before it writes, the variable keeps its old value.
        """

    def rewrite(self, change: Callable[[Array, Array], None]) -> None:
        """Write every element of the value anew under the variable's lock, without a copy of the old one.

        `change` gets the old value, and an array of its shape to which it writes the new one; they may be the same
        array. If it raises before it writes, the variable keeps its old value.
        """

    def acquire(self, fresh: tuple[int, ...] | None, threads: int = 1) -> Array:
        """Lock the variable and give an array without gaps that holds its value and that nobody else sees.

        For code that writes several variables at one moment; it takes their locks in the order of `id` and must call
        `release` for each, whatever happens: a Ctrl-C may come before it has what this gives.

        Args:
          fresh: the shape of an array to give instead, of any content, where all of the value will be written anyway
            and there is none yet or somebody reads it; or None.
          threads: how many may copy the value, where somebody reads it and `fresh` is None.
        Raises:
          FailedPreconditionError: it has no value and `fresh` is None; the lock is not held then.
        """

    def release(self, value: Array | None) -> None:
        """Make the array that `acquire` gave the value, or keep the old one if it is None; unlock.

        Nothing happens where the calling thread does not hold the lock.
        """

    def destroy(self) -> None:
        """Forget the value; the variable is uninitialised again."""


class Resources(Protocol):
    """The resource container of one session or task: named mutable objects. Mutable and thread-safe."""

    def variable(self, container: str, name: str, dtype: DType, shape: Shape) -> VariableStorage:
        """The variable of that name, created uninitialised at the first request.

        Raises InvalidArgumentError if it exists with another dtype or an incompatible shape.
        """

    def lookup_or_create(self, key: Hashable, create: Callable[[], Any]) -> Any:
        """The object under `key`, made by `create` at the first request."""


class Rendezvous(Protocol):
    """Where the devices of one step hand tensors to each other. Mutable and thread-safe; there is one for each step.

    A key is `source device;incarnation in hex;destination device;tensor name;frame:iteration`. Each value that is sent
    is received once; several values under one key are received in the order in which they were sent.
    """

    def send(self, key: str, value: Any, is_dead: bool) -> None:
        """Leave a value for whoever receives `key`; never waits. The value must not change afterwards.

        Args:
          key: see the class.
          value: the array, or None where it is dead.
          is_dead: the tensor lies on a branch that was not taken, so there is no value.
        Raises:
          InvalidArgumentError: the key is none.
          HeadraceError: the step was given up; the error given to `start_abort`.
        """

    def recv(self, key: str, step: StepControl) -> tuple[Any, bool]:
        """Wait, by `step.wait`, for the value under `key` and take it away.

        Returns:
          The value, and whether it is dead.
        Raises:
          InvalidArgumentError: the key is none.
          HeadraceError: the step was given up; the error given to `start_abort`.
          CancelledError, DeadlineExceededError: see `StepControl.wait`.
        """

    def start_abort(self, error: BaseException) -> None:
        """Give the step up: whoever waits and whoever comes later gets `error`; values not received are dropped.

        The first error counts.
        """


class StepControl(Protocol):
    """The step in which a kernel runs, as kernels that wait see it. Thread-safe."""

    @property
    def rendezvous(self) -> Rendezvous:
        """Where the devices that take part in the step hand tensors to each other."""

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Block until `ready()`, looking again each time that `condition` is notified.

        The caller holds `condition` and holds it again when this returns or raises.

        Args:
          condition: guards what `ready` looks at.
          ready: tells whether the wait is over.
          describe: what is waited for and how that stands, for the error; called with the condition held.
        Raises:
          CancelledError: the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """

    def of(self, operation: OpContext) -> StepControl:
        """The same step, as one operation sees it: what waits is then known by its name."""

    def give_up(self, reason: str) -> None:
        """Let the whole step end, wherever it waits: whoever calls this has an error to raise.

        Args:
          reason: why, for the errors of the others.
        """

    def check(self) -> None:
        """Return at once unless the step has to end; a kernel that loops calls it now and then.

        Raises:
          CancelledError: the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """


class Functions(Protocol):
    """The functions that the operations of a segment call, compiled on demand. Thread-safe."""

    def compiled(self, function: str, arguments: Sequence[Any], then: str | None = None) -> Compiled:
        """The compiled body of a function for values of the shapes of `arguments`; equal shapes give the same one.

        A kernel that calls a function many times keeps what this returns as long as the shapes stay.

        Args:
          function: the name of the function.
          arguments: the values it will be called with.
          then: the name of a function of its results, to be called right after it in the same segment: what that gives
            comes after the results. A loop saves one call in each iteration so, that of its condition.
        Raises:
          NotFoundError: there is no such function, or an operation in it has no kernel.
          HeadraceError: the shapes do not fit the function.
        """

    def segment(self, function: str, shapes: Sequence[Shape], then: str | None = None) -> tuple[Graph, Functions]:
        """The body of a function as a segment, optimised and not compiled, and the functions that it calls.

        For backends that compile an operation together with the functions that it calls.

        Args:
          function: the name of the function.
          shapes: of its arguments.
          then: see `compiled`.
        Raises:
          NotFoundError: there is no such function.
          HeadraceError: the shapes do not fit the function.
        """


class OpContext(Protocol):
    """What a kernel sees of the operation it computes."""

    @property
    def name(self) -> str:
        """The operation's name."""

    @property
    def type(self) -> str:
        """The operation's type."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """dtype and static shape of each input, flat."""

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """dtype and static shape of each output, flat."""

    @property
    def resources(self) -> Resources:
        """The container in which the operation finds its state."""

    @property
    def functions(self) -> Functions:
        """The functions that its attributes name."""

    @property
    def step(self) -> StepControl:
        """The step that is running the kernel now; not to be kept beyond the call."""

    def attr(self, name: str) -> Any:
        """The value of an attribute."""


class _Dead:
    """See `DEAD`."""

    def __repr__(self) -> str:
        return "<dead>"


DEAD = _Dead()
"""In place of a value: the tensor lies on a branch that was not taken, so it has none."""

OpHook = Callable[[int], None]
"""Called with the number of the operation that is about to start; whatever it raises ends the step."""


class Compiled(Protocol):
    """A compiled segment. May be called by several threads at once.

    For those who look at traces it may also have `arena_bytes`, the bytes of planned memory that one step works in, and
    `kernels`, for each operation the name of what computes it, empty for one that is only computed as a part of others
    and never written; for limits and for those who ask what was compiled, `memory`, a `headrace.plan.PlannedMemory`,
    and `work`, a sequence of `headrace.plan.Work`.
    """

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations it runs, in order; a hook gets positions in this list."""

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Compute the results from the arguments.

        The arrays that it returns alias neither each other nor anything else; a result whose `_Retval` carries the attr
        `_may_alias` may share memory with arguments and other results, for callers that only pass it on. Results of
        dtype resource or variant are the objects themselves. An error of an operation names it.
        """

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """The same, calling `hook` before each operation, or before each group that cannot be divided.

        It serves traces, deadlines and cancellation; steps without these never pay for it.
        """


class DeviceDriver(Protocol):
    """The least that a device must be able to do; `hr.register_device` makes a backend of it. Thread-safe.

    Buffers are whatever the driver makes them; nobody else looks inside.
    """

    @property
    def name(self) -> str:
        """The device's name in its process, e.g. `"TRACE:0"`. Kernels are registered for its type."""

    def allocate(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A buffer of the device for a tensor; its content may be anything. It is freed when nobody refers to it."""

    def move(self, source: Any, destination: Any) -> None:
        """Copy from host memory to a buffer of the device, or from a buffer to host memory.

        Args:
          source: a contiguous array, or a buffer that holds a value.
          destination: a buffer, or a contiguous array; of the same shape and dtype.
        """

    def issue(self, kernel: Callable[..., Any], op: OpContext, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run a kernel that is registered for the device type, or queue it up before later calls of `move`.

        Args:
          kernel: the registered function.
          op: what it computes.
          inputs: buffers with the values of the inputs, flat.
          outputs: buffers for the outputs.
        """


@runtime_checkable
class Backend(Protocol):
    """Turns a segment with concrete shapes into a callable.

    It may have a method `load()`, which takes in what compiling needs, such as shared libraries: it is called whenever
    a session is made that asks for this backend, so that no step waits for that.
    """

    @property
    def name(self) -> str:
        """The name by which `hr.config(backend=...)` chooses it."""

    @property
    def interface_version(self) -> int:
        """The `INTERFACE_VERSION` it was written for."""

    def devices(self) -> Sequence[str]:
        """The names of the devices it offers, e.g. `["CPU:0"]`; empty if the machine has none. Allocates nothing."""

    def compile(self, segment: Graph, resources: Resources, functions: Functions) -> Compiled:
        """Compile a segment: a graph whose `_Arg` and `_Retval` operations are its arguments and results.

        Called once per plan, before its first step, and once for each combination of shapes for the body of a function
        that an operation calls: loops and branches are segments of their own, reached through `functions`.

        Args:
          segment: the graph, with concrete shapes as far as they are known before the step.
          resources: where its stateful operations find their state.
          functions: what its kernels call functions by.
        Raises:
          NotFoundError: an operation has no kernel.
        """
