"""Models in int8 are saved and loaded like any other, in a quarter of the bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import headrace as hr
import headrace_checkpoint as hc


def folder_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def test_a_saved_model_in_int8_is_small_and_gives_the_same_numbers(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.standard_normal((8, 8, 8, 16)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 8, 8, 16], name="x")
        filters = hr.Variable(random.standard_normal((3, 3, 16, 64)).astype(np.float32))
        weights = hr.Variable(random.standard_normal((4096, 32)).astype(np.float32))
        h = hr.nn.relu(hr.nn.conv2d(x, filters) + hr.Variable(np.ones(64, np.float32)))
        scores = hr.reshape(h, [-1, 4096]) @ weights
    with hr.Session(graph) as session:
        hc.save_model(tmp_path / "float", session, {"serving_default": hr.Signature({"x": x}, {"scores": scores})})
        model = hr.to_int8(session, scores, [{x: images}])
    with hr.Session(model.graph) as session:
        found = session.run(model.outputs, feeds={model.inputs[x]: images})
        signature = hr.Signature({"x": model.inputs[x]}, {"scores": model.outputs})
        hc.save_model(tmp_path / "int8", session, {"serving_default": signature})
    assert folder_bytes(tmp_path / "int8") < 0.3 * folder_bytes(tmp_path / "float")
    loaded = hc.load_model(tmp_path / "int8")
    np.testing.assert_array_equal(loaded.signatures["serving_default"](x=images)["scores"], found)
    hc.freeze(loaded, tmp_path / "frozen.pb")
    assert (tmp_path / "frozen.pb").stat().st_size < 0.3 * folder_bytes(tmp_path / "float")


def test_a_loaded_model_is_quantised(tmp_path: Path) -> None:
    values = np.random.default_rng(1).standard_normal((20, 32)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 32], name="x")
        y = x @ hr.Variable(np.random.default_rng(2).standard_normal((32, 8)).astype(np.float32))
    with hr.Session(graph) as session:
        hc.save_model(tmp_path / "model", session, {"serving_default": hr.Signature({"x": x}, {"y": y})})
        exact = session.run(y, feeds={x: values})
    loaded = hc.load_model(tmp_path / "model")
    given, wanted = loaded.graph.tensor("x:0"), loaded.graph.tensor(y.name)
    model = hr.to_int8(loaded.session, wanted, [{given: values}])
    found = hr.Session(model.graph).run(model.outputs, feeds={model.inputs[given]: values})
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())
