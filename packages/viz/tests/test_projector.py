"""Embeddings: files and their list, as TensorBoard's projector reads them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import InvalidArgumentError, ShapeError
from headrace_viz.projector import add_embedding
from headrace_viz.storage import LocalFolder

POINTS = np.arange(12, dtype=np.float64).reshape(4, 3)


def test_files_and_their_list(tmp_path: Path) -> None:
    projector = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    folder = LocalFolder(tmp_path)
    add_embedding(folder, POINTS, ["a", "tab\there", "c", "损失"], None, 5, "words/all", None)
    pictures = np.random.default_rng(1).integers(0, 256, [4, 3, 2, 6], np.uint8)
    add_embedding(folder, POINTS, [("a", 1)] * 4, pictures, 6, "plain", ["name", "number"])
    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), projector.ProjectorConfig())
    first, second = config.embeddings
    assert (first.tensor_name, list(first.tensor_shape)) == ("words/all:00005", [4, 3])
    stored = np.frombuffer((tmp_path / first.tensor_path).read_bytes(), "<f4").reshape(4, 3)
    np.testing.assert_array_equal(stored, POINTS)
    assert (tmp_path / first.metadata_path).read_text() == "a\ntab here\nc\n损失\n"
    assert (tmp_path / second.metadata_path).read_text().splitlines()[:2] == ["name\tnumber", "a\t1"]
    assert list(second.sprite.single_image_dim) == [6, 2]
    image = pytest.importorskip("PIL.Image").open(io.BytesIO((tmp_path / second.sprite.image_path).read_bytes()))
    sheet = np.asarray(image)
    assert sheet.shape == (4, 12, 3)
    np.testing.assert_array_equal(sheet[2:, :6], pictures[2].transpose(1, 2, 0))


def test_what_is_no_embedding(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    with pytest.raises(ShapeError, match="embedding 'a' is no matrix"):
        add_embedding(folder, POINTS[0], None, None, 0, "a", None)
    with pytest.raises(InvalidArgumentError, match="metadata of embedding 'a' do not match its points"):
        add_embedding(folder, POINTS, ["a"], None, 0, "a", None)
    with pytest.raises(InvalidArgumentError, match="metadata of embedding 'a' do not match its points"):
        add_embedding(folder, POINTS, [("a",)] * 4, None, 0, "a", ["x", "y"])
    with pytest.raises(InvalidArgumentError, match="pictures of embedding 'a' cannot be used"):
        add_embedding(folder, POINTS, None, np.zeros([3, 1, 2, 2], np.uint8), 0, "a", None)
    assert list(tmp_path.iterdir()) == []


def test_a_tag_of_dots_keeps_its_files_together(tmp_path: Path) -> None:
    add_embedding(LocalFolder(tmp_path), POINTS, None, None, 5, "..", None)
    assert (tmp_path / "00005" / "_" / "tensors.bytes").is_file()


def test_metadata_that_no_file_can_hold(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be written as UTF-8"):
        add_embedding(LocalFolder(tmp_path), POINTS, ["a", "b", "\ud800", "d"], None, 5, "words", None)
