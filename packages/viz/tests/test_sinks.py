"""Sinks: lines of JSON that any parser takes, and what services are told, by fakes of their interfaces."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headrace.errors import NotFoundError
from headrace_viz.sinks import JsonLinesSink, MlflowSink, ScalarSink, WandbSink


def _strict(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_B05_lines_are_json_whatever_the_values(tmp_path: Path) -> None:
    path = tmp_path / "new" / "scalars.jsonl"
    with JsonLinesSink(path) as sink:
        assert isinstance(sink, ScalarSink)
        sink.write_scalars(1, 12.5, {"loss": np.float32(0.5), "损失": math.nan, "a": math.inf, "b": -math.inf})
        (line,) = path.read_text(encoding="utf-8").splitlines()  # there at once
    assert json.loads(line, parse_constant=_strict) == {
        "step": 1,
        "wall_time": 12.5,
        "values": {"loss": 0.5, "损失": "NaN", "a": "Infinity", "b": "-Infinity"},
    }


def test_lines_are_added_after_one_that_a_killed_process_left_torn(tmp_path: Path) -> None:
    path = tmp_path / "scalars.jsonl"
    path.write_text('{"step": 1}\n{"st')
    for step in (2, 3):
        with JsonLinesSink(path) as sink:
            sink.write_scalars(step, 0.0, {})
    first, torn, *rest = path.read_text().splitlines()
    assert (first, torn) == ('{"step": 1}', '{"st')
    assert [json.loads(line)["step"] for line in rest] == [2, 3]


class FakeMlflow(ModuleType):
    """The part of mlflow that is used."""

    def __init__(self, active: Any) -> None:
        super().__init__("mlflow")
        self.active: Any = active
        self.batches: list[tuple[str, list[Any]]] = []
        self.entities = SimpleNamespace(Metric=lambda *arguments: arguments)
        self.tracking = SimpleNamespace(MlflowClient=lambda: self)
        self.ended = 0

    def active_run(self) -> Any:
        """The active run."""
        return self.active

    def start_run(self) -> Any:
        """Start one."""
        self.active = SimpleNamespace(info=SimpleNamespace(run_id="started"))
        return self.active

    def end_run(self) -> None:
        """End it."""
        self.ended += 1

    def log_batch(self, run_id: str, *, metrics: list[Any]) -> None:
        """Keep."""
        self.batches.append((run_id, metrics))


@pytest.fixture(name="mlflow", params=[None, SimpleNamespace(info=SimpleNamespace(run_id="active"))])
def _mlflow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeMlflow:
    fake = FakeMlflow(request.param)
    for name, module in (("mlflow", fake), ("mlflow.entities", fake.entities), ("mlflow.tracking", fake.tracking)):
        monkeypatch.setitem(sys.modules, name, module)
    return fake


def test_mlflow(mlflow: FakeMlflow) -> None:
    active = mlflow.active is not None
    sink = MlflowSink()
    sink.write_scalars(7, 12.5, {"train/loss": np.float32(0.5), "损 (a) %": math.nan})
    sink.close()
    ((run, (loss, other)),) = mlflow.batches
    assert run == ("active" if active else "started")
    assert loss == ("train/loss", 0.5, 12500, 7)
    assert other[0] == "_ _a_ _"
    assert math.isnan(other[1])
    assert mlflow.ended == (0 if active else 1)


def test_mlflow_names_and_batches(mlflow: FakeMlflow) -> None:
    sink = MlflowSink("given", mlflow)
    sink.write_scalars(1, 0.0, {f"a{number}": 0.0 for number in range(1001)})
    assert [(run, len(metrics)) for run, metrics in mlflow.batches] == [("given", 1000), ("given", 1)]
    mlflow.batches.clear()
    sink.write_scalars(1, 0.0, {"/../a//b": 0.0, "t" * 300: 0.0, "": 0.0})
    ((_, metrics),) = mlflow.batches
    assert [metric[0] for metric in metrics] == ["_/a/_/b", "t" * 250, "_"]


class FakeWandbRun:
    """A run that refuses earlier steps, as the service does."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = 0

    def log(self, values: dict[str, float], *, step: int) -> None:
        """Keep."""
        assert step >= (self.logged[-1][0] if self.logged else 0)
        self.logged.append((step, values))

    def finish(self) -> None:
        """Finish."""
        self.finished += 1


@pytest.mark.parametrize("active", [True, False])
def test_wandb(active: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    run, options = FakeWandbRun(), {}
    fake = SimpleNamespace(run=run if active else None, init=lambda **given: options.update(given) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)  # type: ignore[arg-type]  # a module is what it is used as
    sink = WandbSink(project="p")
    sink.write_scalars(1, 0.0, {"a": np.float32(0.5)})
    sink.write_scalars(3, 0.0, {"a": math.nan})
    sink.write_scalars(2, 0.0, {"late": 1.0})
    sink.close()
    assert [(step, list(values)) for step, values in run.logged] == [(1, ["a"]), (3, ["a"]), (3, ["late"])]
    assert (run.finished, options) == ((0, {}) if active else (1, {"project": "p"}))


def test_a_service_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]  # makes its import fail
    with pytest.raises(NotFoundError, match=r"'mlflow' is missing\n(.*\n)*.*headrace-viz\[mlflow\]"):
        MlflowSink()
    with pytest.raises(NotFoundError, match=r"'wandb' is missing\n(.*\n)*.*headrace-viz\[wandb\]"):
        WandbSink()
