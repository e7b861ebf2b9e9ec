"""Print the closing line of a run of `.ci/run`: the joint tests' own, with those in a browser and every failed session.

Usage: closing_line.py LOG EXIT_CODE. The joint session runs every test once, but skips those that need a browser: they
run in sessions of their own, `browser-viz` for those of packages/viz and so on, which are counted instead of the skips.
Sessions that only prove something else (style, types, wheels) add to `failed` when they fail, so that the line never
says less than the exit code.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CLOSING = re.compile(r"^=+ (?:no tests ran|.*\b(?:passed|failed|errors?|skipped)\b.*) in (?P<seconds>[0-9.]+)s.*=+$")
COUNT = re.compile(r"(\d+) (\w+)")
STARTED = re.compile(r"^nox > Running session (?P<name>\S+)$")
SKIPPED = re.compile(r"^SKIPPED \[(?P<number>\d+)\] packages/(?P<package>[^/]+)/.*: HEADRACE_BROWSER is not set$")
FAILED_SESSION = re.compile(
    r"^nox > (?:\* (?P<listed>\S+): (?:failed|aborted)|Session (?P<alone>\S+) (?:failed|aborted)\b)"
)
BROWSER = "browser-"


@dataclass
class Tests:
    """What one session of pytest said. Mutable."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether a test of it is counted as failed."""
        return any(self.counts[word] for word in ("failed", "error", "errors"))


def closing_line(log: str, code: int) -> str:
    """Return the line that ends the run.

    Args:
      log: everything that the run printed.
      code: its exit code.
    """
    sessions: dict[str, Tests] = {}
    without_browser: Counter[str] = Counter()
    failed: set[str] = set()
    current = "joint"
    for line in (COLOUR.sub("", line).strip() for line in log.splitlines()):
        if started := STARTED.match(line):
            current = started["name"]
        elif (closing := CLOSING.match(line)) and current not in sessions:
            counts = Counter({word: int(number) for number, word in COUNT.findall(closing.group().split(" in ")[0])})
            sessions[current] = Tests(counts, float(closing["seconds"]))
        elif (skipped := SKIPPED.match(line)) and current == "joint":
            without_browser[skipped["package"]] += int(skipped["number"])
        elif session := FAILED_SESSION.match(line):
            failed.add(session["listed"] or session["alone"])
    counted = {name: tests for name, tests in sessions.items() if name == "joint" or name.startswith(BROWSER)}
    total: Counter[str] = Counter()
    for name, tests in counted.items():
        if name.startswith(BROWSER):  # its other tests were skipped, or not, in the joint session
            ran = Counter({word: tests.counts[word] for word in ("passed", "failed", "error", "errors")})
            total += ran
            total -= Counter(skipped=min(ran.total(), without_browser[name.removeprefix(BROWSER)]))
        else:
            total += tests.counts
    others = {name for name in failed if name != "joint" and not (name in counted and counted[name].failed)}
    total["failed"] += len(others)
    if code != 0 and not Tests(total).failed:
        total["failed"] = 1
    ordered = sorted(total.items(), key=lambda item: item[0] != "failed")
    body = ", ".join(f"{number} {word}" for word, number in ordered if number) or "no tests ran"
    return f"=== {body} in {sum(tests.seconds for tests in counted.values()):.2f}s ==="


if __name__ == "__main__":
    print(closing_line(Path(sys.argv[1]).read_text(errors="replace"), int(sys.argv[2])))
