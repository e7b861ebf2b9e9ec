"""Run workloads in several frameworks, interleaved, and compare: A B A B, each in its own process and environment."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import Machine, measured
from bench.works import WORKS, Work

__all__ = ["Interpreters", "Result", "Setting", "Worker", "compare", "table", "turn_steps"]

TOOLS = Path(__file__).resolve().parent.parent
OURS = "headrace"
AGREE = {"float32": 2e-3, "bfloat16": 2e-2}
"""Relative difference up to which the values of the first steps count as those of the same work."""

SEEN = 4 << 20
"""Bytes of resident memory from which on two processes can be compared."""
SHORTEST = 0.2
"""Seconds, about, that a turn takes at least: after others have run, caches hold none of what its first steps need."""
INFERENCE_ONLY = ("onnxruntime",)

Interpreters = Mapping[str, str]
"""For each framework the interpreter of its environment."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How workloads are compared.

    Attributes:
      pythons: see `Interpreters`.
      env: the environment variables of the workers.
      threads: how many each framework may use.
      rounds: how often they take turns.
      steps: of one turn; more where they take less than SHORTEST together.
      seconds: how long a turn may take, if that is less; it has one step at least.
      precision: of Headrace; the others stay at float32.
      deterministic: of Headrace: the same bits for any number of threads.
    """

    pythons: Interpreters
    env: Mapping[str, str]
    threads: int
    rounds: int = 5
    steps: int = 10
    seconds: float = 2.0
    precision: str = "float32"
    deterministic: bool = False


@dataclass
class Result:
    """What was found for one workload.

    Attributes:
      work: its name.
      machine: what the machine could do before and after each round.
      precision: see `Setting`.
      seconds: for each framework the time of every step.
      values: for each framework the values of its first three steps.
      first: for each framework the seconds until the third step was done.
      memory: for each framework the bytes that it held at its peak, over what it held with the initial arrays alone.
      arena: bytes that our plan had set aside for one step.
      failures: for frameworks that could not run it, why.
    """

    work: str
    machine: Machine
    precision: str = "float32"
    seconds: dict[str, list[float]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    arena: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, peer: str) -> float:
        """The median step in seconds; infinite where there is none."""
        return statistics.median(self.seconds[peer]) if self.seconds.get(peer) else math.inf

    def best_peer(self) -> str | None:
        """The fastest framework beside ours."""
        others = [peer for peer in self.seconds if peer != OURS and self.seconds[peer]]
        return min(others, key=self.median, default=None)

    def ratio(self) -> float | None:
        """Our median over that of the best peer; None where there is no peer or ours failed."""
        best = self.best_peer()
        return None if best is None or not self.seconds.get(OURS) else self.median(OURS) / self.median(best)

    def ratio_spread(self) -> tuple[float, float] | None:
        """The lower and the upper quartile of the ratio: of our steps, over the median of the best peer."""
        best = self.best_peer()
        if best is None or not self.seconds.get(OURS):
            return None
        low, _, high = _quartiles(self.seconds[OURS])
        return low / self.median(best), high / self.median(best)

    def memory_ratio(self) -> float | None:
        """Our peak over the smallest peak of a peer; None where that is too small to be seen among pages."""
        others = [held for peer, held in self.memory.items() if peer != OURS]
        if not others or OURS not in self.memory or min(others) < SEEN:
            return None
        return self.memory[OURS] / min(others)

    def floor(self) -> float:
        """Seconds that a step takes at least on this machine; 0 where that is not known."""
        return WORKS[self.work].floor(self.machine.flops, self.machine.bandwidth)

    def gap(self) -> float | None:
        """Our median over the floor."""
        return self.median(OURS) / self.floor() if self.floor() and self.seconds.get(OURS) else None

    def agree(self) -> bool:
        """True if all frameworks computed the same in each of the first steps."""
        tolerance = AGREE[self.precision]
        return all(
            math.isclose(value, column[0], rel_tol=tolerance, abs_tol=tolerance * 1e-3)
            for column in zip(*self.values.values(), strict=True)
            for value in column
        )

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        found = {
            "ratio": self.ratio(),
            "ratio_spread": self.ratio_spread(),
            "best": self.best_peer(),
            "memory_ratio": self.memory_ratio(),
            "floor": self.floor(),
            "gap": self.gap(),
            "agree": self.agree(),
            "median": {peer: self.median(peer) for peer in self.seconds},
        }
        return {**asdict(self), **found}


class Worker:
    """A framework's process. Mutable.

    Args:
      peer: the name of the framework.
      python: the interpreter of its environment.
      env: its environment variables.
    """

    def __init__(self, peer: str, python: str, env: Mapping[str, str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the worker; a pipe would fill up and block
        self.process = subprocess.Popen(
            [python, "-m", "bench.worker", peer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            text=True, env=_with_tools(env),
        )  # fmt: skip

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request (see `worker`).

        Raises:
          RuntimeError: the process ended; the last line that it wrote.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError((self.errors.read().strip().splitlines() or ["it ended without a word"])[-1])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def compare(work: Work, setting: Setting) -> Result:
    """Run one workload in every framework.

    Args:
      work: what to run.
      setting: where and how.
    """
    machines = [_machine(work, setting)]
    result = Result(work.name, machines[0], setting.precision)
    workers: dict[str, Worker] = {}
    try:
        for peer, python in setting.pythons.items():
            if peer in INFERENCE_ONLY and work.kind != "infer":
                continue
            worker = Worker(peer, python, setting.env)
            try:
                _prepare(work, setting, peer, worker, result)
            except RuntimeError as error:
                result.failures[peer] = str(error)
                worker.close()
            else:
                workers[peer] = worker
        turns = {peer: _steps(worker, setting, work.repeat) for peer, worker in workers.items()}
        for _ in range(setting.rounds):
            for peer, worker in workers.items():
                result.seconds[peer] += worker.ask(run=turns[peer])["seconds"]
            machines.append(_machine(work, setting))
    finally:
        for worker in workers.values():
            worker.close()
    result.machine = Machine.typical(machines)
    return result


def _with_tools(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that imports what lies beside this file."""
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [str(TOOLS), env.get("PYTHONPATH")]))}


