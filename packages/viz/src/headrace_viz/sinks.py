"""Sinks: where scalars go besides TensorBoard. A small protocol, a file of JSON lines, and adapters of two services."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from headrace_viz.export import json_value
from headrace_viz.extras import load_extra

__all__ = ["JsonLinesSink", "MlflowSink", "ScalarSink", "WandbSink"]

_MLFLOW_KEY_CHARACTERS = 250
_MLFLOW_BATCH = 1000


@runtime_checkable
class ScalarSink(Protocol):
    """Takes scalars, such as those of a trainer, see `headrace_viz.TensorBoard(sinks=...)`. Whoever made it closes it.

    Example:
      >>> class Print:
      ...     def write_scalars(self, step, wall_time, values):
      ...         print(step, values)
      >>> isinstance(Print(), ScalarSink)
      True
    """

    def write_scalars(self, step: int, wall_time: float, values: Mapping[str, float]) -> None:
        """Take the values of one step. Steps never fall, but one step may come several times, with other tags.

        Args:
          step: training step.
          wall_time: seconds since the epoch.
          values: by tag; NaN and infinities are values like others and must not raise.
        """


class JsonLinesSink:
    """Mutable: adds each step's scalars to a file as one JSON object on a line.

    A line is `{"step": 1, "wall_time": 12.5, "values": {"loss": 0.5}}`. NaN and infinities, which JSON does not have,
    are the texts "NaN", "Infinity" and "-Infinity". Each line is handed to the operating system at once.

    Args:
      path: the file; lines are added to one that is there, after a line that an earlier process was killed in.
    Raises:
      OSError: it cannot be written.

    Example:
      >>> import pathlib, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder) / "scalars.jsonl"
      ...     with JsonLinesSink(path) as sink:
      ...         sink.write_scalars(1, 12.5, {"loss": 0.5})
      ...     print(path.read_text(), end="")
      {"step": 1, "wall_time": 12.5, "values": {"loss": 0.5}}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        torn = file.exists() and file.stat().st_size > 0 and not file.read_bytes().endswith(b"\n")
        self._file = file.open("a", encoding="utf-8", buffering=1)
        if torn:
            self._file.write("\n")

    def write_scalars(self, step: int, wall_time: float, values: Mapping[str, float]) -> None:
        """Add a line.

        Raises:
          OSError: the disk is full or gone.
        """
        plain = {tag: json_value(float(value)) for tag, value in values.items()}
        record = {"step": step, "wall_time": wall_time, "values": plain}
        self._file.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file. Doing so again does nothing."""
        self._file.close()

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MlflowSink:
    """Hands scalars to an MLflow run as metrics. Needs `headrace-viz[mlflow]`.

    Names that MLflow does not allow are cleaned: other characters than letters, digits and `_-. /:` become `_`, and
    what is longer than 250 is cut.

    Args:
      run_id: of a run that is there; by default the active run, or a new one.
      client: an `mlflow.tracking.MlflowClient`; by default a new one.
    Raises:
      NotFoundError: mlflow is not installed.
    """

    def __init__(self, run_id: str | None = None, client: Any = None) -> None:
        self._owned = False
        mlflow = load_extra("mlflow", "mlflow") if client is None or run_id is None else None
        self._mlflow = mlflow
        if run_id is None and mlflow is not None:
            self._owned = mlflow.active_run() is None
            run_id = (mlflow.active_run() or mlflow.start_run()).info.run_id
        self._run_id = run_id
        self._client = client or load_extra("mlflow.tracking", "mlflow").MlflowClient()

    def write_scalars(self, step: int, wall_time: float, values: Mapping[str, float]) -> None:
        """Log metrics."""
        entities = load_extra("mlflow.entities", "mlflow")
        milliseconds = round(wall_time * 1000)
        metrics = [entities.Metric(_mlflow_key(tag), float(value), milliseconds, step) for tag, value in values.items()]
        for start in range(0, len(metrics), _MLFLOW_BATCH):
            self._client.log_batch(self._run_id, metrics=metrics[start : start + _MLFLOW_BATCH])

    def close(self) -> None:
        """End the run, if this sink started it."""
        if self._owned and self._mlflow is not None:
            self._mlflow.end_run()


def _mlflow_key(tag: str) -> str:
    # The service reads keys as paths, so that they may neither be empty nor lead upwards.
    cleaned = re.sub(r"[^\w\-. /:]", "_", tag, flags=re.ASCII).strip("/")[:_MLFLOW_KEY_CHARACTERS]
    return re.sub(r"(^|/)(?:\.{1,2}|)(?=/|$)", r"\1_", cleaned)


class WandbSink:
    """Hands scalars to a Weights & Biases run. Needs `headrace-viz[wandb]`.

    That service takes no values of earlier steps, so what comes late is logged at the step that is current then.

    Args:
      run: what `wandb.init` gave; by default the active run, or a new one.
      **options: for `wandb.init`, where there is no run yet.
    Raises:
      NotFoundError: wandb is not installed.
    """

    def __init__(self, run: Any = None, **options: Any) -> None:
        self._owned = False
        if run is None:
            wandb = load_extra("wandb", "wandb")
            self._owned = wandb.run is None
            run = wandb.run or wandb.init(**options)
        self._run = run
        self._step = 0

    def write_scalars(self, step: int, wall_time: float, values: Mapping[str, float]) -> None:
        """Log values."""
        self._step = max(self._step, step)
        self._run.log({tag: float(value) for tag, value in values.items()}, step=self._step)

    def close(self) -> None:
        """Finish the run, if this sink started it."""
        if self._owned:
            self._run.finish()
