"""Write what people want to see of a run - curves, images, histograms, the graph - for TensorBoard and others."""

from __future__ import annotations

from headrace_viz import summary
from headrace_viz.callback import TensorBoard
from headrace_viz.event_log import EventWriteWarning
from headrace_viz.profiling import Profile, profile
from headrace_viz.reading import LoggedValue, find_runs, read_events, read_run
from headrace_viz.sinks import JsonLinesSink, MlflowSink, ScalarSink, WandbSink
from headrace_viz.summary_writer import SummaryWriter
from headrace_viz.writer import EventWriter

__all__ = [
    "EventWriteWarning",
    "EventWriter",
    "JsonLinesSink",
    "LoggedValue",
    "MlflowSink",
    "Profile",
    "ScalarSink",
    "SummaryWriter",
    "TensorBoard",
    "WandbSink",
    "find_runs",
    "profile",
    "read_events",
    "read_run",
    "summary",
]
