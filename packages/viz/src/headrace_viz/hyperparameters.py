"""Hyper-parameters of a session, and layouts of several curves in one chart, as TensorBoard's dashboards want them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.struct_pb2 import ListValue
from google.protobuf.struct_pb2 import Value as JsonValue

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_viz.proto.event_pb2 import Summary
from headrace_viz.proto.plugin_data_pb2 import (
    DATA_TYPE_BOOL,
    DATA_TYPE_FLOAT64,
    DATA_TYPE_STRING,
    STATUS_SUCCESS,
    Category,
    Chart,
    Experiment,
    HParamInfo,
    HParamsPluginData,
    Layout,
    MarginChartContent,
    MetricInfo,
    MetricName,
    MultilineChartContent,
    SessionEndInfo,
    SessionStartInfo,
)
from headrace_viz.tensors import tensor_proto, utf8
from headrace_viz.values import plugin_value

__all__ = ["hparams_values", "layout_value"]

_NO_DATA = np.zeros(0, np.float32)


def hparams_values(
    hparams: Mapping[str, Any],
    metrics: Sequence[str],
    seconds: float,
    domains: Mapping[str, Sequence[Any]] | None = None,
) -> list[Summary.Value]:
    """Return the records of a session that has ended well: experiment, start and end.

    Args:
      hparams: Booleans, numbers and text by name.
      metrics: tags of scalars of the same run.
      seconds: since the epoch.
      domains: the values that a hyper-parameter may have, by its name.
    Raises:
      DTypeError: a hyper-parameter is something else.
      InvalidArgumentError: a domain of what is no hyper-parameter, or text that cannot be written as UTF-8.
    """
    typed = {name: _json_value(name, value) for name, value in hparams.items()}
    unknown = sorted((domains or {}).keys() - typed.keys())
    if unknown:
        raise InvalidArgumentError(
            "a domain without its hyper-parameter",
            expected=f"names of hyper-parameters: {', '.join(sorted(typed))}",
            got=", ".join(unknown),
            hint="add them to the hyper-parameters",
        )
    infos = []
    for text in (*typed, *metrics):
        utf8(text)
    for name, (kind, _) in typed.items():
        info = HParamInfo(name=name, type=kind)
        if name in (domains or {}):
            choices = [_json_value(name, value)[1] for value in (domains or {})[name]]
            info.domain_discrete.CopyFrom(ListValue(values=choices))
        infos.append(info)
    experiment = Experiment(
        time_created_secs=seconds,
        hparam_infos=infos,
        metric_infos=[MetricInfo(name=MetricName(tag=tag)) for tag in metrics],
    )
    start = SessionStartInfo(start_time_secs=seconds, hparams={name: value for name, (_, value) in typed.items()})
    records = {
        "experiment": HParamsPluginData(experiment=experiment),
        "session_start_info": HParamsPluginData(session_start_info=start),
        "session_end_info": HParamsPluginData(
            session_end_info=SessionEndInfo(status=STATUS_SUCCESS, end_time_secs=seconds)
        ),
    }
    return [
        plugin_value(f"_hparams_/{name}", "hparams", record.SerializeToString(), tensor_proto(_NO_DATA))
        for name, record in records.items()
    ]


def _json_value(name: str, value: Any) -> tuple[Any, JsonValue]:
    plain = value.item() if isinstance(value, np.generic | np.ndarray) and np.size(value) == 1 else value
    if isinstance(plain, bool):
        return DATA_TYPE_BOOL, JsonValue(bool_value=plain)
    if isinstance(plain, int | float):
        if not -sys.float_info.max <= plain <= sys.float_info.max:  # it is served as JSON, which has no such number
            return DATA_TYPE_STRING, JsonValue(string_value=str(plain))
        return DATA_TYPE_FLOAT64, JsonValue(number_value=float(plain))
    if isinstance(plain, str):
        utf8(plain)
        return DATA_TYPE_STRING, JsonValue(string_value=plain)
    raise DTypeError(
        f"hyper-parameter '{name}' cannot be recorded",
        expected="a Boolean, a number or text",
        got=f"{type(value).__name__} {value!r:.60}",
        hint="str(value) records it as text",
    )


def layout_value(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Summary.Value:
    """Return a layout of charts with several curves each.

    Args:
      layout: charts by category and title; a chart is `["Multiline", tags]`, where tags are regular expressions, or
        `["Margin", [value, lower, upper]]`.
    Raises:
      InvalidArgumentError: a chart is no such thing, or a title cannot be written as UTF-8.

    Example:
      >>> layout_value({"losses": {"both": ["Multiline", ["train/loss", "test/loss"]]}}).tag
      'custom_scalars__config__'
    """
    for category, charts in layout.items():
        for text in (category, *charts):
            utf8(text)
    categories = [
        Category(title=category, chart=[_chart(title, chart) for title, chart in charts.items()])
        for category, charts in layout.items()
    ]
    data = tensor_proto(Layout(category=categories).SerializeToString())
    return plugin_value("custom_scalars__config__", "custom_scalars", b"", data)


def _chart(title: str, chart: Sequence[Any]) -> Chart:
    match list(chart):
        case ["Multiline", [*tags]] if all(isinstance(tag, str) for tag in tags):
            return Chart(title=title, multiline=MultilineChartContent(tag=tags))
        case ["Margin", [str(value), str(lower), str(upper)]]:
            series = MarginChartContent.Series(value=value, lower=lower, upper=upper)
            return Chart(title=title, margin=MarginChartContent(series=[series]))
    raise InvalidArgumentError(
        f"chart '{title}' of a layout is not known",
        expected="['Multiline', tags] or ['Margin', [value, lower, upper]]",
        got=f"{chart!r:.80}",
        hint="tags are text, and regular expressions in a Multiline chart",
    )
