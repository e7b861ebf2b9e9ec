"""The page: complete, alone, and sensible for runs of every kind."""

from __future__ import annotations

import html.parser
import math
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace_viz import EventWriter, SummaryWriter
from headrace_viz.profiling.xspace import to_xspace
from headrace_viz.report import Run, load_runs, report_page
from headrace_viz.report.runs import Curve, Histogram

from ..profiling.timelines import step, timeline

BROWSER = os.environ.get("HEADRACE_BROWSER", "")
VOID = {"meta", "input", "line"}


class _Reader(html.parser.HTMLParser):
    """Collects elements, and whether each is closed in its place."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def _read(*folders: Path, title: str = "") -> tuple[_Reader, str]:
    page = report_page(load_runs(folders), title=title, made_at=1_700_000_000.0)
    reader = _Reader(page)
    assert reader.open == []
    return reader, " ".join(" ".join(reader.text).split())


def _full_run(folder: Path) -> Path:
    with hr.Graph().as_default() as graph:
        hr.Variable(hr.zeros([3, 4]), name="w")
    with EventWriter(folder) as events:
        events.graph(graph)
    with SummaryWriter(str(folder)) as writer:
        for number in range(10):
            writer.add_scalar("loss", math.exp(-number), number)
            writer.add_histogram("weights", np.arange(10.0) * number, number)
        writer.add_text("note", "<b>bold</b>", 0)
    profile = folder / "plugins" / "profile" / "session"
    profile.mkdir(parents=True)
    (profile / "here-1.xplane.pb").write_bytes(to_xspace(timeline(step(1, 1_000_100))).SerializeToString())
    return folder


def test_a_run_has_all_sections_and_no_legend(tmp_path: Path) -> None:
    _, text = _read(_full_run(tmp_path / "one"))
    for section in ("Run one", "Overview", "Curves", "Histograms", "Texts", "Graph", "Profile", "Environment"):
        assert section in text
    assert "1 variables with 12 elements" in text
    assert "MatMul 60.0%" in text
    assert "Operations of step 1, which is of median length" in text
    assert "<b>bold</b>" in text, "as text, not as an element"
    assert "Damaged files" not in text


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    reader, _ = _read(_full_run(tmp_path / "one"), _full_run(tmp_path / "two"))
    assert not [item for item in reader.attributes if item[1] in ("src", "href", "action")]
    page = report_page(load_runs([tmp_path / "one"]))
    assert not re.search(r"@import|url\(|fetch\(|https?://(?!www\.w3\.org/2000/svg)", page)


def test_runs_are_shown_side_by_side(tmp_path: Path) -> None:
    reader, text = _read(_full_run(tmp_path / "one"), _full_run(tmp_path / "two"), title="A & B")
    assert "A & B" in text
    assert [value for tag, name, value in reader.attributes if (tag, name) == ("input", "value")] == ["0", "1"]
    lines = [value for tag, name, value in reader.attributes if (tag, name) == ("polyline", "class")]
    assert {"c0 line", "c1 line"} <= set(lines)
    assert "weights, one" in text
    assert "one, two 2" not in text.partition("Graph")[0]
    assert text.count("operations of") == 1, "one graph of two runs is shown once"


def test_many_runs_have_a_short_heading_and_a_row_each(tmp_path: Path) -> None:
    for number in range(12):
        with EventWriter(tmp_path / f"run{number}") as writer:
            writer.scalar("loss", number / 8, 1)
    _, text = _read(tmp_path)
    assert text.startswith("12 runs 12 runs run0 run1 run2")
    assert "last value (lowest, highest) loss run0 0 run1 0.125 run2 0.25" in text


def test_names_are_text_and_not_markup(tmp_path: Path) -> None:
    run = tmp_path / "<i>run"
    with EventWriter(run) as writer:
        writer.scalar("<script>alert(1)</script>", 1.0, 1)
    reader, text = _read(run)
    assert "<script>alert(1)</script>" in text
    assert "i" not in {tag for tag, _, _ in reader.attributes}


def test_a_hundred_thousand_points_make_a_small_page(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        for number in range(100_000):
            writer.scalar("walk", float(number % 977), number)
    page = report_page(load_runs([tmp_path]))
    assert "100,000 points, drawn by the extremes of 300 spans" in page
    assert len(page) < 100_000


def test_points_that_cannot_be_drawn_are_counted(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        writer.scalar("broken", math.nan, 1)
        writer.scalar("broken", 1.0, 2)
        writer.scalar("single", 5.0, 3)
    _, text = _read(tmp_path)
    assert "1 of 2 values not finite (×)" in text
    assert "NaN" not in text.partition("Curves")[2].partition("single")[0]


def test_damage_is_told_at_the_top(tmp_path: Path) -> None:
    with EventWriter(tmp_path) as writer:
        writer.scalar("first", 1.0, 1)
        writer.scalar("second", 1.0, 1)
    data = bytearray(writer.path.read_bytes())
    data[-20] ^= 1
    writer.path.write_bytes(data)
    _, text = _read(tmp_path)
    assert text.index("Damaged files") < text.index("Overview")
    assert "wrong checksum" in text


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="HEADRACE_BROWSER is not set")
def test_a_browser_shows_values_under_the_pointer_and_hides_runs(tmp_path: Path) -> None:
    page = report_page(load_runs([_full_run(tmp_path / "one"), _full_run(tmp_path / "two")]))
    act = """<script>
    const svg = document.querySelector("figure svg"), box = svg.getBoundingClientRect();
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 50}));
    const tick = document.querySelectorAll("nav input")[1];
    tick.checked = false; tick.dispatchEvent(new Event("change"));
    </script></body>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", act), encoding="utf-8")
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run([*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=100)
    tip = re.search(r'<div class="tip"[^>]*>(.*?)</div></div>', done.stdout, re.DOTALL)
    assert tip is not None
    assert re.match(r"step \d", tip[1])
    assert "one: " in tip[1]
    assert 'class="run-1 hidden"' in done.stdout


_values = st.lists(st.floats(width=32), min_size=1, max_size=8)
_rows = st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    values=_values,
    steps=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=8),
    seconds=st.lists(st.floats(), min_size=8, max_size=8),
    rows=st.lists(_rows, min_size=1, max_size=3),
)
def test_whatever_event_files_hold_there_is_a_page(
    values: list[float], steps: list[int], seconds: list[float], rows: list[list[tuple[float, float, float]]]
) -> None:
    count = len(values)
    curve = Curve(np.array(sorted(steps[:count]), np.int64), np.array(seconds[:count]), np.array(values))
    histograms = [
        Histogram(step, np.array(item, np.float64).reshape(-1, 3)) for step, item in zip(steps, rows, strict=False)
    ]
    run = Run("run", Path("run"), (), {"curve": curve}, {"histogram": histograms}, {}, b"\xff", (), ())
    page = report_page([run, run])
    assert _Reader(page).open == []
    places = re.findall(r' (?:points|d|x|y|cx|cy|width|height)="([^"]*)"', page)
    assert not [place for place in places if "nan" in place or "inf" in place]
