"""Progress is a line per epoch in files and a bar on terminals."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import pytest

from headrace.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock() -> float:
    return 0.0


def test_elsewhere_each_epoch_is_a_line() -> None:
    stream = io.StringIO()
    progress = Progress(stream, clock=clock)
    progress.start_epoch(2, 5, 10, 0)
    progress.step({"loss": 1.0})
    progress.end_epoch({"loss": 0.12345, "accuracy": 0.5})
    assert stream.getvalue() == "epoch 2/5: loss 0.1235, accuracy 0.5 (0.0 s)\n"


def test_a_terminal_shows_a_bar_with_the_values() -> None:
    stream = Terminal()
    progress = Progress(stream, clock=clock)
    progress.start_epoch(1, 1, 4, 1)
    for _ in range(3):
        progress.step({"loss": 1.0})
    progress.end_epoch({"loss": 0.25})
    last = stream.getvalue().split("\r")[-1]
    assert "epoch 1/1" in last
    assert "4/4" in last
    assert "loss 0.25" in last


def test_a_terminal_without_a_size_shows_a_bar_too(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.openpty()  # no rows and no columns, as under `script` and some runners
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        progress = Progress(clock=clock)
        progress.start_epoch(1, 1, 1, 0)
        progress.step({"loss": 1.0})
        progress.end_epoch({"loss": 1.0})
        stream.write("end")
        stream.flush()
        shown = os.read(reader, 65536)
        monkeypatch.undo()
    os.close(reader)
    assert b"1/1" in shown


def test_without_progress_nothing_is_written() -> None:
    for stream in (io.StringIO(), Terminal()):
        progress = Progress(stream, enabled=False, clock=clock)
        progress.start_epoch(1, 1, 1, 0)
        progress.step({"loss": 1.0})
        progress.end_epoch({"loss": 1.0})
        progress.close()
        assert stream.getvalue() == ""


def test_by_default_lines_go_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(clock=clock)
    progress.start_epoch(1, 1, 1, 0)
    progress.end_epoch({"loss": 1.0})
    assert capsys.readouterr().out == "epoch 1/1: loss 1 (0.0 s)\n"


def test_values_beside_the_bar_are_formatted_a_few_times_a_second() -> None:
    times = iter([0.0, *(0.1 * step for step in range(1, 11))])
    progress = Progress(Terminal(), clock=lambda: next(times))
    progress.start_epoch(1, 1, 10, 0)
    formatted = 0

    class Values(dict[str, float]):
        def items(self) -> Any:
            nonlocal formatted
            formatted += 1
            return super().items()

    for _ in range(10):
        progress.step(Values(loss=1.0))
    progress.close()
    assert formatted == 3  # after 0.3, 0.6 and 0.9 seconds
