"""Saver and CheckpointManager: from the variables of a program to stored steps, and back."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError
from headrace_checkpoint.background import BackgroundWork
from headrace_checkpoint.boxes import Box
from headrace_checkpoint.compression import check_compression
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Disk
from headrace_checkpoint.manifest import Chunk, StoredTensor, plain_metrics, plain_objects
from headrace_checkpoint.restore import Names, Part, RestoreReport, check_names, match_variables
from headrace_checkpoint.retention import Best, Retention, SavedStep, best_steps
from headrace_checkpoint.shared import Writers, write_shared_step
from headrace_checkpoint.sources import OpenSource, open_source, source_of_step
from headrace_checkpoint.stateful import Stateful, check_states, states_of
from headrace_checkpoint.storage import storage_of
from headrace_checkpoint.store import (
    StepName,
    StoredStep,
    check_step,
    list_steps,
    next_attempt,
    read_manifest,
    read_newest_step,
    steps_of,
    write_step,
)
from headrace_checkpoint.tensor_bundle import ArraySlice
from headrace_checkpoint.threads import in_threads

__all__ = ["CheckpointManager", "Saver"]

_COPIED_PER_SECOND = 8e9
"""Bytes that memory copies in a second, some slow ones half as many: so long a step that changes all variables has the
memory for itself. The work beside it took as much time from it again as it needs to write the values elsewhere."""


class Saver:
    """Saves variables to a directory of steps, and restores them.

    Args:
      variables: which ones; None: all of the session's graph, optimiser slots included, and with them the streams of
        its random operations, so that an interrupted run goes on as if it had not been.
      parts: the variables, by name, that are parts of larger tensors, such as the shards of a partitioned variable: the
        checkpoint holds the tensors, so another number of shards reads them again.
      writers: the processes that save one step together, each its variables; None: this one alone.
      shard_bytes: divide a step into files of about this size, written side by side; None: one file.
      compression: `"zstd"` (extra `zstd`): files become smaller, and are no longer mapped: a restore decompresses what
        it reads. Saving holds the compressed step and 4 MiB for each core beside the variables, reading 16 MiB for
        each file.
      disk: whose system calls to use.
      clock: the time in seconds since 1970.

    Example:
      >>> import headrace as hr, headrace_checkpoint, tempfile
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     w = hr.Variable([1.0, 2.0], name="w")
      ...     double = w.assign(w * 2.0)
      >>> saver = headrace_checkpoint.Saver()
      >>> directory = tempfile.mkdtemp()
      >>> with hr.Session(graph) as session:
      ...     path = saver.save(session, directory, step=1)
      ...     _ = session.run(double)
      ...     report = saver.restore(session, directory)
      ...     print(report.step, report.restored, session.run(w))
      1 ('w',) [1. 2.]
    """

    def __init__(
        self,
        variables: Iterable[hr.Variable] | None = None,
        *,
        parts: Mapping[str, Part] | None = None,
        writers: Writers | None = None,
        shard_bytes: int | None = None,
        compression: str | None = None,
        disk: Disk = DISK,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._variables = None if variables is None else tuple(variables)
        self._parts = dict(parts or {})
        self._writers = writers
        self._shard_bytes = shard_bytes
        check_compression(compression)
        self._compression = compression
        self._disk = disk
        self._clock = clock

    def save(
        self,
        session: hr.Session | None,
        directory: str | os.PathLike[str],
        *,
        step: int,
        objects: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> str:
        """Save the values of the variables as one step.

        Args:
          session: whose values; None where all variables live in the process.
          directory: where the steps are; made if it is missing.
          step: the training step.
          objects: what to keep with it, by name: JSON values, or objects whose `state()` gives some (see `Stateful`).
          metrics: numbers to choose the best step by.
        Returns:
          The step's folder. Once this returns it survives any crash.
        Raises:
          InvalidArgumentError: no session for variables that need one, or objects that are not JSON.
          OSError: the disk refused; earlier steps are still there.
        """
        return self.prepare(session, directory, step=step, objects=objects, metrics=metrics)()

    def prepare(
        self,
        session: hr.Session | None,
        directory: str | os.PathLike[str],
        *,
        step: int,
        objects: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        spare: hr.SpareMemory | None = None,
    ) -> Callable[[], str]:
        """Take hold of the values as they are now; the function that is returned writes them, whenever it is called.

        Nothing is copied: variables that are updated meanwhile go on in other memory.

        Args:
          session: see `save`.
          directory: see `save`.
          step: see `save`.
          objects: see `save`.
          metrics: see `save`.
          spare: the memory in which variables go on; None: fresh memory each time.
        Returns:
          The function, which returns the step's folder.
        Raises:
          InvalidArgumentError: no session for variables that need one, or objects that are not JSON.
        """
        step = check_step(step)
        values = _read(session, self._of(session), spare)
        if spare is not None:
            spare.reserve(values.values())
        streams = session.read_streams() if session is not None and self._variables is None else {}
        kept: dict[str, Any] = {
            "time": self._clock(),
            "streams": streams,
            "objects": plain_objects(states_of(objects or {})),
            "metrics": plain_metrics(metrics or {}),
            "compression": self._compression,
            "disk": self._disk,
        }
        slices = [self._slice(name, value) for name, value in values.items() if name in self._parts]
        whole = {name: value for name, value in values.items() if name not in self._parts}
        if self._writers is None:
            whole |= _assembled(slices)
            return functools.partial(write_step, directory, step, whole, shard_bytes=self._shard_bytes, **kept)
        arrays: dict[str, ArrayLike | ArraySlice] = {**whole, **dict(slices)}
        return functools.partial(write_shared_step, directory, step, arrays, self._writers, **kept)

    def reserve(self, session: hr.Session | None, spare: hr.SpareMemory) -> None:
        """Say how much memory `prepare` will want of `spare`.

        Args:
          session: see `save`.
          spare: see `prepare`.
        Raises:
          InvalidArgumentError: no session for variables that need one.
        """
        spare.reserve(_read(session, self._of(session), spare).values())

    def _slice(self, name: str, value: Array) -> tuple[str, ArraySlice]:
        part = self._parts[name]
        return part.tensor, ArraySlice(part.full_shape, part.start, value)

    def restore(
        self,
        session: hr.Session | None,
        directory: str | os.PathLike[str],
        *,
        step: int | None = None,
        strict: bool = True,
        names: Names | None = None,
        objects: Mapping[str, Stateful] | None = None,
    ) -> RestoreReport:
        """Give the variables the values of a saved step, or of another file of tensors; on any error nothing changes.

        Args:
          session: whose variables; None where all live in the process.
          directory: where the steps are; or one step, a safetensors file or the index of several, an `.npz` file, or a
            TensorFlow checkpoint (its prefix, or any of its files).
          step: which one; None: the newest that is whole, passing over damaged ones with a `CheckpointWarning`.
          strict: refuse unless variables and stored tensors fit each other exactly; otherwise restore what fits.
          names: variable name, or a compiled pattern of names, -> name in the checkpoint, where the two differ; a
            pattern's name may refer to its groups (see `re.Match.expand`).
          objects: those that were saved, by name: each goes on from its state, before the variables have their values.
        Raises:
          NotFoundError: there is no such step, or (strict) a variable or object has no stored value.
          ShapeError: (strict) a stored value has another shape or dtype.
          InvalidArgumentError: (strict) a stored value has no variable.
          DataLossError: the step is damaged.
        """
        variables = self._of(session)

        def read(source: OpenSource) -> tuple[dict[str, Array], RestoreReport]:
            taken, report = match_variables(variables, source.tensors, names, self._parts)
            refused = strict and not report.is_complete  # which is raised below, since it is no damage of the source
            values = [] if refused else in_threads(lambda place: source.read(*place), taken.values())
            return {} if refused else dict(zip(taken, values, strict=True)), report

        source, (values, report) = _read_source(directory, step, read)
        streams: dict[str, tuple[int, int]] = {}
        if session is not None and self._variables is None:
            operations = {operation.name for operation in session.graph.operations}
            streams = {name: state for name, state in source.streams.items() if name in operations}
            lost = tuple(sorted(source.streams.keys() - streams.keys()))
            report = dataclasses.replace(report, unexpected=report.unexpected + lost)
        report = dataclasses.replace(report, path=source.path, step=source.step, objects=source.objects)
        wanted = dict(objects or {})
        if strict:
            report.raise_unless_complete()
            check_states(wanted, source.objects, source.path)
        for name, item in wanted.items():
            if name in source.objects:
                item.restore(source.objects[name])
        _write(session, [variable for variable in variables if variable.name in values], values)
        if session is not None:
            session.write_streams(streams)
        return report

    def _of(self, session: hr.Session | None) -> Sequence[hr.Variable]:
        if self._variables is not None:
            return self._variables
        if session is None:
            raise InvalidArgumentError(
                "a saver of all variables needs a session",
                expected="a session whose graph has the variables",
                got="session=None",
                hint="Saver(variables) and CheckpointManager(..., variables=...) name them",
            )
        return tuple(session.graph.variables)


Found = TypeVar("Found")


def _read_source(
    path: str | os.PathLike[str], step: int | None, read: Callable[[OpenSource], Found]
) -> tuple[OpenSource, Found]:
    """What is to be restored from, and what was read of it."""
    if step is None:
        source = open_source(path)
        if source is not None:
            return _with_source(source, read)
        return read_newest_step(path, lambda stored: _with_source(source_of_step(stored), read))[1]
    names = list_steps(path)
    attempts = [name for name in names if name.step == step]
    if not attempts:
        raise NotFoundError(
            f"step {step} is not saved here",
            where=str(path),
            expected="one of: " + (", ".join(str(name.step) for name in names) or "(none is)"),
            got=str(step),
            hint="step=None restores the newest",
        )
    return _with_source(source_of_step(StoredStep(storage_of(path).path(str(attempts[-1])))), read)


def _with_source(source: OpenSource, read: Callable[[OpenSource], Found]) -> tuple[OpenSource, Found]:
    return source, read(source)


def _assembled(slices: Iterable[tuple[str, ArraySlice]]) -> dict[str, Array]:
    """Whole tensors of the parts that one process holds.

    Raises:
      InvalidArgumentError: they do not fill the tensors.
    """
    parts: dict[str, list[ArraySlice]] = {}
    for name, item in slices:
        parts.setdefault(name, []).append(item)
    whole: dict[str, Array] = {}
    for name, items in parts.items():
        chunks = tuple(Chunk(Box(item.start, np.shape(item.array)), "", "") for item in items)
        problem = StoredTensor("", items[0].full_shape, chunks).problem()
        if problem is not None:
            raise InvalidArgumentError(
                f"the variables that are parts of {name!r} do not make the whole",
                expected=f"parts that fill {list(items[0].full_shape)} and do not overlap",
                got=problem,
                hint="Part(tensor, full_shape, start) for each of them, or writers=... where others hold the rest",
            )
        array = np.empty(items[0].full_shape, np.asarray(items[0].array).dtype)
        for item, chunk in zip(items, chunks, strict=True):
            array[chunk.box.within(Box.whole(array.shape))] = item.array
        whole[name] = array
    return whole


def _split(session: hr.Session | None, variables: Sequence[hr.Variable]) -> tuple[dict[str, str], list[hr.Variable]]:
    """Variables of the session's graph, as variable name -> name in the session; and those of the process."""
    known = set() if session is None else set(session.graph.variables)
    inside = {v.name: v.handle_in(session.graph).op.name for v in variables if session is not None and v in known}
    return inside, [variable for variable in variables if variable not in known]


