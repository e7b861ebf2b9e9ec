"""The XSpace: what is written comes back, it has the form that TensorBoard expects, and bad files are refused."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DataLossError, HeadraceError, InvalidArgumentError
from headrace_viz.profiling.timeline import Timeline
from headrace_viz.profiling.xspace import read_xspace, to_xspace
from headrace_viz.proto.xspace_pb2 import XSpace, XStat

from .timelines import GROUP, OPS, divided_step, step, timeline


def _written(path: Path, found: Timeline) -> Path:
    path.write_bytes(to_xspace(found).SerializeToString())
    return path


def test_a_timeline_comes_back_as_it_was(tmp_path: Path) -> None:
    first = step(1, 1_000_100, called_ns=1_000_050)
    found = timeline(first, step(2, 1_000_300, thread=12, error="ShapeError"), skipped=3)
    back = read_xspace(_written(tmp_path / "a.xplane.pb", found))
    assert (back.steps[0].called_ns, back.steps[1].error, back.skipped_steps) == (1_000_050, "ShapeError", 3)
    # Only operations that ran are written, those of one device after those of another.
    assert back.ops == found.ops[:2]
    assert back.steps == found.steps
    assert (back.memory, back.threads, back.clock, back.ceilings) == (
        found.memory,
        found.threads,
        found.clock,
        found.ceilings,
    )


def test_segments_and_transfers_come_back_as_they_were(tmp_path: Path) -> None:
    found = timeline(divided_step(1, 1_000_100), divided_step(2, 1_000_300), step(3, 1_000_500))
    assert read_xspace(_written(tmp_path / "a.xplane.pb", found)).steps == found.steps


def test_a_group_comes_back_with_its_members(tmp_path: Path) -> None:
    found = dataclasses.replace(timeline(step(1, 1_000_100)), ops=(GROUP, dataclasses.replace(OPS[1], waits=True)))
    assert read_xspace(_written(tmp_path / "a.xplane.pb", found)).ops == found.ops
    names = {metadata.name for metadata in to_xspace(found).planes[0].event_metadata.values()}
    assert "layer/product:MatMul_AddV2_Tanh_1_more" in names  # a type as TensorBoard's table of operations takes it


def test_what_waits_and_what_is_received_have_lines_of_their_own() -> None:
    _, gpu, _ = to_xspace(timeline(divided_step(1, 1_000_100))).planes
    lines = {line.name: line for line in gpu.lines}
    assert set(lines) == {"worker", "queue", "transfers"}
    names = {name: [gpu.event_metadata[e.metadata_id].name for e in line.events] for name, line in lines.items()}
    assert names == {
        "worker": ["sum:AddV2", "AddV2 'sum'"],
        "queue": ["AddV2 'sum' waits"],
        "transfers": ["layer/product:0 from CPU:0"],
    }
    (moved,) = lines["transfers"].events
    stats = {gpu.stat_metadata[stat.metadata_id].name: stat.int64_value for stat in moved.stats}
    assert (stats["bytes"], stats["waited_ns"], moved.duration_ps) == (400, 2, 12_000)


def test_planes_are_devices_and_lines_are_threads_on_the_wall_clock() -> None:
    wall = 1_700_000_000_000_000_000
    space = to_xspace(timeline(step(7, 1_000_100), wall_ns=wall))
    assert [plane.name for plane in space.planes] == ["/host:CPU", "/device:GPU:1", "/headrace:process"]
    assert list(space.hostnames) == ["here"]
    host, gpu, _ = space.planes
    (line,) = host.lines
    assert (line.id, line.name, line.timestamp_ns) == (11, "MainThread", wall + 1_000_000)
    names = [host.event_metadata[event.metadata_id].name for event in line.events]
    assert names == ["Step", "layer/product:MatMul"]
    assert [(event.offset_ps, event.duration_ps) for event in line.events] == [(100_000, 100_000), (110_000, 60_000)]
    stats = {host.stat_metadata[stat.metadata_id].name: stat for stat in line.events[0].stats}
    assert (stats["step_num"].int64_value, stats["_r"].int64_value) == (7, 1)
    assert gpu.lines[0].timestamp_ns == line.timestamp_ns
    assert [gpu.event_metadata[event.metadata_id].name for event in gpu.lines[0].events] == ["sum:AddV2"]


def test_devices_that_tensorboard_does_not_know_are_planes_that_it_shows(tmp_path: Path) -> None:
    found = timeline(divided_step(1, 1_000_100))
    product, total, read = found.ops
    found = dataclasses.replace(found, ops=(product, dataclasses.replace(total, device="CPU:1"), read))
    assert [plane.name for plane in to_xspace(found).planes][:2] == ["/host:CPU", "/device:CUSTOM:CPU:1"]
    assert read_xspace(_written(tmp_path / "a.xplane.pb", found)).ops[1].device == "CPU:1"


def test_profiles_of_others_are_refused(tmp_path: Path) -> None:
    space = XSpace()
    space.planes.add(name="/host:CPU")
    (tmp_path / "other.xplane.pb").write_bytes(space.SerializeToString())
    with pytest.raises(InvalidArgumentError, match=r"no profile of Headrace(.|\n)*got: +planes /host:CPU"):
        read_xspace(tmp_path / "other.xplane.pb")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.xplane.pb", timeline(step(1, 1_000_100)))
    path.write_bytes(b"\xff" + path.read_bytes())
    with pytest.raises(DataLossError, match=r"damaged(.|\n)*copy the file again"):
        read_xspace(path)


@pytest.mark.parametrize("facts", ["{", '{"format":1}', '{"format":1,"start_ns":"x"}'])
def test_damaged_facts_are_refused(tmp_path: Path, facts: str) -> None:
    space = to_xspace(timeline(step(1, 1_000_100)))
    space.planes[-1].stats[0].str_value = facts
    (tmp_path / "a.xplane.pb").write_bytes(space.SerializeToString())
    with pytest.raises(DataLossError, match="damaged"):
        read_xspace(tmp_path / "a.xplane.pb")


@settings(deadline=None)
@given(place=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.booleans())
def test_no_change_of_a_byte_makes_the_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, cut: bool
) -> None:
    data = bytearray(to_xspace(timeline(divided_step(1, 1_000_100))).SerializeToString())
    data[place % len(data)] = value
    path = tmp_path_factory.mktemp("fuzz") / "a.xplane.pb"
    path.write_bytes(data[: place % len(data)] if cut else data)
    with contextlib.suppress(HeadraceError):
        read_xspace(path)


def test_a_number_in_place_of_a_text_is_damage(tmp_path: Path) -> None:
    for wanted, wrong in (("argument_bytes", {"str_value": "x"}), ("backend", {"int64_value": 1})):
        space = to_xspace(timeline(step(1, 1_000_100)))
        host = space.planes[0]
        number = next(number for number, found in host.stat_metadata.items() if found.name == wanted)
        for line in host.lines:
            for event in line.events:
                for stat in event.stats:
                    if stat.metadata_id == number:
                        stat.CopyFrom(XStat(metadata_id=number, **wrong))
        path = tmp_path / "a.xplane.pb"
        path.write_bytes(space.SerializeToString())
        with pytest.raises(DataLossError, match=f"a profile is damaged\n(.*\n)*.*of {wanted}"):
            read_xspace(path)
