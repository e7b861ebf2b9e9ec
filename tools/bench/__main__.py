"""The command line: `python -m bench [--peers torch,jax,tensorflow,onnxruntime] [--work mlp,cnn,...] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from bench.chart import draw
from bench.comparison import Result, Setting, compare, table
from bench.environments import PEERS, interpreters
from bench.works import WORKS, chosen_works


def main(arguments: list[str]) -> int:
    """Compare and print; return 1 if a framework failed that should not, or values differ."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description="Compare with other frameworks")
    parser.add_argument(
        "--peers",
        default=",".join(PEERS),
        help="comma-separated, or empty for none; also torch-compile, tensorflow-xla",
    )
    parser.add_argument("--work", default=",".join(WORKS), help="comma-separated; softmax is all sizes of softmax")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5, help="how often the frameworks take turns")
    parser.add_argument(
        "--steps",
        type=int,
        default=10,
        help="of one turn: more if they take less than 0.2 s, fewer if more than --seconds",
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="how long a turn may take; one step always runs")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of Headrace")
    parser.add_argument("--deterministic", action="store_true", help="Headrace gives the same bits for any threads")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--chart", type=Path, help="draw a PNG; by default beside the JSON file")
    chosen = parser.parse_args(arguments)
    works = chosen_works(chosen.work)
    setting = Setting(
        pythons=interpreters(peer for peer in chosen.peers.split(",") if peer),
        env={**os.environ, "OMP_NUM_THREADS": str(chosen.threads)},
        threads=chosen.threads,
        rounds=chosen.rounds,
        steps=chosen.steps,
        seconds=chosen.seconds,
        precision=chosen.precision,
        deterministic=chosen.deterministic,
    )
    results: list[Result] = []
    for work in works:
        results.append(compare(work, setting))
        print(table(results[-1]), flush=True)
        found = [result.as_json() for result in results]
        if chosen.json:  # after each, so that an interrupted run leaves what it found
            chosen.json.write_text(json.dumps(found, indent=2) + "\n")
    file = chosen.chart or (chosen.json and chosen.json.with_suffix(".png"))
    if file:
        draw([result.as_json() for result in results], file)
    return int(any(result.failures or not result.agree() for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
