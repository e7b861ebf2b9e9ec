"""What `headrace inspect` shows."""

from __future__ import annotations

import re
import struct
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli.inspect import inspect
from headrace.errors import DataLossError
from headrace_checkpoint.inspection import inspect_path
from headrace_checkpoint.safetensors import save_safetensors
from headrace_checkpoint.saved_model import save_model
from headrace_checkpoint.store import write_step
from headrace_checkpoint.tensor_bundle import ArraySlice, save_bundle

ARRAYS = {"layer/w": np.ones((784, 10), np.float32), "s": np.array([b"a"], object)}


def test_a_directory_and_a_step(tmp_path: Path) -> None:
    write_step(tmp_path, 1, ARRAYS, time=0.0)
    path = write_step(tmp_path, 20, ARRAYS, time=1e9, metrics={"loss": 0.25}, objects={"epoch": 3})
    lines = inspect_path(tmp_path)
    assert lines is not None
    assert lines[0] == f"checkpoint directory {tmp_path}"
    assert lines[1].startswith("  step-00000001  1970-01-01 00:00:00 UTC  2 tensors  ")
    assert lines[2].endswith("loss=0.25")
    lines = inspect_path(path)
    assert lines is not None
    assert lines[0] == f"checkpoint {path}: step 20, saved 2001-09-09 01:46:40 UTC"
    assert lines[1:3] == ["  metric loss = 0.25", "  object epoch = 3"]
    assert lines[3].startswith("  layer/w  float32[784, 10]  31,360 bytes  ")
    assert lines[4].startswith("  s        string[1]              1 bytes  ")


def test_a_safetensors_file(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "f.safetensors", {"w": np.ones(2)}, {"note": "hello"})
    lines = inspect_path(tmp_path / "f.safetensors")
    assert lines is not None
    assert lines[0] == f"safetensors file {tmp_path / 'f.safetensors'}: 1 tensors"
    assert lines[1] == "  metadata note = hello"
    assert lines[2].startswith("  w  float64[2]  16 bytes  ")


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001"])
def test_a_tensorflow_checkpoint_by_prefix_or_file(tmp_path: Path, ending: str) -> None:
    save_bundle(tmp_path / "m", {"w": np.ones(2)}, {"t": [ArraySlice((2,), (0,), np.ones(2))]})
    lines = inspect_path(str(tmp_path / "m") + ending)
    assert lines is not None
    assert lines[0] == f"TensorFlow checkpoint {tmp_path / 'm'}: 2 tensors"
    assert lines[1] == "  1 shards"
    assert lines[2] == "  t  float64[2]  16 bytes  1 slices"


def test_a_saved_model(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        y = hr.multiply(x, hr.Variable(np.ones(2, np.float32), name="w"), name="y")
    with hr.Session(graph) as session:
        save_model(tmp_path / "m", session, {"serving_default": hr.Signature({"x": x}, {"y": y})})
    lines = inspect_path(tmp_path / "m")
    assert lines is not None
    assert lines[0].startswith(f"saved model {tmp_path / 'm'}: ")
    assert lines[1:4] == [
        "  signature serving_default",
        "    in  x: float32[?, 2] (x:0)",
        "    out y: float32[?, 2] (y:0)",
    ]
    assert lines[4].startswith("  TensorFlow checkpoint ")


def test_of_the_arguments_of_functions_the_first_are_shown(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [], name="x")
        y = hr.while_loop(lambda *s: s[0] < 9.0, lambda *s: (s[0] + 1.0, *s[1:]), (x, x, x, x, x), name="loop")[0]
    with hr.Session(graph) as session:
        save_model(tmp_path / "m", session, {"serving_default": hr.Signature({"x": x}, {"y": y})})
    functions = [line for line in inspect_path(tmp_path / "m") or () if line.startswith("  function ")]
    few = r"\((\w+: float32, ){3}2 more\)"
    for results in (r"\(\w+: bool\)", few):  # the condition and the body
        assert any(re.search(f"{few} -> {results}$", line) for line in functions), functions


def test_a_damaged_tensor_is_marked(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "f.safetensors", {"a": np.ones(2), "b": np.ones(2)})
    data = bytearray((tmp_path / "f.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "f.safetensors").write_bytes(data)
    lines = inspect_path(tmp_path / "f.safetensors")
    assert lines is not None
    assert [line.endswith("  DAMAGED") for line in lines] == [False, False, True]


def test_other_things_are_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "graph.pb").write_bytes(b"")
    assert inspect_path(tmp_path) is None
    assert inspect_path(tmp_path / "graph.pb") is None
    assert inspect_path(tmp_path / "absent") is None


def test_damage_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f.safetensors").write_bytes(b"x")
    with pytest.raises(DataLossError, match="not a valid safetensors file"):
        inspect_path(tmp_path / "f.safetensors")


def test_the_command_line_finds_it() -> None:
    (entry,) = metadata.entry_points(group="headrace.inspectors", name="checkpoint")
    assert entry.load() is inspect_path


def test_what_moves_a_cursor_or_is_no_text_is_shown_as_its_code(tmp_path: Path) -> None:
    """Names come from files of others; the first was run by terminals, the second ended the program."""
    entry = '{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    text = '{"a\\u001b[2J\\nb":' + entry % (0, 1) + ',"\\ud800":' + entry % (1, 2) + "}"
    path = tmp_path / "f.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + b"xy")
    lines = inspect_path(path)
    assert lines is not None
    assert [line.split()[0] for line in lines[1:]] == ["a\\x1b[2J\\nb", "\\ud800"]


@pytest.mark.parametrize("moment", [1e300, float("nan"), float("inf"), -1e14])
def test_a_time_that_no_calendar_has(tmp_path: Path, moment: float) -> None:
    path = write_step(tmp_path, 1, ARRAYS, time=moment)
    for place in (tmp_path, path):
        assert "at no time" in "\n".join(inspect_path(place) or ())


def test_the_command_takes_the_prefix_of_a_tensorflow_checkpoint(tmp_path: Path) -> None:
    """There is no file of that name; the command refused it before anybody looked."""
    save_bundle(tmp_path / "model.ckpt-1", ARRAYS)
    done = CliRunner().invoke(inspect, [str(tmp_path / "model.ckpt-1")])
    assert (done.exit_code, done.output.partition(":")[0]) == (0, f"TensorFlow checkpoint {tmp_path}/model.ckpt-1")
    done = CliRunner().invoke(inspect, [str(tmp_path / "model.ckpt-2")])
    assert (done.exit_code, "does not exist" in done.output) == (2, True)
