"""Print the closing line of a run of `nox -s tests`: the joint tests' own, with every other failed session added.

Usage: closing_line.py LOG EXIT_CODE. The joint session runs every test once, so its pytest line is the count; sessions
that only prove something else (style, types, wheels) add to `failed` when they fail, so that the line never says less
than the exit code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CLOSING = re.compile(r"^=+ (?:no tests ran|.*\b(?:passed|failed|errors?|skipped)\b.*) in (?P<seconds>[0-9.]+)s.*=+$")
COUNT = re.compile(r"(\d+) (\w+)")
FAILED_SESSION = re.compile(r"^nox > \* (?P<name>\S+): (?:failed|aborted)")


def closing_line(log: str, code: int) -> str:
    """Return the line that ends the run.

    Args:
      log: everything that the run printed.
      code: its exit code.
    """
    lines = [COLOUR.sub("", line).strip() for line in log.splitlines()]
    closing = next((match for match in map(CLOSING.match, lines) if match), None)
    others = {match["name"] for match in map(FAILED_SESSION.match, lines) if match} - {"joint"}
    counts: dict[str, int] = {}
    seconds = "0.00"
    if closing is not None:
        seconds = closing["seconds"]
        for number, word in COUNT.findall(closing.group().split(" in ")[0]):
            counts[word] = counts.get(word, 0) + int(number)
    if others:
        counts["failed"] = counts.get("failed", 0) + len(others)
    if code != 0 and not counts.keys() & {"failed", "error", "errors"}:
        counts["failed"] = 1
    ordered = sorted(counts.items(), key=lambda item: item[0] != "failed")
    body = ", ".join(f"{number} {word}" for word, number in ordered) or "no tests ran"
    return f"=== {body} in {seconds}s ==="


if __name__ == "__main__":
    print(closing_line(Path(sys.argv[1]).read_text(errors="replace"), int(sys.argv[2])))
