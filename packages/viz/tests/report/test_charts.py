"""Charts: what is drawn of points, gaps, many values and distributions."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_viz.report.charts import (
    Series,
    color_class,
    distribution_chart,
    line_chart,
    quantiles,
    strip_chart,
    thinned,
)
from headrace_viz.report.runs import Floats, Histogram


def _series(y: list[float], x: list[float] | None = None, label: str = "run", color: int = 0) -> Series:
    return Series(label, color, np.array(range(len(y)) if x is None else x, float), np.array(y, float))


def _chart(*series: Series, dots: bool = False) -> tuple[ElementTree.Element, dict[str, Any]]:
    text = line_chart(series, x_label="step", y_label="value", title="a <title>", dots=dots)
    svg, data = re.fullmatch(r'(<svg.*</svg>)<script type="application/json">(.*)</script>', text, re.DOTALL).groups()  # type: ignore[union-attr]
    return ElementTree.fromstring(svg), json.loads(data)


def _elements(svg: ElementTree.Element, tag: str, kind: str = "") -> list[ElementTree.Element]:
    return [item for item in svg.iter(tag) if kind in item.get("class", "").split() or not kind]


def test_a_line_joins_the_points_inside_the_frame() -> None:
    svg, data = _chart(_series([1.0, 3.0, 2.0]))
    (line,) = _elements(svg, "polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    assert len(places) == 3
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert places[1][1] < places[2][1] < places[0][1], "larger values are higher"
    assert data["series"][0]["y"] == [1.0, 3.0, 2.0]
    assert svg.get("aria-label") == "a <title>"


def test_one_point_is_a_dot() -> None:
    svg, _ = _chart(_series([0.125], [7]))
    assert len(_elements(svg, "circle", "dot")) == 1
    assert not _elements(svg, "polyline")


@pytest.mark.parametrize("value", [0.0, 1e-12, -3e300, 1e308])
def test_a_constant_has_a_range(value: float) -> None:
    svg, _ = _chart(_series([value, value]))
    assert len(_elements(svg, "polyline")) == 1


def test_values_that_are_not_finite_are_gaps_with_crosses() -> None:
    svg, data = _chart(_series([1.0, 2.0, np.nan, np.inf, 3.0, 2.0, -np.inf]))
    assert len(_elements(svg, "polyline")) == 2
    assert len(_elements(svg, "path", "gap")) == 2
    assert data["series"][0]["y"] == [1.0, 2.0, "NaN", "∞", 3.0, 2.0, "−∞"]
    assert "no finite value" not in "".join(svg.itertext())


def test_a_chart_without_a_finite_value_says_so() -> None:
    svg, _ = _chart(_series([np.nan, np.nan]))
    assert "no finite value" in "".join(svg.itertext())


def test_values_over_many_powers_of_ten_have_a_logarithmic_axis() -> None:
    svg, _ = _chart(_series([1.0, 1e9]))
    assert "value (logarithmic)" in "".join(svg.itertext())
    for values in ([0.0, 1e9], [1.0, 999.0], [-1.0, 1e9]):
        assert "logarithmic" not in "".join(_chart(_series(values))[0].itertext())


def test_dots_are_not_joined() -> None:
    svg, _ = _chart(_series([1.0, np.nan, 3.0]), dots=True)
    assert len(_elements(svg, "circle", "dot")) == 2
    assert not _elements(svg, "polyline")


def test_runs_keep_their_colours_and_get_dashes_beyond_them() -> None:
    svg, data = _chart(_series([1, 2]), _series([2, 3], color=9))
    assert [item.get("class") for item in _elements(svg, "polyline")] == ["c0 line", "c1 d1 line"]
    assert [item["run"] for item in data["series"]] == [0, 9]
    assert len({color_class(number) for number in range(24)}) == 24


def test_text_of_runs_does_not_end_the_element_of_its_data() -> None:
    _, data = _chart(_series([1, 2], label="</script><b>"))
    assert data["series"][0]["label"] == "</script><b>"


@settings(deadline=None)
@given(
    data=st.lists(st.one_of(st.floats(-1e9, 1e9), st.sampled_from([np.nan, np.inf])), min_size=9, max_size=100),
    spans=st.integers(2, 10),
)
def test_thinning_keeps_ends_extremes_and_gaps(data: list[float], spans: int) -> None:
    y: Floats = np.array(data)
    x = np.arange(len(y), dtype=float)
    few_x, few_y = thinned(x, y, spans)
    assert len(few_x) <= 5 * spans
    assert (np.diff(few_x) > 0).all()
    assert (few_x[0], few_x[-1]) == (x[0], x[-1])
    finite, kept = y[np.isfinite(y)], few_y[np.isfinite(few_y)]
    assert len(finite) == len(y) or len(kept) < len(few_y)
    if len(finite):
        assert (kept.min(), kept.max()) == (finite.min(), finite.max())
    np.testing.assert_array_equal(y[few_x.astype(int)], few_y)


def test_few_points_are_all_drawn() -> None:
    x = np.arange(200.0)
    assert thinned(x, x, 50)[0] is x


def test_a_strip_shows_what_followed_what() -> None:
    pieces = [("MatMul", 0, 0.0, 90.0), ("a<b", 1, 90.0, 100.0)]
    svg = ElementTree.fromstring(strip_chart(pieces, unit="µs", title="t"))
    first, second = _elements(svg, "rect", "bar")
    assert float(first.get("x", "")) + float(first.get("width", "")) < float(second.get("x", ""))
    assert [title.text for title in svg.iter("title")] == ["MatMul: 90 µs", "a<b: 10 µs"]
    assert [item.text for item in _elements(svg, "text", "inside")] == ["MatMul", "a<b"]


def test_quantiles_of_even_buckets() -> None:
    rows = np.array([[0.0, 10.0, 5.0], [10.0, 20.0, 0.0], [20.0, 30.0, 5.0]])
    assert quantiles(rows) == pytest.approx([0, 2, 5, 10, 25, 28, 30])
    assert np.isnan(quantiles(np.zeros((0, 3)))).all()


def test_a_distribution_over_steps_is_bands_and_a_median() -> None:
    rows = np.array([[0.0, 1.0, 10.0], [1.0, 2.0, 10.0]])
    found = [Histogram(step, rows + np.array([step, step, 0])) for step in (0, 5, 9)]
    svg = ElementTree.fromstring(distribution_chart(found, color=2, x_label="step", title="t"))
    assert [item.get("class") for item in _elements(svg, "polygon")] == ["c2 band1", "c2 band2", "c2 band3"]
    assert len(_elements(svg, "polyline")) == 1


def test_a_distribution_at_one_step_is_bars() -> None:
    rows = np.array([[0.0, 1.0, 10.0], [1.0, 1.0, 5.0], [1.0, np.inf, 1.0]])
    svg = ElementTree.fromstring(distribution_chart([Histogram(0, rows)], color=0, x_label="step", title="t"))
    bars = _elements(svg, "rect", "bar")
    assert [round(float(bar.get("height", ""))) for bar in bars] == [185, 92, 18], "also the bucket without an end"
    empty = distribution_chart([Histogram(0, np.zeros((0, 3)))], color=0, x_label="step", title="t")
    assert "no values" in empty
    twice = [Histogram(0, np.zeros((0, 3)))] * 2
    assert "no finite value" not in distribution_chart(twice, color=0, x_label="step", title="t")
