"""The report: one page that shows runs side by side, to be read without a server and without a network.

In the order of the data: `runs` reads what the folders of runs hold; `graph_summary` sums up a graph; `number_text` and
`charts` turn values into text and pictures; `page` puts them together; `plots` draws the curves as PNG files; `cli` is
`headrace report`.
"""

from __future__ import annotations

from headrace_viz.report.page import report_page
from headrace_viz.report.runs import Run, load_runs

__all__ = ["Run", "load_runs", "report_page"]
