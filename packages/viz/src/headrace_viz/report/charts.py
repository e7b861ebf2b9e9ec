"""Charts as SVG text: pure functions of values. Colours are classes that the page's style sheet defines."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace_viz.report.number_text import count, labels, short, ticks
from headrace_viz.report.runs import Floats, Histogram

WIDTH, HEIGHT = 420, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 10, 36
_STRIP_WIDTH, _STRIP_MARGIN, _LETTER = 1100, 12, 6.5
_SPANS = 300
_LOGARITHMIC_FROM = 1000.0  # largest over smallest value
_LARGEST = 1e300  # so that differences are finite
COLORS = 8
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart: `color` is the number of its run; `x` and `y` are float64 `[points]`, `x` ascending."""

    label: str
    color: int
    x: Floats
    y: Floats


_FAR = 1000.0
"""Heights of a chart: beyond this a value is drawn no farther away."""


@dataclass(frozen=True, slots=True)
class Axes:
    """The ranges that a chart shows; where `logarithmic`, those of `y` are decimal logarithms."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    logarithmic: bool = False

    def x(self, value: float) -> float:
        """Return where a value is, from the left."""
        return _LEFT + _share(value, self.x_low, self.x_high) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Return where a value is, from the top."""
        value = min(max(value, -_LARGEST), _LARGEST)
        if self.logarithmic:
            value = math.log10(value)
        return HEIGHT - _BOTTOM - _share(value, self.y_low, self.y_high) * (HEIGHT - _TOP - _BOTTOM)


def _share(value: float, low: float, high: float) -> float:
    """Return where between two values one is; one that is far outside is just outside, since pictures end somewhere."""
    return min(max((float(value) - low) / (high - low), -_FAR), _FAR)


def color_class(number: int) -> str:
    """Return the classes that give a run its colour, and beyond the colours there are its dashes."""
    return f"c{number % COLORS}" + (f" d{number // COLORS % 3}" if number >= COLORS else "")


def thinned(x: Floats, y: Floats, spans: int = _SPANS) -> tuple[Floats, Floats]:
    """Return few points that draw the same picture: of each span of points its ends, extremes and a gap, if any.

    Args:
      x: float64 `[points]`.
      y: float64 `[points]`.
      spans: how many; up to five points of each remain, and up to four times as many points are not thinned.

    Example:
      >>> x = np.arange(10_000.0)
      >>> y = np.where(x == 4321, 50.0, np.sin(x))
      >>> few_x, few_y = thinned(x, y, 100)
      >>> len(few_x) <= 400, few_y.max()
      (True, np.float64(50.0))
    """
    if len(x) <= 4 * spans:
        return x, y
    kept: list[int] = []
    for indices in np.array_split(np.arange(len(x)), spans):
        values = y[indices]
        finite = np.isfinite(values)
        chosen = {0, len(indices) - 1}
        if finite.any():
            chosen |= {int(np.argmin(np.where(finite, values, np.inf)))}
            chosen |= {int(np.argmax(np.where(finite, values, -np.inf)))}
        if not finite.all():
            chosen |= {int(np.argmin(finite))}
        kept += [int(indices[position]) for position in sorted(chosen)]
    return x[kept], y[kept]


def line_chart(series: Sequence[Series], *, x_label: str, y_label: str, title: str, dots: bool = False) -> str:
    """Return a chart of lines; values that are not finite are gaps with crosses at the bottom.

    The points that are drawn go with it as JSON, for the page's script to show the values under the pointer.

    Args:
      series: at least one.
      x_label: what the horizontal axis shows, with its unit.
      y_label: what the vertical axis shows, with its unit.
      title: for those who cannot see the chart.
      dots: draw points instead of lines, where nothing is known between them.
    """
    drawn = [Series(item.label, item.color, *thinned(item.x, item.y)) for item in series]
    axes = _axes(drawn)
    parts = [_frame(axes, x_label, y_label)]
    draw = _dots if dots else _line
    parts += [f'<g class="run-{item.color}">{draw(item, axes)}</g>' for item in drawn]
    if not any(np.isfinite(item.y).any() for item in drawn):
        parts.append(_message("no finite value"))
    points = [
        {
            "label": item.label,
            "run": item.color,
            "color": color_class(item.color),
            "x": item.x.tolist(),
            "y": [value if math.isfinite(value) else short(value) for value in item.y.tolist()],
        }
        for item in drawn
    ]
    data = json.dumps({"name": x_label, "axes": [axes.x_low, axes.x_high], "series": points}, separators=(",", ":"))
    return _svg("".join(parts), title) + _json_element(data)


