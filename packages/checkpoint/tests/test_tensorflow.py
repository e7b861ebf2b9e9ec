"""Our files in TensorFlow and TensorFlow's here. Left out where TensorFlow is not installed; `nox -s oracle` has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint.frozen_graph import freeze
from headrace_checkpoint.restore import Part
from headrace_checkpoint.saved_model import load_model, save_model
from headrace_checkpoint.saver import Saver
from headrace_checkpoint.tensor_bundle import ArraySlice, TensorBundle, merge_bundles, save_bundle

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf: Any = pytest.importorskip("tensorflow", reason="the oracle")
pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn",
]  # fmt: skip
SHAPES: list[tuple[int, ...]] = [(), (0,), (3, 0, 2), (5,), (2, 3)]
STRINGS = np.array([[b"", b"\x00\xff"], [b"x" * 100_000, b"\xc3\x28"]], object)


def _arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "strings": STRINGS,
        "no_strings": np.empty((0, 2), object),
        "one": np.array(b"a\0b", object),
    }
    for name in DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        for shape in SHAPES:
            high = 2 if name == "bool" else 256
            raw = rng.integers(0, high, size=(*shape, dtype.itemsize), dtype=np.uint8)
            arrays[f"{name}/{len(shape)}/{int(np.prod(shape))}"] = raw.view(dtype).reshape(shape)
    return arrays


def _equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == object or b.dtype == object:
        return bool(a.shape == b.shape and a.astype(object).tolist() == b.astype(object).tolist())
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def test_tensorflow_reads_our_bundle(tmp_path: Path) -> None:
    arrays = _arrays()
    whole = np.arange(24.0).reshape(6, 4)
    save_bundle(
        tmp_path / "m", arrays, {"t": [ArraySlice((6, 4), (row, 0), whole[row : row + 2]) for row in (0, 2, 4)]}
    )
    names = list(arrays)
    read = tf.raw_ops.RestoreV2(
        prefix=str(tmp_path / "m"),
        tensor_names=[*names, "t", "t"],
        shape_and_slices=[""] * len(names) + ["", "6 4 1,3:-"],
        dtypes=[
            *(tf.string if a.dtype == object else tf.as_dtype(a.dtype) for a in arrays.values()),
            tf.float64,
            tf.float64,
        ],
    )
    wrong = [name for name, value in zip(names, read, strict=False) if not _equal(value.numpy(), arrays[name])]
    assert wrong == []
    np.testing.assert_array_equal(read[-2], whole)
    np.testing.assert_array_equal(read[-1], whole[1:4])


def test_tensorflow_reads_our_merged_shards_and_many_names(tmp_path: Path) -> None:
    for part in range(3):
        save_bundle(tmp_path / f"p{part}", {f"layer/{part}/{i:05d}": np.array(i) for i in range(3000)})
    merge_bundles([tmp_path / f"p{part}" for part in range(3)], tmp_path / "m")
    reader = tf.train.load_checkpoint(str(tmp_path / "m"))
    assert len(reader.get_variable_to_shape_map()) == 9000
    assert reader.get_tensor("layer/2/02999") == 2999


def test_we_read_tensorflows_bundle(tmp_path: Path) -> None:
    arrays = _arrays()
    tensors = [
        tf.constant(a.tolist(), tf.string, a.shape) if a.dtype == object else tf.constant(a) for a in arrays.values()
    ]
    names = list(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "p0"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
    )
    whole = np.arange(24.0).reshape(6, 4)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "p1"),
        tensor_names=["t", "t"],
        shape_and_slices=["6 4 -:0,1", "6 4 0,6:1,3"],
        tensors=[whole[:, :1], whole[:, 1:]],
    )
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[str(tmp_path / "p0"), str(tmp_path / "p1")], destination_prefix=str(tmp_path / "m")
    )
    bundle = TensorBundle(tmp_path / "m")
    assert [name for name in names if not _equal(bundle.read(name), arrays[name])] == []
    np.testing.assert_array_equal(bundle.read("t"), whole)


def test_we_read_checkpoints_of_tf2_objects(tmp_path: Path) -> None:
    values = {"w": tf.Variable([[1.0, 2.0]]), "b": tf.Variable(3)}
    path = tf.train.Checkpoint(**values).save(str(tmp_path / "ckpt"))
    bundle = TensorBundle(path)
    assert bundle.read("w/.ATTRIBUTES/VARIABLE_VALUE").tolist() == [[1, 2]]
    assert bundle.read("b/.ATTRIBUTES/VARIABLE_VALUE") == 3
    assert len(bundle.read("_CHECKPOINTABLE_OBJECT_GRAPH").item()) > 10


class Model:
    """A graph with two trainable variables, one that is not, and a string variable, trained for some steps."""

    def __init__(self) -> None:
        self.graph = hr.Graph(seed=1)
        with self.graph.as_default():
            self.x = hr.placeholder(hr.float32, [None, 3], name="x")
            w = hr.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="layer/w")
            b = hr.Variable(np.float32(0.5), name="layer/b")
            steps = hr.Variable(np.array(0), name="steps", trainable=False)
            words = hr.Variable(np.array([b"a", b"\xff\0"], object), name="words", trainable=False)
            self.y = hr.tanh(hr.matmul(self.x, w) * 0.1 + b)
            self.words = words.value
            self.steps = steps.value
            updates: list[Any] = [w.assign_add(np.ones((3, 2), np.float32)), steps.assign_add(1)]
            self.train = hr.group(updates)

    def save(self, path: Path) -> Any:
        signature = hr.Signature(inputs={"x": self.x}, outputs={"y": self.y, "words": self.words, "steps": self.steps})
        with hr.Session(self.graph) as session:
            for _ in range(3):
                session.run(self.train)
            save_model(path, session, {"serving_default": signature})
            return session.run({"y": self.y, "words": self.words, "steps": self.steps}, feeds={self.x: X})


X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def test_tf2_loads_our_saved_model(tmp_path: Path) -> None:
    expected = Model().save(tmp_path / "m")
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    result = loaded.signatures["serving_default"](x=tf.constant(X))
    np.testing.assert_allclose(result["y"], expected["y"], rtol=1e-6)
    assert result["words"].numpy().tolist() == [b"a", b"\xff\0"]
    assert result["steps"].numpy() == 3
    assert sorted(variable.name for variable in loaded.variables) == ["layer/b:0", "layer/w:0", "steps:0", "words:0"]
    assert loaded.signatures["serving_default"].inputs[0].shape.as_list() == [None, 3]


def test_tf1_loads_saves_and_restores_our_saved_model(tmp_path: Path) -> None:
    expected = Model().save(tmp_path / "m")
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "m"))
        np.testing.assert_allclose(
            session.run(meta.signature_def["serving_default"].outputs["y"].name, {"x:0": X}), expected["y"], rtol=1e-6
        )
        trainable = [variable.name for variable in tf.compat.v1.trainable_variables()]
        assert sorted(trainable) == ["layer/b:0", "layer/w:0"]
        saver = tf.compat.v1.train.Saver.from_proto(meta.saver_def)
        prefix = saver.save(session, str(tmp_path / "again"))
        saver.restore(session, prefix)
    assert TensorBundle(prefix).read("steps") == 3


def test_tensorflow_trains_our_saved_model_on(tmp_path: Path) -> None:
    Model().save(tmp_path / "m")
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(loaded.signatures["serving_default"](x=tf.constant(X))["y"])
    gradients = tape.gradient(loss, [variable for variable in loaded.variables if variable.dtype.is_floating])
    assert [bool(np.all(np.isfinite(gradient))) for gradient in gradients] == [True, True]


def _compare(path: Path, inputs: dict[str, Any], tolerance: float = 1e-5) -> None:
    """A model of TensorFlow answers here as there; saved again here, it answers in TensorFlow as before."""
    expected = tf.saved_model.load(str(path)).signatures["serving_default"](
        **{name: tf.constant(value) for name, value in inputs.items()}
    )
    with load_model(path) as model:
        found = model.signatures["serving_default"](**inputs)
        model.save(path.with_name("again"))
    loaded = tf.saved_model.load(str(path.with_name("again")))
    again = loaded.signatures["serving_default"](**{name: tf.constant(value) for name, value in inputs.items()})
    with load_model(path.with_name("again")) as model:
        ours = model.signatures["serving_default"](**inputs)
    assert found.keys() == expected.keys() == again.keys() == ours.keys()
    for name, value in expected.items():
        for other in (found[name], again[name].numpy(), ours[name]):
            if value.dtype.is_floating:
                np.testing.assert_allclose(other, value.numpy(), rtol=tolerance, atol=tolerance)
            else:
                assert other.tolist() == value.numpy().tolist()


def _export(model: Any, path: Path) -> Path:
    model.export(str(path), verbose=False)
    return path


def test_convolutions_and_batch_normalisation(tmp_path: Path) -> None:
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            layers.Input((8, 8, 3), name="x"),
            layers.Conv2D(4, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPool2D(),
            layers.DepthwiseConv2D(3),
            layers.Conv2DTranspose(2, 2, strides=2),
            layers.Flatten(),
            layers.Dense(5, activation="softmax"),
        ]
    )
    for variable in model.variables:  # moving averages other than those of the start, too
        variable.assign(np.random.default_rng(1).uniform(0.1, 1.0, variable.shape))
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    path = _export(model, tmp_path / "m")
    (name,) = tf.saved_model.load(str(path)).signatures["serving_default"].structured_input_signature[1]
    _compare(path, {name: x})


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "SimpleRNN", "Bidirectional"])
def test_recurrent_layers(layer: str, tmp_path: Path) -> None:
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(2)
    recurrent = layers.Bidirectional(layers.LSTM(3)) if layer == "Bidirectional" else getattr(layers, layer)(7)
    model = tf.keras.Sequential(
        [layers.Input((None,), dtype="int32"), layers.Embedding(20, 6), recurrent, layers.Dense(3)]
    )
    path = _export(model, tmp_path / "m")
    (name,) = tf.saved_model.load(str(path)).signatures["serving_default"].structured_input_signature[1]
    _compare(path, {name: np.random.default_rng(0).integers(0, 20, (2, 9)).astype(np.int32)})


class Captured(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """A function that captures constants, small and large, and a table of its own name that two functions share."""

    def __init__(self) -> None:
        super().__init__()
        self.large = tf.constant(np.arange(6000, dtype=np.float32).reshape(2000, 3))
        self.small = tf.constant([1.0, 2.0, 3.0])
        self.words = tf.constant([b"zero", b"\xff", b""])
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(pairs, 0)
        self.again = self.table

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="keys")])
    def __call__(self, keys: Any) -> dict[str, Any]:
        numbers = self.table.lookup(keys) + self.again.lookup(keys)
        rows = tf.gather(self.large, numbers)
        return {"rows": rows + self.small, "words": tf.gather(self.words, self.table.lookup(keys)), "n": numbers}


def test_captured_constants_and_a_shared_table(tmp_path: Path) -> None:
    model = Captured()
    tf.saved_model.save(model, str(tmp_path / "m"), signatures=model.__call__)
    _compare(tmp_path / "m", {"keys": np.array([b"a", b"b", b"c"], object)})


def test_the_builder_of_tensorflow_1_with_reference_variables_and_a_table(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    (tmp_path / "words.txt").write_bytes(b"cat\ndog\n")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        words = v1.placeholder(tf.string, [None], name="words")
        w = v1.get_variable("w", initializer=np.full((2, 2), 3, np.float32), use_resource=False)
        b = v1.get_variable("b", initializer=np.ones(2, np.float32), use_resource=True)
        parts = v1.get_variable(
            "parts",
            shape=[4, 2],
            partitioner=v1.fixed_size_partitioner(2),
            initializer=v1.random_normal_initializer(seed=1),
        )
        asset = tf.constant(str(tmp_path / "words.txt"))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                asset, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            ),
            -1,
        )
        whole = tf.concat(list(parts), 0)
        limit = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, tf.matmul(x, w) + b))[1]
        outputs = {"y": tf.identity(limit), "n": table.lookup(words), "parts": tf.identity(whole)}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": v1.saved_model.predict_signature_def({"x": x, "words": words}, outputs)},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()
    (tmp_path / "words.txt").unlink()
    _compare(tmp_path / "m", {"x": np.ones((1, 2), np.float32), "words": np.array([b"dog", b"eel"], object)})


@pytest.mark.parametrize("name", [name for name in DTYPES if not name.startswith("float8")])
def test_variables_of_every_dtype_in_saved_models_both_ways(name: str, tmp_path: Path) -> None:
    value = _arrays()[f"{name}/2/6"]

    class Holder(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
        def __init__(self) -> None:
            super().__init__()
            self.v = tf.Variable(tf.constant(value), trainable=False, name="v")

        @tf.function(input_signature=[])
        def __call__(self) -> dict[str, Any]:
            return {"v": self.v.read_value()}

    holder = Holder()
    tf.saved_model.save(holder, str(tmp_path / "m"), signatures=holder.__call__)
    with load_model(tmp_path / "m") as model:
        assert _equal(model.signatures["serving_default"]()["v"], value)
        model.save(tmp_path / "again")
    again = tf.saved_model.load(str(tmp_path / "again"))
    assert _equal(again.signatures["serving_default"]()["v"].numpy(), value)


def test_a_checkpoint_of_tensorflow_1_in_parts_restores_into_whole_and_otherwise_divided_variables(
    tmp_path: Path,
) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        parts = v1.get_variable(
            "layer/w",
            shape=[6, 4],
            partitioner=v1.fixed_size_partitioner(3),
            initializer=v1.random_normal_initializer(),
        )
        session.run(v1.global_variables_initializer())
        whole = session.run(tf.concat(list(parts), 0))
        prefix = v1.train.Saver(sharded=True).save(session, str(tmp_path / "model.ckpt"), global_step=7)
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(np.zeros((6, 4), np.float32), name="layer/w")
    with hr.Session(graph) as session:
        assert Saver([w]).restore(session, prefix).restored == ("layer/w",)
        np.testing.assert_array_equal(session.run(w), whole)
    graph = hr.Graph()
    with graph.as_default():
        halves = [hr.Variable(np.zeros((3, 4), np.float32), name=f"half_{n}") for n in range(2)]
    places = {half.name: Part("layer/w", (6, 4), (3 * n, 0)) for n, half in enumerate(halves)}
    with hr.Session(graph) as session:
        Saver(halves, parts=places).restore(session, prefix)
        np.testing.assert_array_equal(np.concatenate(session.run(halves)), whole)


def _run_frozen(frozen: Any, feeds: list[Any]) -> list[Any]:
    """Run a frozen graph in TensorFlow."""
    proto = tf.compat.v1.GraphDef.FromString(frozen.path.read_bytes())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(proto, name="")
        found: list[Any] = session.run(list(frozen.outputs), dict(zip(frozen.inputs, feeds, strict=True)))
        return found


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
def test_C35_tensorflow_runs_our_frozen_graphs(level: str, tmp_path: Path) -> None:
    """Ours; and its own, with functions, a loop, a branch, convolutions and batch normalisation."""
    line = Model()
    with hr.Session(line.graph) as session:
        expected = session.run(line.y, feeds={line.x: X})
        (found,) = _run_frozen(freeze(session, tmp_path / "g.pb", [line.y], level=level), [X])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    data = Path(__file__).parent / "data" / "tf221_loop"
    with load_model(data) as model:
        (found,) = _run_frozen(freeze(model, tmp_path / "g.pb", level=level), [8, [1.0, 2.0, 3.0]])
    assert found.tolist() == [29.0, 61.0, 93.0]
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(3)
    keras = tf.keras.Sequential(
        [
            layers.Input((8, 8, 3)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(5),
            layers.BatchNormalization(),
        ]
    )
    for variable in keras.variables:
        variable.assign(np.random.default_rng(1).uniform(0.1, 1.0, variable.shape))
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    with load_model(_export(keras, tmp_path / "m")) as model:
        frozen = freeze(model, tmp_path / "g.pb", level=level)
    (found,) = _run_frozen(frozen, [x])
    np.testing.assert_allclose(found, keras(x, training=False).numpy(), rtol=1e-4, atol=1e-4)
    types = [node.op for node in tf.compat.v1.GraphDef.FromString(frozen.path.read_bytes()).node]
    assert ("Mul" in types) == (level == "basic")  # at none it is in functions, from extended on in the weights


@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
def test_recurrent_layers_freeze(layer: str, tmp_path: Path) -> None:
    tf.keras.utils.set_random_seed(2)
    layers = tf.keras.layers
    keras = tf.keras.Sequential([layers.Input((None, 3)), getattr(layers, layer)(7), layers.Dense(3)])
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    expected = keras(x).numpy()
    path = _export(keras, tmp_path / "m")
    for level in ("none", "all"):
        with load_model(path) as model:
            frozen = freeze(model, tmp_path / "g.pb", level=level)
        np.testing.assert_allclose(_run_frozen(frozen, [x])[0], expected, rtol=1e-5, atol=1e-6)
        with hr.Session(hr.import_graph_def(frozen.path)) as session:
            ours = session.run(frozen.outputs[0], feeds={frozen.inputs[0]: x})
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
