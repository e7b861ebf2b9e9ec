"""`headrace checkpoint`: every command on files of every kind, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from headrace.errors import InvalidArgumentError, NotFoundError
from headrace_checkpoint.commands import checkpoint
from headrace_checkpoint.safetensors import load_safetensors, save_safetensors
from headrace_checkpoint.sources import open_source
from headrace_checkpoint.store import StoredStep, write_step

ARRAYS: dict[str, Any] = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "s": np.array([b"a", b"bc"], object),
    "n": np.array(3),
}


@pytest.fixture(autouse=True)
def _two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_step("ckpt", 1, ARRAYS, time=0.0)
    write_step("ckpt", 2, ARRAYS, time=0.0)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(checkpoint, arguments)


def _flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_verify_looks_at_every_step_and_fails_for_a_damaged_one() -> None:
    result = _run("verify", "ckpt")
    assert (result.exit_code, result.output.count("whole")) == (0, 2)
    assert "whole   ckpt/step-00000001: 3 tensors, 48 bytes" in result.output
    _flip_last_byte(Path("ckpt/step-00000001/shard-00000-of-00001.safetensors"))
    result = _run("verify", "ckpt", "--json")
    assert result.exit_code == 1
    assert [row["whole"] for row in json.loads(result.output)] == [False, True]
    assert "checksum does not match" in json.loads(result.output)[0]["detail"]
    result = _run("verify", "absent")
    assert (result.exit_code, "MISSING absent: there are no tensors here" in result.output) == (1, True)


def test_diff_says_what_differs() -> None:
    assert (_run("diff", "ckpt", "ckpt/step-00000001").output, _run("diff", "ckpt", "ckpt").exit_code) == (
        "no difference\n", 0
    )  # fmt: skip
    other = {"w": ARRAYS["w"].copy(), "s": np.array([b"a", b"x"], object), "n": np.array(3.0), "new": np.zeros(1)}
    other["w"][1, 2] += 0.5
    save_safetensors("other.safetensors", other)
    result = _run("diff", "ckpt", "other.safetensors", "--json")
    assert result.exit_code == 1
    assert [tuple(row.values()) for row in json.loads(result.output)] == [
        ("n", "type", "int64[] and float64[]"),
        ("new", "only in the second", "float64[1]"),
        ("s", "values", "1 of 2 elements"),
        ("w", "values", "1 of 6 elements, at most 0.5 apart"),
    ]
    assert _run("diff", "ckpt", "other.safetensors").output.endswith("4 tensors differ\n")


def test_diff_is_bit_for_bit() -> None:
    for name, values in (("a", [0.0, np.nan]), ("b", [-0.0, np.nan])):
        save_safetensors(f"{name}.safetensors", {"w": np.array(values)})
    assert _run("diff", "a.safetensors", "a.safetensors").exit_code == 0
    assert "equal numbers in other bits" in _run("diff", "a.safetensors", "b.safetensors").output


@pytest.mark.parametrize("target", ["m.safetensors", "m.safetensors.index.json", "m.npz", "m/ckpt-1", "m/ckpt-1.index"])
def test_convert_to_every_format_and_back(target: str) -> None:
    Path("m").mkdir()
    result = _run("convert", "ckpt", target.removesuffix(".index"), "--shard-bytes", "24")
    assert (result.exit_code, result.output) == (0, f"3 tensors written to {target.removesuffix('.index')}\n")
    assert _run("diff", "ckpt", target).output == "no difference\n"
    assert _run("convert", target, "back", "--format", "step", "--step", "9").exit_code == 0
    assert StoredStep("back/step-00000009").read("w").tolist() == ARRAYS["w"].tolist()


@pytest.mark.parametrize("command", [["convert", "ckpt", "m.xyz"], ["average", "ckpt", "--output", "m.xyz"]])
def test_a_name_that_asks_for_no_format_is_refused_before_anything_is_read(command: list[str]) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"no format of tensors has this ending[^$]*\.safetensors[^$]*m\.xyz"
    ):
        _fail(*command)
    assert not list(Path().glob("m*"))
    assert _run(*command, "--format", "npz").exit_code == 0
    assert sorted(np.load("m.xyz").files) == ["n", "s", "w"]


def test_convert_renames() -> None:
    assert _run("convert", "ckpt", "m.safetensors", "--rename", r"([ns])=scalar/\1", "--rename", "w=x").exit_code == 0
    assert sorted(load_safetensors("m.safetensors")) == ["scalar/n", "scalar/s", "x"]
    with pytest.raises(InvalidArgumentError, match="two tensors would have one name"):
        _fail("convert", "ckpt", "m.safetensors", "--rename", ".*=w")
    for wrong in ("w", "(=w"):
        with pytest.raises(InvalidArgumentError, match="a renaming is wrong"):
            _fail("convert", "ckpt", "m.safetensors", "--rename", wrong)


def _fail(*arguments: str) -> None:
    checkpoint.main(list(arguments), standalone_mode=False)


def test_average_of_floating_tensors() -> None:
    for number in (1, 2, 6):
        save_safetensors(f"{number}.safetensors", {**ARRAYS, "w": ARRAYS["w"] * number, "n": np.array(number)})
    files = [f"{number}.safetensors" for number in (1, 2, 6)]
    assert (
        _run("average", *files, "--output", "mean.safetensors").output == "average of 3 written to mean.safetensors\n"
    )
    mean = load_safetensors("mean.safetensors")
    np.testing.assert_array_equal(mean["w"], ARRAYS["w"] * 3, strict=True)
    assert (mean["n"], mean["s"].tolist()) == (6, [b"a", b"bc"])
    save_safetensors("other.safetensors", {"w": ARRAYS["w"]})
    with pytest.raises(InvalidArgumentError, match=r"have no average(.|\n)*expected: n: int64\[\](.|\n)*got: *none"):
        _fail("average", "1.safetensors", "other.safetensors", "--output", "mean.safetensors")


def test_what_is_no_file_of_tensors_is_named() -> None:
    with pytest.raises(NotFoundError, match="there are no tensors here"):
        _fail("diff", "absent", "ckpt")


def test_wrong_usage_ends_with_code_2() -> None:
    for arguments in (
        ("verify",),
        ("diff", "ckpt"),
        ("average", "ckpt"),
        ("convert", "ckpt", "x", "--format", "pickle"),
    ):
        assert _run(*arguments).exit_code == 2
    assert open_source("ckpt") is None
