"""The text of metrics, as Prometheus reads it."""

from __future__ import annotations

from headrace_serving.metrics import MICROSECOND_BOUNDS, Counter, Gauge, Histogram, added, exposition


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


def test_numbers_of_several_processes_are_added() -> None:
    counter = Counter("c", "C.", ["code"])
    histogram = Histogram("h", "H.", [], [1.0])
    gauge = Gauge("g", "G.", [], lambda: {(): 2})
    same = Gauge("s", "S.", [], lambda: {(): 2}, shared=True)
    counter.add("200")
    histogram.observe(0.5)
    metrics = (counter, histogram, gauge, same)
    states = [added([metric.state(), metric.state()]) for metric in metrics]
    text = exposition(metrics, states).decode()
    for line in ('c{code="200"} 2', 'h_bucket{le="1"} 2', "h_sum 1", "h_count 2", "g 4", "s 2"):
        assert f"{line}\n" in text
