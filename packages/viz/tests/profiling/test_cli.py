"""`headrace profile`: merging the profiles of several processes, and the table."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import headrace, main
from headrace_viz.profiling.clock import ProcessClock, wall_offsets
from headrace_viz.profiling.xspace import read_xspace, to_xspace

from .timelines import step, timeline

CHILD = """
import sys
import numpy as np
import headrace as hr
import headrace_viz

with hr.Graph().as_default() as graph:
    x = hr.placeholder(hr.float32, [8, 8])
    y = hr.matmul(x, x)
run = hr.Session(graph).make_callable(y, [x])
value = np.ones((8, 8), np.float32)
run(value)
with headrace_viz.profile(sys.argv[1], session="together"):
    for line in sys.stdin:
        run(value)
        print("done", flush=True)
"""


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(headrace, ["profile", *arguments])
    return result.exit_code, result.output


def _write(path: Path, process: int) -> Path:
    path.write_bytes(to_xspace(timeline(step(1, 1_000_100), process=process)).SerializeToString())
    return path


def test_top_shows_the_table(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.xplane.pb", 1)
    code, text = _run("top", str(path))
    assert code == 0
    assert "MatMul" in text
    code, text = _run("top", "--by", "name", "--limit", "1", "--json", str(tmp_path), str(path))
    found = json.loads(text)
    assert [row["name"] for row in found["rows"]] == ["layer/product"]
    assert found["totals"]["steps"] == 1


def test_merge_writes_one_trace(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for process in (1, 2):
        _write(tmp_path / "in" / f"{process}.xplane.pb", process)
    output = tmp_path / "all.json"
    code, text = _run("merge", str(tmp_path / "in"), "-o", str(output))
    assert code == 0
    assert "here process 2: 1 steps on 2 threads" in text
    assert json.loads(output.read_bytes())["otherData"]["processes"] == ["here process 1", "here process 2"]
    code, text = _run("merge", str(tmp_path / "in"), "-o", str(output), "--json")
    assert json.loads(text)["output"] == str(output)


def test_help_and_wrong_usage() -> None:
    assert _run("--help")[0] == 0
    assert "merge" in _run("--help")[1]
    assert _run("top", "--help")[0] == 0
    assert _run("top")[0] == 2
    assert _run("top", "/no/such/file")[0] == 2


def test_failures_end_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(["profile", "top", str(tmp_path)])
    assert "there is no profile in this folder" in capsys.readouterr().err
    (tmp_path / "x.xplane.pb").write_bytes(b"\xff\xff")
    with pytest.raises(SystemExit, match="1"):
        main(["profile", "merge", str(tmp_path)])
    assert "damaged" in capsys.readouterr().err


@pytest.mark.cluster
def test_the_steps_of_three_processes_merge_in_the_order_in_which_they_ran(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    try:
        for _ in range(4):
            for process in processes:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                assert process.stdout.readline() == "done\n"
    finally:
        for process in processes:
            process.communicate(timeout=60)
    output = tmp_path / "merged.json"
    assert _run("merge", str(tmp_path), "-o", str(output))[0] == 0
    trace = json.loads(output.read_bytes())["traceEvents"]
    events = [event for event in trace if event.get("cat") == "step"]
    assert len(events) == 12
    rows = {event["args"]["name"]: event["pid"] for event in trace if event["name"] == "process_name"}
    order = [next(pid for name, pid in rows.items() if name.endswith(f" {process.pid}")) for process in processes]
    events.sort(key=lambda event: event["ts"])
    assert [event["pid"] for event in events] == order * 4
    # A step began after the one before it had ended: the message in between went through this process.
    gaps = [later["ts"] - (earlier["ts"] + earlier["dur"]) for earlier, later in itertools.pairwise(events)]
    assert min(gaps) >= 0
    # The same within a millisecond by the wall clock alone, as for processes that do not share a steady clock.
    clocks = [read_xspace(path).clock for path in (tmp_path / "plugins/profile/together").glob("*.xplane.pb")]
    offsets = wall_offsets([ProcessClock("", clock.pairs) for clock in clocks])
    assert max(offsets) - min(offsets) < 1_000_000
