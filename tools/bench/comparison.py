"""Run workloads in several frameworks, interleaved, and compare: A B A B, each in its own process and environment."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.works import WORKS

__all__ = ["Result", "compare", "table"]

WORKER = Path(__file__).parent / "worker.py"
AGREE = 2e-3
"""Relative difference up to which the losses of the third step count as those of the same work."""


@dataclass
class Result:
    """What was found for one workload.

    Attributes:
      work: its name.
      seconds: for each framework the time of every step.
      losses: for each framework the losses of its first three steps.
      first: for each framework the seconds until the third step was done.
      failures: for frameworks that could not run it, why.
    """

    work: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    losses: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, peer: str) -> float:
        """The median step in seconds; infinite where there is none."""
        return statistics.median(self.seconds[peer]) if self.seconds.get(peer) else math.inf

    def best_peer(self) -> str | None:
        """The fastest framework beside ours."""
        others = [peer for peer in self.seconds if peer != "headrace" and self.seconds[peer]]
        return min(others, key=self.median, default=None)

    def ratio(self) -> float | None:
        """Our median over that of the best peer."""
        best = self.best_peer()
        return None if best is None else self.median("headrace") / self.median(best)

    def agree(self) -> bool:
        """True if all frameworks computed the same."""
        last = [losses[-1] for losses in self.losses.values()]
        return all(math.isclose(value, last[0], rel_tol=AGREE, abs_tol=AGREE) for value in last)

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return {**asdict(self), "ratio": self.ratio(), "best": self.best_peer(), "agree": self.agree()}


class _Worker:
    """A framework's process."""

    def __init__(self, peer: str, python: str, env: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [python, str(WORKER), peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(env),
        )  # fmt: skip

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.kill()
            raise RuntimeError(self.process.stderr.read().strip().splitlines()[-1:] or ["no answer"])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def compare(
    work: str, pythons: Mapping[str, str], env: Mapping[str, str], threads: int, rounds: int, steps: int
) -> Result:
    """Run one workload in every framework.

    Args:
      work: its name.
      pythons: for each framework the interpreter of its environment.
      env: the environment variables of the workers.
      threads: how many each may use.
      rounds: how often they take turns.
      steps: of one turn.
    """
    result = Result(work)
    workers: dict[str, _Worker] = {}
    try:
        for peer, python in pythons.items():
            workers[peer] = _Worker(peer, python, env)
            try:
                answer = workers[peer].ask({"prepare": work, "threads": threads})
            except RuntimeError as error:
                result.failures[peer] = str(error)
                del workers[peer]
                continue
            result.losses[peer], result.first[peer] = answer["losses"], answer["first"]
            result.seconds[peer] = []
        for _ in range(rounds):
            for peer, worker in workers.items():
                result.seconds[peer] += worker.ask({"run": steps})["seconds"]
    finally:
        for worker in workers.values():
            worker.close()
    return result


def table(results: Sequence[Result], gigaflops: float | None = None) -> str:
    """The results as lines: median and spread of each framework in ms, our ratio to the best, the arithmetic floor."""
    lines = []
    for result in results:
        flops = WORKS[result.work].flops
        floor = f", floor {flops / gigaflops / 1e6:.2f} ms" if gigaflops and flops else ""
        ratio = result.ratio()
        verdict = f"{ratio:.2f} of {result.best_peer()}" if ratio is not None else "no peer"
        lines.append(f"{result.work}: {verdict}{floor}{'' if result.agree() else '  LOSSES DIFFER'}")
        for peer, seconds in result.seconds.items():
            low, middle, high = (f"{1e3 * value:.4g}" for value in _quartiles(seconds))
            lines.append(f"  {peer:<12} {middle} ms ({low} .. {high}), first three steps {result.first[peer]:.2f} s")
        lines += [f"  {peer:<12} failed: {why}" for peer, why in result.failures.items()]
    return "\n".join(lines)


def _quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    if len(seconds) < 2:
        return (seconds[0],) * 3 if seconds else (math.nan,) * 3
    low, middle, high = statistics.quantiles(seconds, n=4)
    return low, middle, high


if __name__ == "__main__":
    sys.exit("run python -m bench")
