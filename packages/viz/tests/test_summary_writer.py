"""SummaryWriter: PyTorch's methods, each with its values in the file."""

from __future__ import annotations

import inspect
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace_viz import SummaryWriter
from headrace_viz.reading import find_runs, read_events, read_run

Image = pytest.importorskip("PIL.Image")
PICTURE = np.random.default_rng(1).integers(0, 256, [3, 4, 5], np.uint8)


def _values(run: Path) -> dict[str, Any]:
    return {value.tag: value.value for value in read_run(find_runs(run)["."])}


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_scalars(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", np.float64(0.1), 5, 12.5)
        writer.add_scalar("b", 2, double_precision=True, new_style=False)
    a, b = read_run(find_runs(tmp_path)["."])
    assert (a.tag, a.step, a.wall_time, a.value) == ("a", 5, 12.5, float(np.float32(0.1)))
    assert (b.step, b.value, b.kind) == (0, 2.0, "scalars")


def test_groups_of_scalars_are_runs_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in (1, 2):
            writer.add_scalars("loss/all", {"train": step, "test": step + 0.5}, step)
    runs = {run: [value.value for value in read_run(files)] for run, files in find_runs(tmp_path).items()}
    assert runs == {".": [], "loss_all_test": [1.5, 2.5], "loss_all_train": [1.0, 2.0]}


def test_threads_share_the_runs_of_a_group(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda step: writer.add_scalars("loss", {"a": step, "b": step}, step), range(200)))
    for run in ("loss_a", "loss_b"):
        (path,) = find_runs(tmp_path / run)["."]
        assert sorted(value.step for value in read_run([path])) == list(range(200))


