"""The profiler: records the steps that run in a block and writes what they did."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sys
import time
from io import FileIO
from pathlib import Path
from types import TracebackType

import headrace as hr
from headrace.errors import FailedPreconditionError, InvalidArgumentError
from headrace_viz.profiling.ceilings import measured_ceilings
from headrace_viz.profiling.chrome_trace import write_chrome_trace
from headrace_viz.profiling.clock import ClockPair, ProcessClock, clock_identity, read_clock_pair
from headrace_viz.profiling.op_table import Grouping, format_table
from headrace_viz.profiling.timeline import MemorySample, Timeline, traced_steps
from headrace_viz.profiling.xspace import to_xspace

__all__ = ["Profile", "profile"]

_SAMPLE_NS = 5_000_000
_SAMPLE_BYTES = 128
_SUFFIX = ".xplane.pb"


class Profile:
    """Mutable: a recording of steps, made by `headrace_viz.profile`. Thread-safe while it records.

    Attributes:
      trace: the trace that it records with.
      xspace_path: the file for TensorBoard's profile plugin, once the block has ended.
      trace_path: the file for chrome://tracing and Perfetto, once the block has ended.
    """

    def __init__(self, logdir: Path, session: str | None, every_step: bool, max_operations: int) -> None:
        self.trace = _BoundedTrace(max_operations)
        self.xspace_path: Path | None = None
        self.trace_path: Path | None = None
        self._logdir = logdir
        self._session = session
        self._every_step = every_step
        self._timeline: Timeline | None = None
        self._active = contextlib.ExitStack()
        self._start_ns = 0
        self._start_pair: ClockPair | None = None

    @property
    def timeline(self) -> Timeline:
        """What was recorded.

        Raises:
          FailedPreconditionError: the block has not ended.
        """
        if self._timeline is None:
            raise FailedPreconditionError(
                "the profile is not complete",
                expected="a call after the with block",
                got="a call before its end",
                hint="with headrace_viz.profile(logdir) as profile: ...; then look at it",
            )
        return self._timeline

    def table(self, *, by: Grouping = "type", limit: int = 20) -> str:
        """Return a table of the operations that took the longest.

        Args:
          by: `"type"` takes all operations of a type together, `"name"` those of a name, `"device"` those of a device.
          limit: number of rows.
        Raises:
          FailedPreconditionError: the block has not ended.
        """
        return format_table([self.timeline], by, limit)

    def __enter__(self) -> Profile:
        if self._start_pair is not None:
            raise FailedPreconditionError(
                "a profile records once",
                expected="one with block",
                got="a second one",
                hint="call headrace_viz.profile(logdir) for each",
            )
        self._start_pair = read_clock_pair()
        self._start_ns = time.perf_counter_ns()
        self._active.enter_context(self.trace.resident)
        if self._every_step:
            self._active.enter_context(self.trace.all_steps())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._active.close()
        end_ns = time.perf_counter_ns()
        self._timeline = self._collect(end_ns)
        self._write(self._timeline)

    def _collect(self, end_ns: int) -> Timeline:
        trace, start_pair = self.trace, self._start_pair
        if start_pair is None:
            raise FailedPreconditionError(
                "the profile was not begun",
                expected="a with block",
                got="its end alone",
                hint="with headrace_viz.profile(logdir) as profile: ...",
            )
        ops, steps, threads = traced_steps(trace.steps)
        return Timeline(
            host=socket.gethostname(),
            process_id=os.getpid(),
            clock=ProcessClock(clock_identity(), (start_pair, read_clock_pair())),
            start_ns=self._start_ns,
            end_ns=end_ns,
            threads=threads,
            ops=ops,
            steps=steps,
            memory=tuple(trace.memory),
            skipped_steps=trace.skipped_steps,
            ceilings=measured_ceilings(),
        )

    def _write(self, timeline: Timeline) -> None:
        session = self._session or time.strftime("%Y_%m_%d_%H_%M_%S")
        folder = self._logdir / "plugins" / "profile" / session
        folder.mkdir(parents=True, exist_ok=True)
        path = _reserved(folder, f"{timeline.host.replace('/', '_')}-{timeline.process_id}")
        partial = path.with_name(f".{path.name}.partial")
        try:
            partial.write_bytes(to_xspace(timeline).SerializeToString())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise
        trace_path = path.with_name(path.name.removesuffix(_SUFFIX) + ".trace.json.gz")
        write_chrome_trace(trace_path, [timeline])
        self.xspace_path, self.trace_path = path, trace_path


def _reserved(folder: Path, stem: str) -> Path:
    """Return a file that was not there; now it is, empty, so that another profile of this second does not take it."""
    for number in itertools.count():
        path = folder / (f"{stem}-{number}{_SUFFIX}" if number else f"{stem}{_SUFFIX}")
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            break
    return path


def profile(
    logdir: str | os.PathLike[str],
    *,
    session: str | None = None,
    every_step: bool = True,
    max_operations: int = 500_000,
) -> Profile:
    """Record what the steps in a `with` block do, and write it when the block ends.

    Below `<logdir>/plugins/profile/<session>/` there are then `<host>-<process>.xplane.pb`, which TensorBoard's profile
    plugin shows, and `<host>-<process>.trace.json.gz`, which https://ui.perfetto.dev and chrome://tracing show. Several
    processes may profile at the same time; `headrace profile merge` brings what they wrote onto one time axis.

    Args:
      logdir: folder of the run.
      session: name of the folder of this recording; the date and time by default. Processes that give the same name
        are shown together.
      every_step: record every step of the process, of whatever session, function or thread. If false, those alone that
        are run with `session.run(..., trace=profile.trace)`.
      max_operations: after this many runs of operations, steps are counted and no longer recorded. Writing what was
        recorded takes about 8 us for each.
    Returns:
      The recording, to be used as a context manager.
    Raises:
      InvalidArgumentError: the session's name is no name of a folder, or the limit is not positive.
      OSError: at the end of the block, the files cannot be written.

    Example:
      >>> import tempfile
      >>> import headrace as hr, headrace_viz
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [None, 64])
      ...     y = hr.sum(hr.matmul(x, hr.ones([64, 64])))
      >>> step = hr.Session(graph).make_callable(y, [x])
      >>> with headrace_viz.profile(tempfile.mkdtemp()) as profile:
      ...     for _ in range(10):
      ...         _ = step([[1.0] * 64] * 32)
      >>> print(profile.table().splitlines()[0])
      operation     calls    self ms    us/call  share        GFLOP/s           GB/s
      >>> profile.xspace_path.name.endswith(".xplane.pb")
      True
    """
    if session is not None and (not session or session in (".", "..") or set(session) & set("/\\\0")):
        raise InvalidArgumentError(
            "a profile cannot have this session name",
            expected="one name of a folder",
            got=repr(session),
            hint="leave it out: the date and time are taken",
        )
    if max_operations < 1:
        raise InvalidArgumentError(
            "a profile has to record something", expected="max_operations >= 1", got=repr(max_operations),
            hint="leave it out: 500,000 runs of operations are recorded",
        )  # fmt: skip
    return Profile(Path(logdir), session, every_step, max_operations)


class _BoundedTrace(hr.Trace):
    """A trace that samples memory after steps and stops recording at a limit. Mutable and thread-safe."""

    def __init__(self, max_operations: int) -> None:
        super().__init__()
        self.memory: list[MemorySample] = []
        self.resident = _ResidentMemory()
        self.skipped_steps = 0
        self._left = max_operations
        self._next_sample_ns = 0

    def add(self, record: hr.StepRecord) -> None:
        # Counters are changed without a lock: threads that meet here may record a step more or sample twice.
        if self._left <= 0:
            self.skipped_steps += 1
            return
        self._left -= len(record.positions)
        super().add(record)
        if record.end_ns >= self._next_sample_ns:
            self._next_sample_ns = record.end_ns + _SAMPLE_NS
            resident = self.resident.bytes()
            if resident is not None:
                self.memory.append(MemorySample(record.end_ns, resident))


class _ResidentMemory:
    """Mutable: how many bytes of main memory the process holds, in a `with` block and where the system says so.

    The file stays open, since opening it took 25 us of a step, ten times as long as reading it again.
    """

    def __init__(self) -> None:
        self._file: FileIO | None = None
        self._process = 0

    def __enter__(self) -> None:
        self._open()

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        self._process = os.getpid()
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                self._file = FileIO("/proc/self/statm")

    def bytes(self) -> int | None:
        """Return the bytes, or None outside of the block or where the system does not say."""
        if self._file is None or self._file.closed:
            return None
        if self._process != os.getpid():  # a fork: what is open here tells of the parent
            self._file.close()
            self._open()
        try:
            return int(os.pread(self._file.fileno(), _SAMPLE_BYTES, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):  # closed by the end of the block, in another thread
            return None
