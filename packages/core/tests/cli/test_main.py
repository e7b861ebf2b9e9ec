"""The command line: what it prints and how it ends."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.cli.inspect import _folder_hint
from headrace.cli.main import headrace, main


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(headrace, list(arguments))
    return result.exit_code, result.output


def test_help_lists_the_commands() -> None:
    code, text = _run("--help")
    assert code == 0
    for command in ("devices", "inspect", "ops"):
        assert command in text
    assert _run("-h")[0] == 0
    assert _run("ops", "--help")[0] == 0


def test_devices_lists_the_one_of_numpy() -> None:
    assert "CPU:0" in _run("devices")[1]
    found = json.loads(_run("devices", "--json")[1])
    assert any({"device": "CPU:0", "backend": "numpy"}.items() <= item.items() for item in found)


def test_devices_shows_virtual_ones_on_request() -> None:
    found = json.loads(_run("devices", "--json", "--virtual", "CPU", "3")[1])
    assert [item["device"] for item in found if item["backend"] == "numpy"] == ["CPU:0", "CPU:1", "CPU:2"]
    assert _run("devices", "--virtual", "CPU", "0")[0] != 0


def test_ops_lists_all_and_shows_one() -> None:
    code, text = _run("ops")
    assert code == 0
    assert any(line.startswith("MatMul ") for line in text.splitlines())
    page = _run("ops", "ReadVariableOp")[1]
    assert page.startswith("ReadVariableOp(resource: resource) -> (value: dtype)")
    assert "gradient: yes" in page
    assert "stateful" in page
    assert "gradient: none: " in _run("ops", "NoOp")[1]
    facts = json.loads(_run("ops", "Identity", "--json")[1])
    assert facts[0]["name"] == "Identity"


def test_inspect_describes_a_graph(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        hr.add(hr.placeholder(hr.float32, [None, 2], name="x"), 1.0)
    path = tmp_path / "graph.pb"
    hr.export_graph_def(graph, path)
    code, text = _run("inspect", str(path), "--operations")
    assert code == 0
    assert "a graph of 3 operations of 3 types" in text
    assert "x: float32[?, 2]" in text
    assert "AddV2: float32[?, 2] = AddV2(x, Const)" in text


def test_usage_errors_end_with_2_and_failures_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("nope")[0] == 2
    assert _run("inspect", str(tmp_path / "missing"))[0] == 2
    code, text = _run("cluster")
    assert code == 2
    assert "pip install headrace-distributed" in text
    damaged = tmp_path / "damaged.pb"
    damaged.write_bytes(b"\x0a\xff\xff")
    for arguments in (["ops", "Matmul"], ["inspect", str(damaged)]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 1
        assert capsys.readouterr().err.startswith("error: ")


def test_a_folder_is_not_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="^1$"):
        main(["inspect", str(tmp_path)])
    assert "is not a graph file" in capsys.readouterr().err


def test_a_command_that_is_misspelt_is_told_the_close_ones() -> None:
    code, text = _run("inspet", "x")
    assert code == 2
    assert "No such command 'inspet'; one of the known names; close ones: inspect" in text


def test_a_folder_of_another_kind_is_not_inspected_but_what_is_in_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(hr.errors.InvalidArgumentError, match="got: +a folder"):
        CliRunner().invoke(headrace, ["inspect", str(tmp_path)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("packages", "names", "advice"),
    [
        ((), [], "pip install headrace-checkpoint"),
        (("one",), [], "it is empty"),
        (("one",), ["b", "a"], "look into one of: .*a, .*b$"),
    ],
)
def test_advice_on_a_folder(
    packages: tuple[str, ...], names: list[str], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda group: packages)
    for name in names:
        (tmp_path / name).mkdir()
    assert re.match(advice, _folder_hint(tmp_path))


def test_the_kernel_for_all_dtypes_that_no_other_takes_says_so() -> None:
    page = _run("ops", "MatMul")[1]  # tests may have registered further kernels
    assert re.search(r"every device for T in float16, bfloat16; every device for other dtypes$", page, re.M)
    assert re.search(r"kernels:  every device$", _run("ops", "Abs")[1], re.M)


def test_kernels_of_one_operation_are_told_apart() -> None:
    kernels = json.loads(_run("ops", "MatMul", "--json")[1])[0]["kernels"]
    assert len(set(kernels)) == len(kernels)