def test_histograms(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for bins in ("tensorflow", "auto", 30):
            writer.add_histogram(f"{bins}", np.arange(100), 1, bins=bins)
        writer.add_histogram("few", [1, 2, 3], 1, max_bins=2)
        writer.add_histogram("edges", [1, 2, 3], 1, bins=[0, 2, 4])
        writer.add_histogram_raw("raw", -1, 2, 3, 4, 5, [0, 2], [1, 2], 1)
    values = _values(tmp_path)
    assert {len(values[bins]) for bins in ("tensorflow", "auto", "30")} == {30}
    assert values["few"].tolist() == [[1, 2, 1], [2, 3, 2]]
    assert values["edges"].tolist() == [[0, 2, 1], [2, 4, 2]]
    assert values["raw"].tolist() == [[-1, 0, 1], [0, 2, 2]]


def test_B03_a_histogram_that_is_not_finite_names_its_tag(tmp_path: Path) -> None:
    with (
        SummaryWriter(tmp_path) as writer,
        pytest.raises(InvalidArgumentError, match=r"needs finite numbers\n  where: +tag 'weights'"),
    ):
        writer.add_histogram("weights", [1, np.nan])


def test_pictures(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", PICTURE)
        writer.add_image("gray", PICTURE[0], dataformats="HW")
        writer.add_images("two", np.stack([PICTURE, PICTURE[::-1]]))
        writer.add_image_with_boxes("box", np.zeros([3, 4, 5], np.uint8), [[0, 0, 4, 3]], rescale=2, labels=["a"])
    values = _values(tmp_path)
    np.testing.assert_array_equal(_pixels(values["one"][0]), PICTURE.transpose(1, 2, 0))
    np.testing.assert_array_equal(_pixels(values["gray"][0]), PICTURE[0])
    np.testing.assert_array_equal(_pixels(values["two"][1]), PICTURE[::-1].transpose(1, 2, 0))
    assert _pixels(values["box"][0]).shape == (8, 10, 3)


def test_a_picture_that_is_changed_after_the_call(tmp_path: Path) -> None:
    picture = PICTURE.copy()
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", picture)
        picture[:] = 0
    np.testing.assert_array_equal(_pixels(_values(tmp_path)["one"][0]), PICTURE.transpose(1, 2, 0))


def test_films(tmp_path: Path) -> None:
    film = np.random.default_rng(1).integers(0, 256, [1, 3, 3, 4, 5], np.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("film", film, fps=8)
        with pytest.raises(InvalidArgumentError, match="film 'film' cannot be played"):
            writer.add_video("film", film, fps=0)
        with pytest.raises(InvalidArgumentError, match="film 'film' cannot be played"):
            writer.add_video("film", film[0], dataformats="NCHW")
        with pytest.raises(InvalidArgumentError, match="'film' has frames"):
            writer.add_images("film", film, dataformats="NTCHW")
    picture = Image.open(io.BytesIO(_values(tmp_path)["film"][0]))
    assert (picture.n_frames, picture.info["duration"]) == (3, 125)


def test_figures(tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("one", figures.Figure(figsize=(2, 1), dpi=50))
        writer.add_figure("two", [figures.Figure(figsize=(2, 1), dpi=50) for _ in range(2)])
    values = _values(tmp_path)
    assert (_pixels(values["one"][0]).shape, len(values["two"])) == ((50, 100, 3), 2)


def test_sounds_texts_tensors_curves_meshes_and_layouts(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("tone", np.zeros([1, 10], np.float32), sample_rate=8000)
        writer.add_text("note", "**good**")
        writer.add_tensor("table", np.eye(2))
        writer.add_pr_curve("pr", [0, 1], [0.2, 0.8], num_thresholds=3)
        writer.add_pr_curve_raw("raw", *np.ones([6, 4]))
        writer.add_mesh("mesh", np.zeros([1, 4, 3]))
        writer.add_custom_scalars_multilinechart(["a", "b"])
        writer.add_custom_scalars_marginchart(["a", "b", "c"], "category", "title")
    values = read_run(find_runs(tmp_path)["."])
    kinds = ["audio", "text", "tensor", "pr_curves", "pr_curves", "mesh", "custom_scalars", "custom_scalars"]
    assert [value.kind for value in values] == kinds
    assert values[3].value[0].tolist() == [1, 1, 0]
    assert values[4].value.shape == (6, 4)


def test_hyperparameters_are_a_run_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=3) as writer:
        writer.add_hparams({"rate": 0.1}, {"accuracy": 0.9}, run_name="first", global_step=7)
        writer.add_hparams({"rate": 0.2}, {"accuracy": 0.8})
    runs = find_runs(tmp_path)
    assert len(runs) == 3
    *records, metric = read_run(runs["first"])
    assert [record.kind for record in records] == ["hparams"] * 3
    assert (metric.tag, metric.step, metric.kind) == ("accuracy", 7, "scalars")


@pytest.mark.parametrize(
    ("name", "place"), [("..", "_"), ("../../out", "_/_/out"), ("a/../../out", "a/_/_/out"), ("/etc", "etc")]
)
def test_a_run_stays_in_its_folder(tmp_path: Path, name: str, place: str) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_hparams({"rate": 0.1}, {"accuracy": 0.9}, run_name=name)
    assert sorted(find_runs(tmp_path)) == ["run", f"run/{place}"]


def test_graphs_of_everything_that_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with hr.Graph().as_default() as graph:
        hr.constant(1.0, name="one")
    dense = hr.layers.Dense(2)
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(graph, verbose=True)
        writer.add_graph(hr.Session(graph), tag="again")
        writer.add_graph(dense, np.zeros([1, 3], np.float32))
        writer.add_graph(lambda x, y: x + y, (np.zeros(2), np.zeros(2)))
        with pytest.raises(InvalidArgumentError, match="there is no graph to write"):
            writer.add_graph(dense)
        with pytest.raises(InvalidArgumentError, match="there is no graph to write"):
            writer.add_graph(5, np.zeros(2))
    (path,) = find_runs(tmp_path)["."]
    graphs = [GraphDef.FromString(event.graph_def) for event in read_events(path) if event.graph_def]
    assert [[node.op for node in shown.node][:1] for shown in graphs] == [["Const"], ["Placeholder"], ["Placeholder"]]
    assert "MatMul" in {node.op for node in graphs[1].node}
    assert "one" in capsys.readouterr().out


def test_run_metadata_and_embeddings(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_run_metadata(hr.Trace(), "step 1")
        writer.add_embedding(np.eye(3), ["a", "b", "c"], global_step=4)
    (path,) = find_runs(tmp_path)["."]
    assert [event.tagged_run_metadata.tag for event in read_events(path)] == ["", "step 1"]
    assert (tmp_path / "00004" / "default" / "metadata.tsv").read_text() == "a\nb\nc\n"


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="-try", filename_suffix=".s") as writer:
        pass
    assert writer.get_logdir().startswith("runs" + os.sep)
    assert writer.get_logdir().endswith("-try")
    (file,) = find_runs(tmp_path / writer.get_logdir())["."]
    assert file.name.endswith(".s")


def test_flush_shows_what_was_written(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_scalars("b", {"c": 1}, 1)
        writer.flush()
        assert len(read_run(find_runs(tmp_path)["."])) == 1
        assert len(read_run(find_runs(tmp_path / "b_c")["."])) == 1


ARGUMENTS = """
add_scalar(tag, scalar_value, global_step, walltime, new_style, double_precision)
add_scalars(main_tag, tag_scalar_dict, global_step, walltime)
add_tensor(tag, tensor, global_step, walltime)
add_histogram(tag, values, global_step, bins, walltime, max_bins)
add_histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step, walltime)
add_image(tag, img_tensor, global_step, walltime, dataformats)
add_images(tag, img_tensor, global_step, walltime, dataformats)
add_image_with_boxes(tag, img_tensor, box_tensor, global_step, walltime, rescale, dataformats, labels)
add_figure(tag, figure, global_step, close, walltime)
add_video(tag, vid_tensor, global_step, fps, walltime)
add_audio(tag, snd_tensor, global_step, sample_rate, walltime)
add_text(tag, text_string, global_step, walltime)
add_graph(model, input_to_model, verbose, use_strict_trace)
add_embedding(mat, metadata, label_img, global_step, tag, metadata_header)
add_pr_curve(tag, labels, predictions, global_step, num_thresholds, weights, walltime)
add_custom_scalars(layout)
add_custom_scalars_multilinechart(tags, category, title)
add_custom_scalars_marginchart(tags, category, title)
add_mesh(tag, vertices, colors, faces, config_dict, global_step, walltime)
add_hparams(hparam_dict, metric_dict, hparam_domain_discrete, run_name, global_step)
SummaryWriter(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)
"""


@pytest.mark.parametrize("line", ARGUMENTS.split("\n")[1:-1], ids=lambda line: line.partition("(")[0])
def test_arguments_are_pytorchs(line: str) -> None:
    name, _, arguments = line.rstrip(")").partition("(")
    function = SummaryWriter if name == "SummaryWriter" else getattr(SummaryWriter, name)
    ours = [argument for argument in inspect.signature(function).parameters if argument != "self"]
    theirs = arguments.split(", ")
    assert ours[: len(theirs)] == theirs
