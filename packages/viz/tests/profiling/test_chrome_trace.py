"""The trace for Perfetto and chrome://tracing."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headrace_viz.profiling import chrome_trace
from headrace_viz.profiling.chrome_trace import write_chrome_trace
from headrace_viz.profiling.timeline import Timeline

from .timelines import GROUP, OPS, divided_step, step, timeline


def _events(trace: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("cat") == kind]


def _written(folder: Path, *timelines: Timeline) -> dict[str, Any]:
    write_chrome_trace(folder / "trace.json", timelines)
    trace: dict[str, Any] = json.loads((folder / "trace.json").read_bytes())
    return trace


def test_steps_operations_stalls_and_memory_are_there(tmp_path: Path) -> None:
    found = timeline(step(1, 1_000_100), step(2, 1_000_300, called_ns=1_000_250, error="ShapeError"))
    trace = _written(tmp_path, found)
    assert [(event["name"], event["ts"], event["dur"]) for event in _events(trace, "step")] == [
        ("step 1", 0.1, 0.1),
        ("step 2", 0.3, 0.1),
    ]
    product = _events(trace, "operation")[0]
    assert (product["name"], product["ts"], product["dur"], product["tid"]) == ("MatMul", 0.11, 0.06, 11)
    assert product["args"] == {
        "step": 1,
        "name": "layer/product",
        "device": "CPU:0",
        "kernel": "kernels.matmul",
        "input bytes": 400,
        "output bytes": 100,
        "floating-point operations": 2000,
    }
    assert "input bytes" not in _events(trace, "operation")[1]["args"]
    assert [(event["ts"], event["dur"]) for event in _events(trace, "stall")] == [(0.2, 0.05)]
    assert [(event["ts"], event["dur"]) for event in _events(trace, "prepare")] == [(0.25, 0.05)]
    assert _events(trace, "step")[1]["args"]["error"] == "ShapeError"
    counters = [(event["name"], event["args"]["bytes"]) for event in trace["traceEvents"] if event["ph"] == "C"]
    assert counters[:3] == [("resident memory", 5_000_000), ("resident memory", 7_000_000), ("arenas", 128)]


def test_other_devices_are_groups_of_their_own_with_queues_and_arrows(tmp_path: Path) -> None:
    first, second = timeline(divided_step(1, 1_000_100), process=1), timeline(divided_step(1, 1_000_100), process=2)
    trace = _written(tmp_path, first, second)
    groups = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert groups == {1: "here process 1", 2: "here process 2", 3: "here process 1 GPU:1", 4: "here process 2 GPU:1"}
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert rows[1, 11] == "MainThread"
    assert rows[3, 12] == "worker"
    assert [(e["name"], e["pid"], e["tid"]) for e in _events(trace, "operation")][:2] == [
        ("MatMul", 1, 11),
        ("AddV2", 3, 12),
    ]
    (segment, _), (wait, _) = _events(trace, "segment"), _events(trace, "wait")
    assert (segment["name"], segment["pid"], segment["args"]["bytes in"]) == ("MatMul 'layer/product'", 1, 64)
    assert (wait["pid"], wait["tid"], wait["args"]["iteration"], wait["args"]["ns in queue"]) == (3, 12, "1:2", 5)
    begin, end = _events(trace, "queue")[:2]
    assert (begin["ph"], end["ph"], begin["id"] == end["id"], begin["pid"]) == ("b", "e", True, 3)
    assert end["ts"] - begin["ts"] == pytest.approx(0.005)
    begin, end, start, finish, lone, _ = _events(trace, "transfer")[:6]
    assert (begin["ph"], end["ph"], begin["pid"], begin["args"]["bytes"]) == ("b", "e", 3, 400)
    assert (begin["args"]["from"], begin["args"]["to"]) == ("CPU:0", "GPU:1")
    assert (start["ph"], start["pid"], start["tid"], start["ts"]) == ("s", 1, 11, pytest.approx(0.16))
    assert (finish["ph"], finish["pid"], finish["tid"], finish["ts"]) == ("f", 3, 12, pytest.approx(0.171))
    assert (lone["ph"], lone["name"], lone["pid"]) == ("b", "elsewhere:0", 1)
    identities = [e["id"] for e in trace["traceEvents"] if e["ph"] in ("b", "s")]
    assert len(identities) == len(set(identities)) == 8


def test_processes_are_brought_onto_one_axis(tmp_path: Path) -> None:
    first = timeline(step(1, 1_000_100), process=1, wall_ns=5_000_000, identity="a")
    second = timeline(step(1, 1_000_100), process=1, wall_ns=5_000_700, identity="b")
    trace = _written(tmp_path, first, second)
    assert [(event["pid"], event["ts"]) for event in _events(trace, "step")] == [(1, 0.1), (2, 0.8)]
    assert trace["otherData"]["start_ns"] == str(6_000_000)
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert names == ["here process 1", "here process 1 GPU:1"] * 2


def test_files_are_compressed_by_their_name_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz"):
        write_chrome_trace(tmp_path / name, [timeline(step(1, 1_000_100))])
    plain = json.loads((tmp_path / "a.json").read_bytes())
    assert json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes())) == plain
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.json.gz"]


def test_many_events_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = timeline(step(1, 1_000_100), step(2, 1_000_300))
    whole = _written(tmp_path, found, found)
    monkeypatch.setattr(chrome_trace, "_EVENTS_PER_PIECE", 3)
    assert _written(tmp_path, found, found) == whole


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "trace.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_chrome_trace(tmp_path / "trace.json", [timeline()])
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_a_group_names_its_members(tmp_path: Path) -> None:
    found = dataclasses.replace(timeline(step(1, 1_000_100)), ops=(GROUP, *OPS[1:]))
    group, alone = _events(_written(tmp_path, found), "operation")
    assert (group["name"], group["args"]["operations"]) == (GROUP.type, list(GROUP.members))
    assert "operations" not in alone["args"]
