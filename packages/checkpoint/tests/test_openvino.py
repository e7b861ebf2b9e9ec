"""Our saved models and frozen graphs in OpenVINO. Left out where it is not installed; `nox -s measure` has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint.frozen_graph import freeze
from headrace_checkpoint.inference_passes import LEVELS
from headrace_checkpoint.saved_model import load_model, save_model

openvino: Any = pytest.importorskip("openvino", reason="a reader of another maker")
pytestmark = pytest.mark.filterwarnings("ignore")

DATA = Path(__file__).parent / "data"
X = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)


def run(path: Path, *inputs: Any) -> Any:
    # In full precision: by default it computes in bfloat16 where the processor can.
    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return compiled([np.asarray(value) for value in inputs])[0]


class Network:
    """Convolution, batch normalisation, pooling, a dense layer and a softmax."""

    def __init__(self) -> None:
        layers = hr.layers
        model = layers.Sequential(
            [layers.Conv2D(4, 3), layers.BatchNorm(), layers.MaxPool2D(2), layers.Flatten(), layers.Dense(3)]
        )
        graph = hr.Graph(seed=1)
        with graph.as_default():
            self.x = hr.placeholder(hr.float32, [None, 8, 8, 3], name="x")
            self.y = hr.nn.softmax(model(self.x), name="y")
        self.session = hr.Session(graph)
        self.expected = self.session.run(self.y, feeds={self.x: X})


def test_openvino_runs_our_saved_model(tmp_path: Path) -> None:
    network = Network()
    signature = hr.Signature({"x": network.x}, {"y": network.y})
    path = save_model(tmp_path / "m", network.session, {"serving_default": signature})
    np.testing.assert_allclose(run(path, X), network.expected, rtol=1e-5, atol=1e-6)


def test_openvino_runs_loops_of_our_saved_model(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        factor = hr.Variable(np.float32(2), name="factor")
        y = hr.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * factor), (0, x))[1]
    with hr.Session(graph) as session:
        path = save_model(tmp_path / "m", session, {"serving_default": hr.Signature({"x": x}, {"y": hr.identity(y)})})
    np.testing.assert_array_equal(run(path, np.ones((1, 2), np.float32)), [[8, 8]])


@pytest.mark.parametrize("level", LEVELS)
def test_openvino_runs_our_frozen_graphs(level: str, tmp_path: Path) -> None:
    network = Network()
    frozen = freeze(network.session, tmp_path / "g.pb", [network.y], level=level)
    np.testing.assert_allclose(run(frozen.path, X), network.expected, rtol=1e-5, atol=1e-6)


def test_openvino_runs_a_model_of_tensorflow_that_we_saved_again(tmp_path: Path) -> None:
    with load_model(DATA / "tf221_loop") as model:
        path = model.save(tmp_path / "m")
        expected = model.signatures["serving_default"](n=3, x=[1.0, 2.0])["y"]
    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    names = [port.any_name for port in compiled.inputs]
    values = {"n": np.int32(3), "x": np.array([1.0, 2.0], np.float32)}
    found = compiled([next(value for alias, value in values.items() if name.endswith(alias)) for name in names])[0]
    np.testing.assert_array_equal(found, expected)