def distribution_chart(histograms: Sequence[Histogram], *, color: int, x_label: str, title: str) -> str:
    """Return how a distribution changes over steps, as bands between its quantiles; bars where there is one step."""
    if len(histograms) == 1:
        return _bars(histograms[0], color, title)
    if len(histograms) > _SPANS:
        chosen = np.linspace(0, len(histograms) - 1, _SPANS).astype(int)
        histograms = [histograms[index] for index in chosen]
    bands = np.array([quantiles(item.rows) for item in histograms])
    x = np.array([float(item.step) for item in histograms])
    axes = _axes([Series("", color, x, bands[:, column]) for column in (0, -1)], linear=True)
    parts = [_frame(axes, x_label, "value")]
    finite = np.isfinite(bands).all(axis=1)
    for low, high, strength in ((0, 6, 1), (1, 5, 2), (2, 4, 3)):
        upper = [f"{axes.x(a):.1f},{axes.y(b):.1f}" for a, b in zip(x[finite], bands[finite, high], strict=True)]
        lower = [f"{axes.x(a):.1f},{axes.y(b):.1f}" for a, b in zip(x[finite], bands[finite, low], strict=True)]
        parts.append(f'<polygon class="{color_class(color)} band{strength}" points="{" ".join(upper + lower[::-1])}"/>')
    parts.append(_line(Series("median", color, x[finite], bands[finite, 3]), axes))
    return _svg("".join(parts), title)


def strip_chart(pieces: Sequence[tuple[str, int, float, float]], *, unit: str, title: str) -> str:
    """Return what followed what, as one strip of coloured pieces.

    Args:
      pieces: of each its name, the number of its colour, its begin and its end; ascending and from 0 on.
      unit: of the numbers.
      title: for those who cannot see the chart.
    """
    whole = max(end for _, _, _, end in pieces) or 1.0
    scale = (_STRIP_WIDTH - 2 * _STRIP_MARGIN) / whole
    parts = []
    for value in ticks(0.0, whole, 8):
        x = _STRIP_MARGIN + value * scale
        parts.append(f'<path class="grid" d="M{x:.1f} 4V52"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="66" text-anchor="middle">{short(value)}</text>')
    for name, color, begin, end in pieces:
        x, width = _STRIP_MARGIN + begin * scale, (end - begin) * scale
        about = f"<title>{html.escape(name)}: {short(end - begin)} {html.escape(unit)}</title>"
        place = f'x="{x:.2f}" y="12" width="{max(width - 0.3, 0.3):.2f}" height="32"'
        parts.append(f'<rect class="{color_class(color)} bar" {place}>{about}</rect>')
        if width > _LETTER * len(name) + 6:
            parts.append(f'<text class="inside" x="{x + 4:.1f}" y="32">{html.escape(name)}</text>')
    parts.append(f'<text class="name" x="{_STRIP_WIDTH / 2}" y="82" text-anchor="middle">{html.escape(unit)}</text>')
    label = html.escape(title, quote=True)
    return f'<svg viewBox="0 0 {_STRIP_WIDTH} 88" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def quantiles(rows: Floats) -> list[float]:
    """Return the values below which the parts `QUANTILES` of a histogram lie, each bucket taken as even.

    Args:
      rows: float64 `[buckets, 3]`, left edge, right edge and count.
    """
    filled = _filled(rows)
    if not len(filled):
        return [math.nan] * len(QUANTILES)
    shares = filled[:, 2] / filled[:, 2].max()  # the sum of the counts themselves may have no finite value
    edges = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
    found = []
    for part in QUANTILES:
        bucket = min(int(np.searchsorted(edges[1:], part, side="left")), len(filled) - 1)
        width = edges[bucket + 1] - edges[bucket]
        inside = (part - edges[bucket]) / width if width > 0 else 0.0
        left, right = filled[bucket, 0], filled[bucket, 1]
        found.append(float(left + min(max(inside, 0.0), 1.0) * (right - left)))
    return found


def _bars(histogram: Histogram, color: int, title: str) -> str:
    rows = _filled(histogram.rows)
    if not len(rows):
        return _svg(_message("no values"), title)
    widths = np.maximum(rows[:, 1] - rows[:, 0], 0.0)
    low, high = _spread(float(rows[:, :2].min()), float(rows[:, :2].max()))
    axes = Axes(low, high, 0.0, _spread(0.0, min(float(rows[:, 2].max()), _LARGEST))[1] * 1.05)
    parts = [_frame(axes, "value", "count", x_text=short)]
    for (left, _, amount), width in zip(rows, widths, strict=True):
        x, right, y = axes.x(left), axes.x(left + width), axes.y(amount)
        parts.append(
            f'<rect class="{color_class(color)} bar" x="{x:.1f}" y="{y:.1f}" width="{max(right - x - 0.5, 0.8):.1f}" '
            f'height="{HEIGHT - _BOTTOM - y:.1f}"/>'
        )
    return _svg("".join(parts), title)


