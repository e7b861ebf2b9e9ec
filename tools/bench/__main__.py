"""The command line: `python -m bench [--peers torch,jax,tensorflow] [--work mlp,cnn,...] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from bench.comparison import compare, table
from bench.works import WORKS
from measure.environments import kept_environment

REQUIREMENTS = {"torch": ("torch", "numpy"), "jax": ("jax", "numpy"), "tensorflow": ("tensorflow-cpu", "numpy")}


def interpreters(peers: list[str]) -> dict[str, str]:
    """For Headrace this interpreter; for each peer that of an environment of its own, made on first use."""
    found = {"headrace": sys.executable}
    for peer in peers:
        given = os.environ.get(f"BENCH_PYTHON_{peer.upper()}")
        found[peer] = given or str(kept_environment(f"bench-{peer}", *REQUIREMENTS[peer]))
    return found


def main(arguments: list[str]) -> int:
    """Compare and print; return 1 if a framework failed or losses differ."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description="Compare with other frameworks")
    parser.add_argument("--peers", default="torch,jax,tensorflow", help="comma-separated, or empty for none")
    parser.add_argument("--work", default=",".join(WORKS), help="comma-separated")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--gigaflops", type=float, help="what the machine peaks at, for the floor")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    chosen = parser.parse_args(arguments)
    pythons = interpreters([peer for peer in chosen.peers.split(",") if peer])
    env = {**os.environ, "OMP_NUM_THREADS": str(chosen.threads)}
    results = []
    for work in chosen.work.split(","):
        results.append(compare(work, pythons, env, chosen.threads, chosen.rounds, chosen.steps))
        print(table(results[-1:], chosen.gigaflops), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps([result.as_json() for result in results], indent=2) + "\n")
    return int(any(result.failures or not result.agree() for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
