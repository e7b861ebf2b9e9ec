"""The measured speeds of the machine."""

from __future__ import annotations

from headrace_viz.profiling.ceilings import measured_ceilings


def test_speeds_are_measured_once() -> None:
    first = measured_ceilings()
    assert 0.05 < first.gflops < 1e6
    assert 0.05 < first.gbytes < 1e5
    assert measured_ceilings() is first
