"""One framework in its own process: reads requests as JSON lines, answers with times and losses.

`{"prepare": "mlp", "threads": 2}` builds a workload and answers with the losses of its first three steps;
`{"run": 20}` answers with the seconds of so many steps, each waited for.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Step = Callable[[], float]


def main(peer: str) -> None:
    """Serve requests until the input ends."""
    sys.path.insert(0, str(Path(__file__).parent))
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    works: Any = importlib.import_module("works")
    build: Any = importlib.import_module(f"{peer}_peer").build
    step: Step | None = None
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a framework prints is no answer
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            work = works.WORKS[request["prepare"]]
            weights, data = work.make()
            begin = time.perf_counter()
            step = build(work.kind, weights, data, request["threads"])
            losses = [float(step()) for _ in range(3)]
            reply: dict[str, Any] = {"losses": losses, "first": time.perf_counter() - begin}
        else:
            assert step is not None
            reply = {"seconds": [_timed(step) for _ in range(request["run"])]}
        print(json.dumps(reply), file=answers, flush=True)


def _timed(step: Step) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(sys.argv[1])
