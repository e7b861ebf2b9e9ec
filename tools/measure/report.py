"""A measured row, and the table of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that must hold, and what was found.

    Attributes:
      what: the thing.
      asked: the bound, in words.
      measured: what was found, in words.
      holds: whether it is within the bound.
      detail: what to know beside it, such as the output of what failed.
    """

    what: str
    asked: str
    measured: str
    holds: bool
    detail: str = ""

    def text(self) -> str:
        """Return the row as lines."""
        verdict = "holds" if self.holds else "FALLS SHORT"
        lines = [
            f"{verdict:12} {self.what}",
            f"{'':12}   asked:    {self.asked}",
            f"{'':12}   measured: {self.measured}",
        ]
        return "\n".join(lines + [f"{'':12}   | {line}" for line in self.detail.splitlines()])


def report(rows: Iterable[Row], file: Path | None) -> int:
    """Print each row as it is measured, write all to a JSON file if given, and return the exit code."""
    done = []
    for row in rows:
        print(row.text(), flush=True)
        done.append(row)
    short = [row.what for row in done if not row.holds]
    print(
        f"\n{len(done) - len(short)} of {len(done)} rows hold" + "".join(f"\n  falls short: {what}" for what in short)
    )
    if file is not None:
        file.write_text(json.dumps([asdict(row) for row in done], indent=2) + "\n")
    return 1 if short else 0
