"""The command `headrace events`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace.cli.main import main
from headrace.errors import NotFoundError
from headrace_viz import EventWriter, SummaryWriter
from headrace_viz.cli import events
from headrace_viz.reading import find_runs, read_run
from headrace_viz.records import frame, read_records


@pytest.fixture(name="logdir")
def _logdir(tmp_path: Path) -> Path:
    with EventWriter(tmp_path / "logs" / "train", purge_step=0) as writer:
        for step in range(4):
            writer.scalar("loss", step / 4, step)
    with EventWriter(tmp_path / "logs" / "train", purge_step=2) as writer:
        writer.scalar("loss", 9, 2)
    with SummaryWriter(tmp_path / "logs" / "other") as writer:
        writer.add_histogram("weights", [1, 2], 5)
        writer.add_text("note", "x", 5)
        writer.add_audio("tone", [0.0], 5)
    return tmp_path / "logs"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(events, list(map(str, arguments)))


def _damage(logdir: Path) -> Path:
    path = find_runs(logdir / "train")["."][0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return path


def test_help_of_each_command() -> None:
    for command in ([], ["ls"], ["cat"], ["merge"], ["verify"]):
        result = _run(*command, "--help")
        assert (result.exit_code, result.output.split()[0]) == (0, "Usage:")


def test_ls(logdir: Path) -> None:
    result = _run("ls", logdir)
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["run", "tag", "kind", "values", "first", "step", "last", "step"]
    assert ["train", "loss", "scalars", "3", "0", "2"] in lines
    rows = json.loads(_run("ls", logdir, "--json").output)
    assert {(row["run"], row["tag"], row["kind"], row["values"]) for row in rows} == {
        ("train", "loss", "scalars", 3),
        ("other", "weights", "histograms", 1),
        ("other", "note", "text", 1),
        ("other", "tone", "audio", 1),
    }


def test_cat_as_csv(logdir: Path) -> None:
    _, *rows = csv.reader(io.StringIO(_run("cat", logdir, "--csv").output))
    assert [(row[0], row[1], row[2], float(row[4])) for row in rows] == [
        ("train", "loss", "0", 0.0),
        ("train", "loss", "1", 0.25),
        ("train", "loss", "2", 9.0),
    ]


def test_cat_as_json_of_some_tags_and_runs(logdir: Path) -> None:
    lines = _run("cat", logdir, "--json", "--tag", "note", "--tag", "loss", "--run", "other").output.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["x"]


def test_cat_of_nothing_that_is_there_prints_no_table(logdir: Path) -> None:
    assert "run  " not in _run("cat", logdir, "--tag", "los").stdout
    assert "run  " in _run("cat", logdir, "--tag", "loss").stdout


def test_cat_names_the_tags_that_are_there(logdir: Path) -> None:
    result = _run("cat", logdir, "--tag", "los", "--tag", "note")
    assert isinstance(result.exception, NotFoundError)
    message = str(result.exception)
    assert re.search(r"no value has the tag 'los'\n(.*\n)*.*close ones: loss\n(.*\n)*.*events ls", message), message
    assert "note" in result.output  # those that are there are printed all the same
    for arguments in (("--csv", "--tag", "typo"), ("--json", "--run", "other", "--tag", "loss")):
        assert isinstance(_run("cat", logdir, *arguments).exception, NotFoundError)
    with pytest.raises(SystemExit, match="0"):
        main(["events", "cat", str(logdir), "--tag", "loss"])
    with pytest.raises(SystemExit, match="1"):
        main(["events", "cat", str(logdir), "--tag", "typo"])


def test_cat_names_the_runs_that_are_there(logdir: Path) -> None:
    result = _run("cat", logdir, "--run", "trian")
    assert re.search(r"there is no run 'trian'\n(.*\n)*.*close ones: train", str(result.exception))


def test_csv_says_what_it_leaves_out(logdir: Path) -> None:
    result = _run("cat", logdir, "--csv", "--tag", "note")
    assert (result.exit_code, "left out: 'note' has text, not scalars; --json" in result.output) == (0, True)


def test_cat_as_a_table(logdir: Path) -> None:
    output = _run("cat", logdir).output
    assert "train  loss     0     0\n" in output
    assert "histograms: [30, 3]" in output
    assert "audio: 1 files, 46 bytes" in output


def test_cat_in_two_formats_is_wrong_usage(logdir: Path) -> None:
    result = _run("cat", logdir, "--csv", "--json")
    assert (result.exit_code, "choose one" in result.output) == (2, True)


def test_a_path_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    assert _run("ls", tmp_path / "absent").exit_code == 2


def test_merge(logdir: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in logdir.rglob("*tfevents*")}
    result = _run("merge", logdir, logdir / "train", tmp_path / "merged", "--json")
    (path,) = find_runs(tmp_path / "merged")["."]
    assert json.loads(result.output) == {"file": str(path), "events": 9}
    values = read_run([path])
    assert [value.step for value in values] == [0, 0, 1, 1, 2, 2, 5, 5, 5]
    assert {value.kind for value in values} == {"scalars", "histograms", "text", "audio"}
    assert {path: path.read_bytes() for path in logdir.rglob("*tfevents*")} == before
    assert "9 events" in _run("merge", logdir, logdir / "train", tmp_path / "merged").output


def test_verify(logdir: Path) -> None:
    result = _run("verify", logdir)
    assert (result.exit_code, result.output.count(" whole events, good\n")) == (0, 3)
    path = _damage(logdir)
    result = _run("verify", logdir)
    assert result.exit_code == 1
    assert f"{path}: 6 whole events, damaged\n  event file has a damaged record" in result.output
    assert result.output.count(" good\n") == 2
    rows = json.loads(_run("verify", logdir, "--json").output)
    assert [len(row["damage"]) for row in rows if row["file"] == str(path)] == [1]


def test_verify_of_a_torn_file(logdir: Path) -> None:
    path = find_runs(logdir / "train")["."][0]
    path.write_bytes(path.read_bytes() + b"\x05")
    assert "ends inside a record" in _run("verify", logdir).output
    assert _run("verify", logdir).exit_code == 1
    assert _run("verify", logdir, "--torn-ok").exit_code == 0


def test_verify_of_a_file_of_other_records(tmp_path: Path) -> None:
    path = tmp_path / "some.tfevents"
    path.write_bytes(frame(b"\xff\xff"))
    assert list(read_records(path)) == [b"\xff\xff"]
    assert _run("verify", path).exit_code == 1


def test_damage_is_told_on_the_error_output(logdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(logdir)
    events.main(["cat", str(logdir), "--csv", "--run", "train"], standalone_mode=False)
    output = capsys.readouterr()
    assert "warning: event file has a damaged record" in output.err
    assert "warning" not in output.out


def test_the_command_is_found_by_headrace() -> None:
    from importlib import metadata

    (entry,) = metadata.entry_points(group="headrace.commands", name="events")
    assert entry.load() is events