def _read(
    session: hr.Session | None, variables: Sequence[hr.Variable], spare: hr.SpareMemory | None
) -> dict[str, Array]:
    check_names(variables)
    inside, outside = _split(session, variables)
    values = {variable.name: variable.numpy(copy=False, spare=spare) for variable in outside}
    if session is not None:
        read = session.read_variables(inside.values(), copy=False, spare=spare)
        values |= {name: read[handle] for name, handle in inside.items()}
    return values


def _write(session: hr.Session | None, variables: Sequence[hr.Variable], values: Mapping[str, Array]) -> None:
    inside, outside = _split(session, variables)
    if session is not None:
        session.write_variables({handle: values[name] for name, handle in inside.items()})
    for variable in outside:
        variable.assign(values[variable.name])


class CheckpointManager:
    """Keeps the steps of one training run in a directory: the newest, the best, and no more than asked for.

    Opening a directory removes what a killed process left half written. Mutable: it deletes steps. Use it as a context
    manager, or call `close`, where it saves asynchronously.

    Args:
      directory: where the steps are; made when the first is saved.
      keep_latest: how many of the newest steps to keep; None: all.
      keep_best: a metric's name, `(name, count)` or a `Best`: keep these steps too.
      keep_every_hours: keep one step for each so many hours too, for good.
      keep_every_steps: keep the steps whose number is a multiple of this too, for good.
      asynchronous: let `save` return at once and write in the background, one step at a time. The values are those of
        the moment of the call. One more copy of the variables is held from then on, or from `reserve` on, until
        `close`: the one that is written while training goes on in the other.
      variables: which variables; None: all of the session's graph.
      parts: see `Saver`.
      writers: see `Saver`; the chief alone deletes steps.
      shard_bytes: see `Saver`.
      compression: see `Saver`.
      disk: whose system calls to use.
      clock: the time in seconds since 1970.
    Raises:
      InvalidArgumentError: a rule for keeping steps is out of range.

    Example:
      >>> import headrace as hr, headrace_checkpoint, tempfile
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     w = hr.Variable(0.0, name="w")
      >>> manager = headrace_checkpoint.CheckpointManager(tempfile.mkdtemp(), keep_latest=1, keep_best=("loss", 1))
      >>> with hr.Session(graph) as session:
      ...     for step, loss in enumerate([0.3, 0.1, 0.2, 0.4]):
      ...         path = manager.save(session, step, metrics={"loss": loss})
      >>> manager.steps
      (1, 3)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep_latest: int | None = 5,
        *,
        keep_best: Best | str | tuple[str, int] | None = None,
        keep_every_hours: float | None = None,
        keep_every_steps: int | None = None,
        asynchronous: bool = False,
        variables: Iterable[hr.Variable] | None = None,
        parts: Mapping[str, Part] | None = None,
        writers: Writers | None = None,
        shard_bytes: int | None = None,
        compression: str | None = None,
        disk: Disk = DISK,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = os.fspath(directory)
        self._storage = storage_of(directory, disk)
        self._retention = Retention(keep_latest, Best.of(keep_best), keep_every_hours, keep_every_steps)
        self._background = BackgroundWork(f"saving to {self.directory}") if asynchronous else None
        self._spare = hr.SpareMemory() if asynchronous else None
        self._saver = Saver(
            variables,
            parts=parts,
            writers=writers,
            shard_bytes=shard_bytes,
            compression=compression,
            disk=disk,
            clock=clock,
        )
        self._is_chief = writers is None or writers.rank == 0
        if self._is_chief:
            self._storage.sweep(clock())

    @property
    def steps(self) -> tuple[int, ...]:
        """The saved steps, oldest first; one that is still being written is not among them."""
        return tuple(sorted({name.step for name in steps_of(self._storage)}))

    @property
    def latest_step(self) -> int | None:
        """The newest saved step, or None."""
        return max(self.steps, default=None)

    @property
    def best_step(self) -> int | None:
        """The best of the saved steps by the metric of `keep_best`, or None."""
        if self._retention.best is None:
            return None
        return next(iter(best_steps(self._saved(), self._retention.best)), None)

    def save(
        self,
        session: hr.Session | None,
        step: int,
        *,
        metrics: Mapping[str, float] | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> str:
        """Save a step, then delete those that need not be kept.

        Once this returns the step survives any crash; with `asynchronous`, once `wait` returns. A save that is still
        going on is waited for first.

        Args:
          session: whose values; None where all variables live in the process.
          step: the training step.
          metrics: numbers to choose the best step by.
          objects: see `Saver.save`.
        Returns:
          The step's folder.
        Raises:
          OSError: the disk refused, now or in the background since the last call; earlier steps are still there.
        """
        self.wait()
        step = check_step(step)
        write = self._saver.prepare(
            session, self.directory, step=step, metrics=metrics, objects=objects, spare=self._spare
        )
        if self._background is None or self._spare is None:
            return self._write(write, step)
        path = self._storage.path(str(next_attempt(self._storage, step)))
        head_start = self._spare.bytes / _COPIED_PER_SECOND
        self._background.start(functools.partial(self._write, write, step), head_start=head_start)
        return path

    def reserve(self, session: hr.Session | None) -> None:
        """Take the memory that asynchronous saves need now, in the background, so that the first is as quick as others.

        Args:
          session: whose values will be saved; None where all variables live in the process.
        Raises:
          OSError: see `save`.
        """
        if self._background is not None and self._spare is not None:
            self.wait()
            self._saver.reserve(session, self._spare)
            self._background.start(self._spare.fill)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until every step that was to be saved is saved.

        Args:
          timeout: seconds to wait, or None.
        Raises:
          DeadlineExceededError: it is still being written.
          OSError: the disk refused; earlier steps are still there.
        """
        if self._background is not None:
            self._background.wait(timeout)

    def close(self) -> None:
        """Wait for what is being written; raises what `wait` raises."""
        try:
            self.wait()
        finally:
            if self._spare is not None:
                self._spare.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def restore(
        self,
        session: hr.Session | None,
        *,
        step: int | None = None,
        strict: bool = True,
        names: Names | None = None,
        objects: Mapping[str, Stateful] | None = None,
    ) -> RestoreReport:
        """Restore a step, the newest that is whole by default; see `Saver.restore`."""
        self.wait()
        return self._saver.restore(session, self.directory, step=step, strict=strict, names=names, objects=objects)

    def _write(self, write: Callable[[], str], step: int) -> str:
        if self._spare is not None:
            self._spare.fill()
        path = write()
        if not self._is_chief:
            return path
        names = steps_of(self._storage)  # what another process saves from now on is none of those to choose from
        described = {name: self._described(name) for name in names}
        kept = self._retention.steps_to_keep(filter(None, described.values())) | {step}
        for name, saved in described.items():
            if saved is not None and name.step not in kept:
                self._storage.remove(str(name))
        return path

    def _saved(self) -> list[SavedStep]:
        return [saved for name in steps_of(self._storage) if (saved := self._described(name)) is not None]

    def _described(self, name: StepName) -> SavedStep | None:
        """What there is to choose by; None of a step of a later version, which is left to it."""
        try:
            manifest = read_manifest(self._storage, str(name))
        except hr.errors.UnimplementedError:
            return None
        except (hr.errors.DataLossError, hr.errors.NotFoundError):
            return SavedStep(name.step, {}, -math.inf)  # damaged: kept only as long as it is among the newest
        return SavedStep(name.step, manifest.metrics, manifest.time)
