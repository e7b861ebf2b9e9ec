"""Session: runs steps of one graph, and owns the state they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from types import TracebackType
from typing import Any

from headrace.config import Config, current_config
from headrace.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.plan.explanation import Explanation, explain_plan
from headrace.plan.plan import load_backend
from headrace.runtime.feeds import check_fed_once, check_feed_names, feed_tensor, flat_feeds
from headrace.runtime.fetches import Fetches, flatten_fetches
from headrace.runtime.named_state import buffers_by_name, check_names, restart_streams, stream_states, write_values
from headrace.runtime.pending_step import PendingStep
from headrace.runtime.resources import ResourceManager, VariableBuffer, process_resources, read_only
from headrace.runtime.spare_memory import SpareMemory
from headrace.runtime.step_control import RunningSteps
from headrace.runtime.step_definition import StepDefinition, check_value_count
from headrace.runtime.trace import Trace
from headrace.types import Array

__all__ = ["Session"]

ENTRY_POINT_GROUP = "headrace.session_targets"


class Session:
    """Runs steps of a graph. It owns the values of the graph's variables; several threads may use it at once.

    Args:
      graph: the graph to run.
      target: "" for this process, or the address of a cluster such as `"grpc://host:2222"`.
      config: options of compiling and running; those in force here by default.
    Attributes:
      resources: the container of the session's variables and streams of random numbers.
    Raises:
      NotFoundError: the package for such a target is not installed.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     x = hr.placeholder(hr.float32, [None])
      ...     y = hr.sum(x * x)
      >>> with hr.Session(graph) as session:
      ...     print(session.run(y, feeds={x: [1.0, 2.0]}))
      5.0
    """

    def __init__(self, graph: Graph, target: str = "", *, config: Config | None = None) -> None:
        if not isinstance(graph, Graph):
            raise InvalidArgumentError(
                "a session runs a graph", expected="hr.Session(graph)", got=repr(graph), hint="graph = hr.Graph()"
            )
        if not isinstance(config, (Config, type(None))):
            raise InvalidArgumentError(
                "the options are wrong",
                expected="hr.config(...)",
                got=repr(config),
                hint="hr.Session(graph, config=hr.config(passes=[]))",
            )
        if target:
            raise _no_such_target(target)
        self.graph = graph
        self.config = config or current_config()
        load_backend(self.config.backend)
        self.resources = ResourceManager(parent=process_resources())
        self._running = RunningSteps()
        self._definitions: dict[tuple[Any, ...], StepDefinition] = {}
        self._closed = False

    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        timeout: float | None = None,
        trace: Trace | None = None,
        **unknown: Any,
    ) -> Any:
        """Run one step.

        Args:
          fetches: what to return: a tensor, operation, variable, a name of one, or a nested structure of these.
          feeds: values for placeholders, or for any other tensor, whose ancestors are then not computed.
          timeout: seconds the step may take, or None.
          trace: where to record what each operation did, or None.
          unknown: none; an argument of TensorFlow's is refused with the name that it has here.
        Returns:
          Arrays in the structure of `fetches`, None for operations. They belong to the caller.
        Raises:
          FeedError: a feed is missing, unknown, or of the wrong dtype or shape; nothing has run then.
          FailedPreconditionError: a variable has no value, or the session is closed.
          InvalidArgumentError: there is no argument of a name.
          HeadraceError: an operation failed; the text names it and the line that created it.
        """
        if unknown:
            raise _unknown_argument(next(iter(unknown)))
        feeds = flat_feeds(feeds)
        structure, definition = self._define(fetches, feeds)
        values = list(feeds.values()) if feeds else []
        if timeout is None and trace is None:
            return structure.rebuild(definition.run(values))
        return structure.rebuild(definition.run_observed(values, timeout=timeout, trace=trace))

    def run_async(
        self, fetches: Any, feeds: Mapping[Any, Any] | None = None, *, timeout: float | None = None
    ) -> PendingStep:
        """Start one step in the background; see `run` for the arguments and `PendingStep` for the rest.

        The fed values are checked and copied before this returns, so the caller may change his arrays.
        """
        feeds = flat_feeds(feeds)
        structure, definition = self._define(fetches, feeds)
        values = definition.checked_copies(list(feeds.values()) if feeds else [])
        return PendingStep(
            lambda cancellation: structure.rebuild(
                definition.run_observed(values, timeout=timeout, cancellation=cancellation)
            )
        )

    def optimized_graph(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Graph:
        """The graph that a step becomes: what it needs of the session's graph, after all passes, for its fed shapes.

        Args:
          fetches: as in `run`.
          feeds: as in `run`; nothing is run.
        Returns:
          A graph to look at; it belongs to the plan and must not be changed.
        Raises:
          FeedError: as `run`.
        """
        feeds = flat_feeds(feeds)
        _, definition = self._define(fetches, feeds)
        return definition.plan_for(list(feeds.values()) if feeds else []).graph

    def explain(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Explanation:
        """What the compiler makes of a step: segments, kernels and fused loops, why, the memory and the arithmetic.

        Args:
          fetches: as in `run`.
          feeds: as in `run`; nothing is run.
        Returns:
          What can be printed, and taken apart: its `memory`, `work`, `flops`, `bytes` and `as_dict()`.
        Raises:
          FeedError: as `run`.
          ResourceExhaustedError: a step would need more than `memory_limit`.

        Example:
          >>> import headrace as hr, numpy as np
          >>> with hr.Graph().as_default() as graph:
          ...     x = hr.placeholder(hr.float32, [None, 64])
          ...     y = hr.nn.relu(x @ hr.ones([64, 32]))
          >>> with hr.Session(graph, config=hr.config(backend="numpy")) as session:
          ...     explanation = session.explain(y, feeds={x: np.ones((100, 64), np.float32)})
          >>> explanation.memory.peak_bytes, [work.kernel for work in explanation.work]
          (25600, ['headrace.kernels.linalg._matmul', 'headrace.kernels.activations._relu'])
        """
        feeds = flat_feeds(feeds)
        _, definition = self._define(fetches, feeds)
        return explain_plan(definition.plan_for(list(feeds.values()) if feeds else []))

    def partitions(self, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> dict[str, Graph]:
        """What each device does in a step: its part of `optimized_graph`, with the transfers from and to the others.

        Args:
          fetches: as in `run`.
          feeds: as in `run`; nothing is run.
        Returns:
          For the name of each device a graph to look at; it belongs to the plan and must not be changed. The device is
          "" where nothing asks for one.
        Raises:
          FeedError: as `run`.
          PlacementError: no device satisfies what is asked for.

        Example:
          >>> import headrace as hr
          >>> with hr.Graph().as_default() as graph:
          ...     with hr.device("CPU:1"):
          ...         x = hr.random.normal([3])
          ...     with hr.device("CPU:0"):
          ...         y = hr.sum(x)
          >>> with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session:
          ...     for device, part in session.partitions(y).items():
          ...         print(device[-5:], [op.type for op in part.operations])
          CPU:1 ['Const', 'RandomStandardNormal', '_Send']
          CPU:0 ['_Recv', 'Const', 'Sum', '_Retval']
        """
        feeds = flat_feeds(feeds)
        _, definition = self._define(fetches, feeds)
        plan = definition.plan_for(list(feeds.values()) if feeds else [])
        if plan.parts:
            return {str(part.partition.device): part.partition.graph for part in plan.parts}
        return {next((op.device for op in plan.graph.operations), ""): plan.graph}

    def make_callable(self, fetches: Any, feeds: Sequence[Any] = ()) -> Callable[..., Any]:
        """A function that runs this step with the least overhead: the hot path of a training loop.

        Args:
          fetches: as in `run`.
          feeds: the tensors to feed, or tuples of them as sparse tensors are, in the order of the function's arguments.
        Returns:
          A function of `len(feeds)` values that returns what `run` would.
        """
        if any(isinstance(feed, tuple) for feed in feeds):
            return self._callable_of_parts(fetches, feeds)
        keys = [feed_tensor(self.graph, feed) for feed in feeds]
        structure = flatten_fetches(self.graph, fetches)
        definition = self._definition(structure, keys)
        rebuild, run, count = structure.rebuild, definition.run, len(keys)

        def step(*values: Any) -> Any:
            if len(values) != count or self._closed:
                self._check_open()
                check_value_count(keys, values)
            return rebuild(run(values))

        return step

    def _callable_of_parts(self, fetches: Any, feeds: Sequence[Any]) -> Callable[..., Any]:
        """`make_callable` where a feed is a tuple: its value has one part for each."""
        keys = [part for feed in feeds for part in (feed if isinstance(feed, tuple) else (feed,))]
        step = self.make_callable(fetches, keys)
        heads = [feed_tensor(self.graph, feed[0] if isinstance(feed, tuple) else feed) for feed in feeds]

        def step_of_parts(*values: Any) -> Any:
            check_value_count(heads, values)
            flat = flat_feeds(dict(zip(feeds, values, strict=True))) or {}
            return step(*(flat[key] for key in keys))

        return step_of_parts

    def read_variables(
        self, names: Iterable[str] | None = None, *, copy: bool = True, spare: SpareMemory | None = None
    ) -> dict[str, Array]:
        """Copies of the values of variables of the session, by name.

        Args:
          names: which ones; all of the graph's by default. Those without a value get their initial value first.
          copy: False gives read-only views instead, at no cost. They stay as they are: while a view lives, the next
            update of its variable writes to fresh memory.
          spare: where updates take that memory from, now and later.
        Raises:
          NotFoundError: the graph has no variable of a name.
        """
        self._check_open()
        buffers = buffers_by_name(self.graph, self.resources)
        wanted = list(buffers) if names is None else list(names)
        check_names(wanted, buffers)
        self._initialize(wanted, buffers)
        values = {name: buffers[name].read(spare) for name in wanted}
        return {name: value.copy() if copy else read_only(value) for name, value in values.items()}

    def write_variables(self, values: Mapping[str, Array], *, copy: bool = True) -> None:
        """Replace the values of variables, all of them or, on any error, none.

        Args:
          values: for each name an array of the variable's dtype and shape, or Python values that it can hold.
          copy: False lets variables hold the arrays themselves until they are updated, as those of a file that is
            mapped, which processes share. They must be read-only, and nobody may change their memory.
        Raises:
          NotFoundError: the graph has no variable of a name.
          InvalidArgumentError: `copy` is False, and an array is writable, has gaps or is not aligned.
          ShapeError: a value does not fit its variable's shape.
          DTypeError: a value does not have its variable's dtype.
        """
        self._check_open()
        write_values(values, buffers_by_name(self.graph, self.resources), copy=copy)

    def read_streams(self) -> dict[str, tuple[int, int]]:
        """Where the streams of the random operations that have run stand, as operation name -> (key, counter).

        Together with the variables this is all the state that a session of plain steps has.
        """
        self._check_open()
        return stream_states(self.resources)

    def write_streams(self, streams: Mapping[str, Sequence[int]]) -> None:
        """Let the streams of random operations go on from where they stood; see `read_streams`.

        Args:
          streams: for each operation the key and the counter.
        Raises:
          NotFoundError: the graph has no operation of a name; no stream has changed then.
          InvalidArgumentError: one of them is not a random operation; no stream has changed then.
        """
        self._check_open()
        restart_streams(streams, self.graph, self.resources)

    def close(self) -> None:
        """Release every plan and every value. Running steps that wait are cancelled, others end normally.

        New steps are refused.
        """
        self._closed = True
        self._running.end_waits("a call of session.close()")
        self._definitions.clear()
        self.resources.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _define(self, fetches: Any, feeds: Mapping[Any, Any] | None) -> tuple[Fetches, StepDefinition]:
        self._check_open()
        if feeds:
            check_feed_names(feeds)
            keys = [feed_tensor(self.graph, key) for key in feeds]
        else:
            keys = []
        structure = flatten_fetches(self.graph, fetches)
        return structure, self._definition(structure, keys)

    def _definition(self, structure: Fetches, feeds: Sequence[Tensor]) -> StepDefinition:
        key = (structure.tensors, structure.targets, tuple(feeds))
        definition = self._definitions.get(key)
        if definition is None:
            check_fed_once(feeds)
            definition = StepDefinition(
                self.graph, structure.tensors, structure.targets, feeds, self.resources, self.config, self._running
            )
            self._definitions[key] = definition
        return definition

    def _initialize(self, names: Sequence[str], buffers: Mapping[str, VariableBuffer]) -> None:
        """Give variables without a value their initial one."""
        targets: list[Operation] = [
            variable.initializer
            for variable, handle in self.graph.handles.items()
            if variable.initializer is not None and handle.op.name in names
        ]
        for op in targets:
            if not buffers[op.inputs[0].op.name].is_initialized:  # the initializer of another one may have needed it
                self._definition(Fetches((), (op,), lambda values: None), ()).run(())

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPreconditionError(
                "the session is closed",
                expected="a session that is still open",
                got="a call after session.close()",
                hint="make a new hr.Session(graph)",
            )

    def __repr__(self) -> str:
        return f"<hr.Session of {self.graph!r}{', closed' if self._closed else ''}>"


def _no_such_target(target: str) -> NotFoundError:
    """Targets other than this process come from packages; say which one is missing."""
    scheme = target.partition("://")[0]
    entries = {entry.name for entry in metadata.entry_points(group=ENTRY_POINT_GROUP)}
    if scheme in entries:
        return NotFoundError(
            f"session target '{target}' is not supported by this version of headrace",
            expected='"" for this process',
            got=target,
            hint="install versions of headrace and of the package for the target that go together",
        )
    packages = {"grpc": "headrace-distributed"}
    return NotFoundError(
        f"there is no package for session target '{target}'",
        expected='"" for this process, or a target of an installed package',
        got=target,
        hint=f"pip install {packages.get(scheme, 'the package that provides ' + scheme + '://')}",
    )


_TENSORFLOW_ARGUMENTS = {
    "feed_dict": "feeds={tensor: value}",
    "options": "timeout=seconds, or trace=hr.Trace()",
    "run_metadata": "trace=hr.Trace()",
}


def _unknown_argument(name: str) -> InvalidArgumentError:
    hint = _TENSORFLOW_ARGUMENTS.get(name, "help(hr.Session.run) lists the arguments")
    return InvalidArgumentError(
        f"session.run takes no argument '{name}'",
        expected="fetches, feeds, timeout, trace",
        got=name,
        hint=f"write {hint}" if name in _TENSORFLOW_ARGUMENTS else hint,
    )
