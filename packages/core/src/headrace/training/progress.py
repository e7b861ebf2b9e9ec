"""How the progress of a training is shown: a bar on a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from tqdm import tqdm

__all__ = ["Progress"]

_SECONDS_BETWEEN_VALUES = 0.2
"""Formatting the values beside the bar takes as long as a small step."""


class Progress:
    """Writes to a stream. Mutable: it holds the bar of the epoch that runs.

    Args:
      stream: where to write; the standard output by default. None of it is written if `enabled` is False.
      enabled: whether to show anything.
      clock: seconds.
    """

    def __init__(
        self, stream: TextIO | None = None, *, enabled: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stdout
        self._enabled = enabled
        self._clock = clock
        self._bar: Any = None
        self._title = ""
        self._start = self._shown = 0.0

    def start_epoch(self, number: int, total: int, steps: int, done: int) -> None:
        """Begin an epoch.

        Args:
          number: which one, from 1.
          total: the last one's number.
          steps: steps in an epoch.
          done: steps of it that an earlier run has done.
        """
        self._title, self._start = f"epoch {number}/{total}", self._clock()
        if self._enabled and self._stream.isatty():
            size = shutil.get_terminal_size()  # a guess where the terminal has none; tqdm alone would then show nothing
            self._bar = tqdm(
                total=steps,
                initial=done,
                desc=self._title,
                unit="step",
                file=self._stream,
                ncols=size.columns,
                nrows=size.lines,
            )

    def step(self, values: Mapping[str, float]) -> None:
        """Count one step, and now and then show its values."""
        if self._bar is None:
            return
        now = self._clock()
        if now - self._shown > _SECONDS_BETWEEN_VALUES:
            self._shown = now
            self._bar.set_postfix_str(_text(values), refresh=False)
        self._bar.update()

    def end_epoch(self, values: Mapping[str, float]) -> None:
        """Show the values of a whole epoch."""
        if self._bar is not None:
            self._bar.set_postfix_str(_text(values), refresh=True)
            self.close()
        elif self._enabled:
            self._stream.write(f"{self._title}: {_text(values)} ({self._clock() - self._start:.1f} s)\n")
            self._stream.flush()

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _text(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())
