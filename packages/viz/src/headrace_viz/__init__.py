"""Write what people want to see of a run - curves, images, histograms, the graph - for TensorBoard and others."""

from __future__ import annotations

from headrace_viz import summary
from headrace_viz.callback import TensorBoard
from headrace_viz.event_log import EventWriteWarning
from headrace_viz.profiling import Profile, profile
from headrace_viz.summary_writer import SummaryWriter
from headrace_viz.writer import EventWriter

__all__ = ["EventWriteWarning", "EventWriter", "Profile", "SummaryWriter", "TensorBoard", "profile", "summary"]