def _machine(work: Work, setting: Setting) -> Machine:
    return measured(setting.pythons[OURS], setting.threads, _with_tools(setting.env), work.moved)


def _prepare(work: Work, setting: Setting, peer: str, worker: Worker, result: Result) -> None:
    ours = {"precision": setting.precision, "deterministic": setting.deterministic}
    options = ours if peer == OURS else {"precision": "float32", "deterministic": False}
    answer = worker.ask(prepare=work.name, threads=setting.threads, **options)
    result.values[peer], result.first[peer], result.memory[peer] = (
        answer[name] for name in ("values", "first", "memory")
    )
    if peer == OURS:
        result.arena = answer["arena"]
    result.seconds[peer] = []


def _steps(worker: Worker, setting: Setting, repeat: int) -> int:
    """How many steps a turn has, where each is `repeat` ones that are timed together."""
    return turn_steps(setting, repeat * min(worker.ask(run=3)["seconds"]))


def turn_steps(setting: Setting, one: float) -> int:
    """How many steps a turn has that take `one` second each: more than asked for if short, fewer if long."""
    return max(1, min(max(setting.steps, math.ceil(SHORTEST / one)), int(setting.seconds / one)))


def table(result: Result) -> str:
    """The result as lines: our ratio to the best peer and the floor, then each framework."""
    ratio, spread, gap, held = result.ratio(), result.ratio_spread(), result.gap(), result.memory_ratio()
    parts = [f"{result.work}: no peer"]
    if ratio is not None and spread is not None:
        parts = [f"{result.work}: {ratio:.2f} ({spread[0]:.2f} .. {spread[1]:.2f}) of {result.best_peer()}"]
    if gap is not None:
        machine = f"{result.machine.flops / 1e9:.0f} GFLOP/s, {result.machine.bandwidth / 1e9:.1f} GB/s"
        parts.append(f"{gap:.2f} x the floor of {1e3 * result.floor():.3g} ms at {machine}")
    if held is not None:
        parts.append(f"{held:.2f} of the memory of the best peer")
    lines = [", ".join(parts) + ("" if result.agree() else "  VALUES DIFFER")]
    for peer, seconds in result.seconds.items():
        low, middle, high = (f"{1e3 * value:.4g}" for value in _quartiles(seconds))
        arena = f", arena {result.arena / 1e6:.1f} MB" if peer == OURS else ""
        precision = f" in {result.precision}" if peer == OURS and result.precision != "float32" else ""
        lines.append(
            f"  {peer:<16} {middle} ms ({low} .. {high}){precision}, first three steps {result.first[peer]:.2f} s, "
            f"peak {result.memory[peer] / 1e6:.1f} MB{arena}, value {result.values[peer][-1]:.6g}"
        )
    lines += [f"  {peer:<16} failed: {why}" for peer, why in result.failures.items()]
    return "\n".join(lines)


def _quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    if len(seconds) < 2:
        return (seconds[0],) * 3 if seconds else (math.nan,) * 3
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, middle, high
