"""Our files in TensorFlow and TensorFlow's here. Left out where TensorFlow is not installed; `nox -s oracle` has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint.saved_model import save_model
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
