"""Hyper-parameters and layouts of charts, as TensorBoard's own messages read them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headrace.errors import DTypeError, InvalidArgumentError
from headrace_viz.hyperparameters import hparams_values, layout_value
from headrace_viz.proto.plugin_data_pb2 import HParamsPluginData, Layout
from headrace_viz.tensors import array_of


def test_a_session() -> None:
    hparams = {"rate": 0.5, "depth": np.int64(3), "bias": True, "name": "a", "limit": math.inf}
    experiment, start, end = (
        HParamsPluginData.FromString(value.metadata.plugin_data.content)
        for value in hparams_values(hparams, ["accuracy"], 12.5, {"name": ["a", "b"]})
    )
    infos = {info.name: info for info in experiment.experiment.hparam_infos}
    assert {name: info.type for name, info in infos.items()} == dict(rate=3, depth=3, bias=2, name=1, limit=1)
    assert [choice.string_value for choice in infos["name"].domain_discrete.values] == ["a", "b"]
    assert [info.name.tag for info in experiment.experiment.metric_infos] == ["accuracy"]
    recorded = start.session_start_info.hparams
    assert (recorded["rate"].number_value, recorded["depth"].number_value) == (0.5, 3)
    assert (recorded["bias"].bool_value, recorded["limit"].string_value) == (True, "inf")
    assert (start.session_start_info.start_time_secs, end.session_end_info.status) == (12.5, 1)


def test_messages_are_tensorboards() -> None:
    plugin_data = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    values = hparams_values({"rate": 0.5, "name": "a"}, ["accuracy"], 12.5, {"name": ["a"]})
    assert [value.tag for value in values] == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
    ]
    for value in values:
        theirs = plugin_data.HParamsPluginData.FromString(value.metadata.plugin_data.content)
        assert HParamsPluginData.FromString(theirs.SerializeToString()).WhichOneof("data") == theirs.WhichOneof("data")


def test_what_is_no_hyperparameter() -> None:
    with pytest.raises(DTypeError, match="hyper-parameter 'a' cannot be recorded"):
        hparams_values({"a": [1, 2]}, [], 0.0)
    with pytest.raises(InvalidArgumentError, match=r"a domain without its hyper-parameter\n(.*\n)*.*got: +b"):
        hparams_values({"a": 1}, [], 0.0, {"b": [1]})


def test_layouts() -> None:
    value = layout_value(
        {"losses": {"both": ["Multiline", ["train/.*", "test"]], "bounds": ["Margin", ["mean", "low", "high"]]}}
    )
    (category,) = Layout.FromString(array_of(value.tensor).item()).category
    lines, margin = category.chart
    assert (category.title, lines.title, list(lines.multiline.tag)) == ("losses", "both", ["train/.*", "test"])
    (series,) = margin.margin.series
    assert (margin.title, series.value, series.lower, series.upper) == ("bounds", "mean", "low", "high")


@pytest.mark.parametrize(
    "chart", [["Pie", ["a"]], ["Multiline", [1]], ["Margin", ["a", "b"]], ["Multiline"], ["Multiline", "a"]]
)
def test_what_is_no_chart(chart: list[object]) -> None:
    with pytest.raises(InvalidArgumentError, match="chart 'c' of a layout is not known"):
        layout_value({"a": {"c": chart}})


@pytest.mark.parametrize(
    ("hparams", "metrics"), [({"a": "\ud800"}, []), ({"\ud800": 1}, []), ({"a": 1}, ["\ud800"])], ids=str
)
def test_text_of_a_session_that_no_file_can_hold(hparams: dict[str, object], metrics: list[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be written as UTF-8"):
        hparams_values(hparams, metrics, 1.0)


@pytest.mark.parametrize("layout", [{"\ud800": {}}, {"a": {"\ud800": ["Multiline", ["loss"]]}}], ids=str)
def test_titles_of_a_layout_that_no_file_can_hold(layout: dict[str, dict[str, list[object]]]) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be written as UTF-8"):
        layout_value(layout)


def test_a_number_that_is_too_large_for_one_is_recorded_as_text() -> None:
    _, start, _ = hparams_values({"seed": 10**400}, [], 1.0)
    recorded = HParamsPluginData.FromString(start.metadata.plugin_data.content).session_start_info.hparams
    assert recorded["seed"].string_value == str(10**400)