def _axes(series: Sequence[Series], *, linear: bool = False) -> Axes:
    xs = np.concatenate([item.x for item in series])
    ys = np.concatenate([item.y for item in series])
    xs, ys = xs[np.isfinite(xs)], np.clip(ys[np.isfinite(ys)], -_LARGEST, _LARGEST)
    x_low, x_high = (float(xs.min()), float(xs.max())) if xs.size else (0.0, 0.0)
    largest = max(abs(x_low), abs(x_high))
    if x_high - x_low <= largest * 1e-12:
        room = max(1.0, largest * 1e-6)
        x_low, x_high = x_low - room, x_high + room
    # Values over several powers of ten, such as a loss that diverged, would hide all but the largest.
    logarithmic = bool(not linear and ys.size and ys.min() > 0 and ys.max() / _LOGARITHMIC_FROM >= ys.min())
    ys = np.log10(ys) if logarithmic else ys
    y_low, y_high = _spread(*((float(ys.min()), float(ys.max())) if ys.size else (0.0, 1.0)))
    margin = (y_high - y_low) * 0.04
    return Axes(x_low, x_high, y_low - margin, y_high + margin, logarithmic)


def _spread(low: float, high: float) -> tuple[float, float]:
    """Return a range that has a width."""
    if high - low > max(abs(low), abs(high)) * 1e-12 and high - low > 1e-300:
        return low, high
    room = abs(low) * 0.1 if abs(low) > 1e-290 else 1.0
    return low - room, high + room


def _filled(rows: Floats) -> Floats:
    """Return the buckets that hold something, without edges that only mean "and beyond"."""
    found = rows[np.isfinite(rows[:, 2]) & (rows[:, 2] > 0) & ~np.isnan(rows).any(axis=1)]
    left, right = found[:, 0], found[:, 1]
    open_left, open_right = np.abs(left) > _LARGEST, np.abs(right) > _LARGEST
    closed = np.stack([np.where(open_left, right, left), np.where(open_right, left, right), found[:, 2]], axis=1)
    return closed[~(open_left & open_right)]


def _line(item: Series, axes: Axes) -> str:
    parts: list[str] = []
    for piece in _pieces(item.y):
        places = [(axes.x(x), axes.y(y)) for x, y in zip(item.x[piece].tolist(), item.y[piece].tolist(), strict=True)]
        if len(places) == 1:
            parts.append(
                f'<circle class="{color_class(item.color)} dot" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3"/>'
            )
        else:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline class="{color_class(item.color)} line" points="{path}"/>')
    base = HEIGHT - _BOTTOM - 4
    for piece in _pieces(np.where(np.isfinite(item.y), np.nan, 0.0)):
        begin, end = axes.x(float(item.x[piece][0])), axes.x(float(item.x[piece][-1]))
        crosses = "".join(f"M{place - 3:.1f} {base - 3}l6 6m0 -6l-6 6" for place in dict.fromkeys((begin, end)))
        parts.append(f'<path class="{color_class(item.color)} gap" d="{crosses}M{begin:.1f} {base}H{end:.1f}"/>')
    return "".join(parts)


def _dots(item: Series, axes: Axes) -> str:
    dots = [
        f'<circle class="{color_class(item.color)} dot" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="1.7"/>'
        for x, y in zip(item.x.tolist(), item.y.tolist(), strict=True)
        if math.isfinite(y)
    ]
    return "".join(dots)


def _pieces(y: Floats) -> list[slice]:
    """Return the longest stretches of finite values."""
    finite = np.concatenate([[False], np.isfinite(y), [False]])
    changes = np.flatnonzero(finite[1:] != finite[:-1])
    return [slice(int(begin), int(end)) for begin, end in zip(changes[::2], changes[1::2], strict=True)]


def _frame(axes: Axes, x_label: str, y_label: str, x_text: Callable[[float, int], str] = count) -> str:
    """Return the grid, the numbers at it and the names of the axes."""
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = []
    values = _powers(axes) if axes.logarithmic else ticks(axes.y_low, axes.y_high, 6)
    for value, text in zip(values, labels(values), strict=True):
        y = axes.y(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')
    values = ticks(axes.x_low, axes.x_high, 5, least=1 if x_label == "step" else 0)
    for value, text in zip(values, labels(values, x_text), strict=True):
        x = axes.x(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{text}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    parts.append(
        f'<text class="name" x="{(_LEFT + right) / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{html.escape(x_label)}</text>"
        f'<text class="name" transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y_label)}{' (logarithmic)' if axes.logarithmic else ''}</text>"
    )
    return "".join(parts)


def _powers(axes: Axes) -> list[float]:
    """Return powers of ten for a logarithmic axis."""
    exponents = range(math.ceil(axes.y_low), math.floor(axes.y_high) + 1)
    return [10.0**exponent for exponent in exponents[:: max(1, -(-len(exponents) // 6))]]


def _message(text: str) -> str:
    return f'<text class="message" x="{(WIDTH + _LEFT) / 2}" y="{HEIGHT / 2}" text-anchor="middle">{text}</text>'


def _svg(content: str, title: str) -> str:
    label = html.escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{content}</svg>'


def _json_element(data: str) -> str:
    safe = data.replace("<", "\\u003c")  # "</" would end the element, whatever it stands in
    return f'<script type="application/json">{safe}</script>'
