"""`headrace report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import headrace, main
from headrace_viz import EventWriter


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(headrace, ["report", *arguments])
    return result.exit_code, result.output


def _write(run: Path) -> Path:
    with EventWriter(run) as writer:
        writer.scalar("loss", 0.5, 1)
        writer.scalar("loss", 0.25, 2)
    return run


def test_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, text = _run(str(_write(tmp_path / "one")), str(_write(tmp_path / "two")), "-o", str(page), "--title", "Both")
    assert code == 0
    assert text.splitlines() == [f"wrote {page} about 2 runs: one, two"]
    assert "<h1>Both</h1>" in page.read_text(encoding="utf-8")
    assert json.loads(_run(str(tmp_path / "one"), "-o", str(page), "--json")[1]) == {
        "output": str(page),
        "runs": ["one"],
        "plots": [],
    }


def test_plots_are_written_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, text = _run(
        str(_write(tmp_path / "one")), "-o", str(tmp_path / "page.html"), "--png", str(tmp_path / "plots")
    )
    assert code == 0
    assert "wrote 1 plots" in text
    assert (tmp_path / "plots" / "loss.png").exists()


def test_damage_is_told_on_the_error_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = _write(tmp_path / "one").iterdir()
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    headrace.main(["report", str(tmp_path / "one"), "-o", str(tmp_path / "page.html")], standalone_mode=False)
    assert "damaged, passed over: one: " in capsys.readouterr().err


def test_failures_and_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--help")[0] == 0
    assert _run()[0] == 2
    assert _run(str(tmp_path / "missing"))[0] == 2
    with pytest.raises(SystemExit, match="1"):
        main(["report", str(tmp_path), "-o", str(tmp_path / "page.html")])
    assert "there are no event files" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
