"""Saver and CheckpointManager: from the variables of a program to stored steps, and back."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError
from headrace_checkpoint.dtypes import Array
from headrace_checkpoint.durable import DISK, Disk, remove_directory, sweep
from headrace_checkpoint.restore import RestoreReport, check_names, match_variables
from headrace_checkpoint.retention import Best, SavedStep, best_steps, steps_to_keep
from headrace_checkpoint.store import StepName, StoredStep, list_steps, read_manifest, read_newest_step, write_step

__all__ = ["CheckpointManager", "Saver"]


class Saver:
    """Saves variables to a directory of steps, and restores them.

    Args:
      variables: which ones; None: all of the session's graph, optimiser slots included, and with them the streams of
        its random operations, so that an interrupted run goes on as if it had not been.
      disk: whose system calls to use.

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

    def __init__(self, variables: Iterable[hr.Variable] | None = None, *, disk: Disk = DISK) -> None:
        self._variables = None if variables is None else tuple(variables)
        self._disk = disk

    def save(
        self,
        session: hr.Session | None,
        directory: str | os.PathLike[str],
        *,
        step: int,
        objects: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Path:
        """Save the values of the variables as one step.

        Args:
          session: whose values; None where all variables live in the process.
          directory: where the steps are; made if it is missing.
          step: the training step.
          objects: JSON values to keep with it (epoch, position in the data, ...).
          metrics: numbers to choose the best step by.
        Returns:
          The step's folder. Once this returns it survives any crash.
        Raises:
          InvalidArgumentError: no session for variables that need one, or objects that are not JSON.
          OSError: the disk refused; earlier steps are still there.
        """
        values = _read(session, self._of(session))
        streams = session.read_streams() if session is not None and self._variables is None else {}
        return write_step(
            directory,
            step,
            values,
            time=time.time(),
            streams=streams,
            objects=objects,
            metrics=metrics,
            disk=self._disk,
        )

    def restore(
        self,
        session: hr.Session | None,
        directory: str | os.PathLike[str],
        *,
        step: int | None = None,
        strict: bool = True,
        names: Mapping[str, str] | None = None,
    ) -> RestoreReport:
        """Give the variables the values of a saved step; on any error nothing changes.

        Args:
          session: whose variables; None where all live in the process.
          directory: where the steps are.
          step: which one; None: the newest that is whole, passing over damaged ones with a `CheckpointWarning`.
          strict: refuse unless variables and stored tensors fit each other exactly; otherwise restore what fits.
          names: variable name -> name in the checkpoint, where the two differ.
        Raises:
          NotFoundError: there is no such step, or (strict) a variable has no stored value.
          ShapeError: (strict) a stored value has another shape or dtype.
          InvalidArgumentError: (strict) a stored value has no variable.
          DataLossError: the step is damaged.
        """
        stored, arrays = read_newest_step(directory) if step is None else _read_step(directory, step)
        variables = self._of(session)
        values, report = match_variables(variables, arrays, names)
        manifest = stored.manifest
        streams: dict[str, tuple[int, int]] = {}
        if session is not None and self._variables is None:
            operations = {operation.name for operation in session.graph.operations}
            streams = {name: state for name, state in manifest.streams.items() if name in operations}
            lost = tuple(sorted(manifest.streams.keys() - streams.keys()))
            report = dataclasses.replace(report, unexpected=report.unexpected + lost)
        report = dataclasses.replace(report, path=str(stored.path), step=manifest.step, objects=dict(manifest.objects))
        if strict:
            report.raise_unless_complete()
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


def _read_step(directory: str | os.PathLike[str], step: int) -> tuple[StoredStep, dict[str, Array]]:
    names = list_steps(directory)
    found = [name for name in names if name.step == step]
    if not found:
        raise NotFoundError(
            f"step {step} is not saved here",
            where=str(directory),
            expected="one of: " + (", ".join(str(name.step) for name in names) or "(none is)"),
            got=str(step),
            hint="step=None restores the newest",
        )
    stored = StoredStep(Path(directory) / str(found[-1]))
    return stored, stored.read_all()


def _split(session: hr.Session | None, variables: Sequence[hr.Variable]) -> tuple[dict[str, str], list[hr.Variable]]:
    """Variables of the session's graph, as variable name -> name in the session; and those of the process."""
    known = set() if session is None else set(session.graph.variables)
    inside = {v.name: v.handle_in(session.graph).op.name for v in variables if session is not None and v in known}
    return inside, [variable for variable in variables if variable not in known]


def _read(session: hr.Session | None, variables: Sequence[hr.Variable]) -> dict[str, Array]:
    check_names(variables)
    inside, outside = _split(session, variables)
    values = {variable.name: variable.numpy() for variable in outside}
    if session is not None:
        read = session.read_variables(inside.values())
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

    Opening a directory removes what a killed process left half written. Mutable: it deletes steps.

    Args:
      directory: where the steps are; made when the first is saved.
      keep_latest: how many of the newest steps to keep; None: all.
      keep_best: a metric's name, `(name, count)` or a `Best`: keep these steps too.
      variables: which variables; None: all of the session's graph.
      disk: whose system calls to use.
      clock: the time in seconds since 1970.

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
        variables: Iterable[hr.Variable] | None = None,
        disk: Disk = DISK,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if keep_latest is not None and keep_latest < 1:
            raise InvalidArgumentError(
                "a manager keeps at least the newest step",
                expected="keep_latest >= 1, or None",
                got=str(keep_latest),
                hint="None keeps every step",
            )
        self.directory = Path(directory)
        self._keep_latest = keep_latest
        self._keep_best = Best.of(keep_best)
        self._saver = Saver(variables, disk=disk)
        self._disk = disk
        if self.directory.is_dir():
            sweep(self.directory, disk, clock())

    @property
    def steps(self) -> tuple[int, ...]:
        """The saved steps, oldest first."""
        return tuple(sorted({name.step for name in list_steps(self.directory)}))

    @property
    def latest_step(self) -> int | None:
        """The newest saved step, or None."""
        return max(self.steps, default=None)

    @property
    def best_step(self) -> int | None:
        """The best of the saved steps by the metric of `keep_best`, or None."""
        if self._keep_best is None:
            return None
        return next(iter(best_steps(self._saved(), self._keep_best)), None)

    def save(
        self,
        session: hr.Session | None,
        step: int,
        *,
        metrics: Mapping[str, float] | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> Path:
        """Save a step, then delete those that need not be kept.

        Args:
          session: whose values; None where all variables live in the process.
          step: the training step.
          metrics: numbers to choose the best step by.
          objects: JSON values to keep with it.
        Returns:
          The step's folder. Once this returns it survives any crash.
        Raises:
          OSError: the disk refused; earlier steps are still there.
        """
        path = self._saver.save(session, self.directory, step=step, metrics=metrics, objects=objects)
        kept = steps_to_keep(self._saved(), keep_latest=self._keep_latest, keep_best=self._keep_best) | {step}
        for name in list_steps(self.directory):
            if name.step not in kept:
                remove_directory(self.directory / str(name), self._disk)
        return path

    def restore(
        self,
        session: hr.Session | None,
        *,
        step: int | None = None,
        strict: bool = True,
        names: Mapping[str, str] | None = None,
    ) -> RestoreReport:
        """Restore a step, the newest that is whole by default; see `Saver.restore`."""
        return self._saver.restore(session, self.directory, step=step, strict=strict, names=names)

    def _saved(self) -> list[SavedStep]:
        return [SavedStep(name.step, self._metrics(name)) for name in list_steps(self.directory)]

    def _metrics(self, name: StepName) -> Mapping[str, float]:
        try:
            return read_manifest(self.directory / str(name)).metrics
        except (hr.errors.DataLossError, hr.errors.NotFoundError):
            return {}  # damaged: kept only as long as it is among the newest
