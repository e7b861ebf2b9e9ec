"""The text of metrics, as Prometheus reads it."""

from __future__ import annotations

from headrace_serving.metrics import MICROSECOND_BOUNDS, Counter, Gauge, Histogram, exposition


def test_a_counter() -> None:
    counter = Counter("c_total", "Things.", ["kind"])
    counter.add("a")
    counter.add("a", amount=2)
    counter.add('q"\\\n')
    assert exposition([counter]).decode() == (
        '# HELP c_total Things.\n# TYPE c_total counter\nc_total{kind="a"} 3\nc_total{kind="q\\"\\\\\\n"} 1\n'
    )


def test_a_histogram() -> None:
    histogram = Histogram("h", "Sizes.", ["kind"], [1, 2.5])
    for value in (0.5, 1, 2, 7):
        histogram.observe(value, "a")
    assert exposition([histogram]).decode().splitlines() == [
        "# HELP h Sizes.",
        "# TYPE h histogram",
        'h_bucket{kind="a",le="1"} 2',
        'h_bucket{kind="a",le="2.5"} 3',
        'h_bucket{kind="a",le="+Inf"} 4',
        'h_sum{kind="a"} 10.5',
        'h_count{kind="a"} 4',
    ]


def test_a_gauge_is_read_when_asked() -> None:
    values = {("a",): 1.0}
    gauge = Gauge("g", "Now.", ["kind"], lambda: values)
    values["b",] = 2.5
    assert exposition([gauge]).decode().splitlines()[2:] == ['g{kind="a"} 1', 'g{kind="b"} 2.5']


def test_tensorflow_serving_s_buckets() -> None:
    assert (len(MICROSECOND_BOUNDS), MICROSECOND_BOUNDS[0], MICROSECOND_BOUNDS[1]) == (33, 10, 18)
