"""Saved models: export what the signatures need, load it again, refuse what is damaged."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    FeedError,
    GraphError,
    HeadraceError,
    InvalidArgumentError,
    NotFoundError,
)
from headrace.graph.proto.tensor_pb2 import TensorProto
from headrace.graph.proto.types_pb2 import DataType
from headrace_checkpoint.durable import Disk
from headrace_checkpoint.model_description import read_saved_model
from headrace_checkpoint.proto.saved_model_pb2 import SavedModel
from headrace_checkpoint.saved_model import LoadedModel, load_model, save_model
from headrace_checkpoint.tensor_bundle import TensorBundle


class Scale:
    """y = x * w + b with a training operation beside it."""

    def __init__(self) -> None:
        self.graph = hr.Graph()
        with self.graph.as_default():
            self.x = hr.placeholder(hr.float32, [None, 2], name="x")
            self.w = hr.Variable(np.array([2.0, 3.0], np.float32), name="layer/w")
            self.b = hr.Variable(np.float32(1.0), name="layer/b", trainable=False)
            self.unused = hr.Variable(np.zeros(1000, np.float32), name="optimizer/m")
            self.y = hr.add(hr.multiply(self.x, self.w), self.b, name="y")
            self.train: Any = self.w.assign_add([1.0, 1.0])

    @property
    def signature(self) -> hr.Signature:
        return hr.Signature(inputs={"x": self.x}, outputs={"out": self.y})

    def save(self, path: Path, train: int = 0) -> Path:
        with hr.Session(self.graph) as session:
            for _ in range(train):
                session.run(self.train)
            return save_model(path, session, {"serving_default": self.signature})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Scale().save(tmp_path / "scale" / "1", train=1)


X = np.array([[1.0, 10.0], [0.0, -1.0]], np.float32)
Y = np.array([[4.0, 41.0], [1.0, -3.0]], np.float32)


def test_a_saved_model_loads_and_gives_the_same_results(path: Path) -> None:
    with load_model(path) as model:
        signature = model.signatures["serving_default"]
        result = signature(x=X)
        assert result.keys() == {"out"}
        assert result["out"].dtype == np.float32
        np.testing.assert_array_equal(result["out"], Y)
        assert (str(signature.inputs["x"]), str(signature.outputs["out"])) == ("float32[?, 2]", "float32[?, 2]")
        assert signature.inputs["x"].name == "x:0"
        assert repr(signature) == "<signature 'serving_default' (x: float32[?, 2]) -> (out: float32[?, 2])>"
        assert "serving_default" in repr(model)


def test_a_loaded_model_is_a_graph_with_a_session(path: Path) -> None:
    with load_model(path) as model:
        np.testing.assert_array_equal(model.session.run("y:0", feeds={"x:0": X}), Y)
        assert isinstance(model.graph, hr.Graph)
    with pytest.raises(FailedPreconditionError, match="closed"):
        model.signatures["serving_default"](x=X)


def test_A09_only_what_the_signatures_need_is_exported(path: Path) -> None:
    meta = read_saved_model(path)
    operations = {node.op for node in meta.graph_def.node}
    assert "AssignAddVariableOp" not in operations
    assert sorted(TensorBundle(path / "variables" / "variables")) == ["layer/b", "layer/w"]
    assert {node.device for node in meta.graph_def.node} == {""}


def test_a_signature_that_is_not_there_is_answered_with_those_that_are(path: Path) -> None:
    with load_model(path) as model:
        with pytest.raises(NotFoundError, match=r"no signature 'default'(.|\n)*serving_default"):
            model.signatures["default"]
        assert model.signatures.get("default") is None


def test_a_wrong_value_is_told_with_the_name_that_the_caller_used(path: Path) -> None:
    with load_model(path) as model, pytest.raises(FeedError) as caught:
        model.signatures["serving_default"](x=np.zeros((1, 5), np.float32))
    assert "signature 'serving_default', whose inputs are the graph's x=x:0" in caught.value.__notes__[0]


@pytest.mark.parametrize("by", ["input", "control input", "control input of an operation without outputs"])
def test_an_output_that_needs_a_placeholder_that_is_no_input_is_refused(by: str, tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, rate = hr.placeholder(hr.float32, [2], name="x"), hr.placeholder(hr.float32, [], name="rate")
        before = hr.identity(rate) if by == "control input" else hr.group([hr.identity(rate)])
        with hr.control_dependencies([] if by == "input" else [before]):
            y = x * rate if by == "input" else hr.identity(x)
    with hr.Session(graph) as session:
        with pytest.raises(GraphError, match=r"output 'y' of signature 'f' needs a placeholder(.|\n)*rate:0 among"):
            save_model(tmp_path / "1", session, {"f": hr.Signature(inputs={"x": x}, outputs={"y": y})})
        assert not (tmp_path / "1").exists()
        save_model(tmp_path / "1", session, {"f": hr.Signature(inputs={"x": x, "rate": rate}, outputs={"y": y})})


def test_a_model_that_was_made_on_devices_that_are_not_here_loads_and_runs(path: Path) -> None:
    file = path / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    for node in model.meta_graphs[0].graph_def.node:
        node.device = "/job:worker/replica:0/task:3/device:GPU:0"
    file.write_bytes(model.SerializeToString())
    with load_model(path) as loaded:
        result = loaded.signatures["serving_default"](x=[[1.0, 1.0]])
    np.testing.assert_array_equal(result["out"], [[4.0, 5.0]])


def test_the_exported_graph_can_save_again(path: Path, tmp_path: Path) -> None:
    """The path that TensorFlow takes: feed the file name, run the save operation."""
    saver = read_saved_model(path).saver_def
    with load_model(path) as model:
        model.session.run(saver.save_tensor_name, feeds={saver.filename_tensor_name: str(tmp_path / "again").encode()})
    again = TensorBundle(tmp_path / "again").read_all()
    assert {name: value.tolist() for name, value in again.items()} == {"layer/w": [3, 4], "layer/b": 1}


def test_load_change_save_again(path: Path, tmp_path: Path) -> None:
    with load_model(path) as model:
        model.session.write_variables({"layer/w": np.zeros(2, np.float32)})
        signature = hr.Signature(inputs={"x": model.graph.tensor("x:0")}, outputs={"out": model.graph.tensor("y:0")})
        second = save_model(tmp_path / "scale" / "2", model.session, {"serving_default": signature})
    first_nodes = len(read_saved_model(path).graph_def.node)
    assert len(read_saved_model(second).graph_def.node) == first_nodes
    with load_model(second) as model:
        np.testing.assert_array_equal(model.signatures["serving_default"](x=X)["out"], np.ones((2, 2)))


def test_values_may_stay_in_the_mapped_files_until_they_are_changed(path: Path, tmp_path: Path) -> None:
    files = [file.read_bytes() for file in sorted((path / "variables").iterdir())]
    with load_model(path, mapped=True) as model:
        values = model.session.read_variables(copy=False)
        assert all(_is_mapped(value) for value in values.values())
        np.testing.assert_array_equal(model.signatures["serving_default"](x=X)["out"], Y)
        with model.graph.as_default():
            grown = next(v for v in model.graph.variables if v.name == "layer/w").assign_add([1.0, 1.0])
        model.session.run(grown)
        values = model.session.read_variables(copy=False)
        assert (_is_mapped(values["layer/w"]), _is_mapped(values["layer/b"])) == (False, True)
        np.testing.assert_array_equal(model.signatures["serving_default"](x=X)["out"], Y + X)
        again = TensorBundle(model.save(tmp_path / "again") / "variables" / "variables")
        assert again.read("layer/w").tolist() == [4.0, 5.0]
    assert [file.read_bytes() for file in sorted((path / "variables").iterdir())] == files
    with load_model(path) as model:
        assert not any(_is_mapped(value) for value in model.session.read_variables(copy=False).values())


def test_values_that_differ_from_their_files_are_not_left_there(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [], name="x")
        names = hr.Variable(["a", "b"], name="names")
        weight = hr.Variable(np.float32(2.0), name="weight")
        ready = weight.assign(np.float32(3.0))
        signature = hr.Signature(inputs={"x": x}, outputs={"y": x * weight, "names": names.read()})
    with hr.Session(graph) as session:
        folder = save_model(tmp_path / "m", session, {"s": signature}, initializers=[ready])
    with load_model(folder, mapped=True) as model:
        assert model.signatures["s"](x=2.0)["y"] == 6.0
        assert not any(_is_mapped(value) for value in model.session.read_variables(copy=False).values())


def _is_mapped(value: Any) -> bool:
    while value is not None and not isinstance(value, np.memmap):
        value = getattr(value, "base", None)
    return value is not None


def test_two_models_in_one_process_do_not_share_variables(path: Path, tmp_path: Path) -> None:
    other = Scale().save(tmp_path / "other", train=5)
    with load_model(path) as a, load_model(other) as b:
        ones = np.ones((1, 2), np.float32)
        assert a.signatures["serving_default"](x=ones)["out"].tolist() == [[4, 5]]
        assert b.signatures["serving_default"](x=ones)["out"].tolist() == [[8, 9]]


def test_variables_of_the_process_are_exported_with_their_value(tmp_path: Path) -> None:
    w = hr.Variable(np.array([5.0], np.float32), name="saved/w")
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1], name="x")
        y = x * w
    with hr.Session(graph) as session:
        save_model(tmp_path / "m", session, {"f": hr.Signature(inputs={"x": x}, outputs={"y": y})})
    w.assign(np.array([0.0], np.float32))
    with load_model(tmp_path / "m") as model:
        assert model.signatures["f"](x=[2.0])["y"].tolist() == [10]
    assert w.numpy().tolist() == [0]


def test_a_model_without_variables(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.int32, [], name="x")
        signature = hr.Signature(inputs={"x": x}, outputs={"y": hr.add(x, 1)})
    with hr.Session(graph) as session:
        save_model(tmp_path / "m", session, {"f": signature})
    assert [entry.name for entry in (tmp_path / "m").iterdir()] == ["saved_model.pb"]
    with load_model(tmp_path / "m") as model:
        assert model.signatures["f"](x=2)["y"] == 3
        assert model.signatures["f"].inputs["x"].shape == hr.Shape([])


def test_strings_and_unknown_shapes(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        words = hr.Variable(np.array([b"a", b"\xff"], object), name="words", trainable=False)
        x = hr.placeholder(hr.float32, None, name="x")
        signature = hr.Signature(inputs={"x": x}, outputs={"x": hr.identity(x), "words": words.value})
    with hr.Session(graph) as session:
        save_model(tmp_path / "m", session, {"f": signature})
    with load_model(tmp_path / "m") as model:
        assert model.signatures["f"].inputs["x"].shape.rank is None
        result = model.signatures["f"](x=np.ones((2, 3)))
        assert (result["x"].shape, result["words"].tolist()) == ((2, 3), [b"a", b"\xff"])


def test_the_operation_that_makes_a_model_ready_is_run(path: Path) -> None:
    """Models with lookup tables have one; here it adds 10 to a variable."""
    file = path / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    (meta,) = model.meta_graphs
    ten = meta.graph_def.node.add(name="ten", op="Const")
    ten.attr["dtype"].type = DataType.DT_FLOAT
    ten.attr["value"].tensor.CopyFrom(TensorProto(dtype=DataType.DT_FLOAT, float_val=[10.0]))
    ten.attr["value"].tensor.tensor_shape.dim.add(size=2)
    ready = meta.graph_def.node.add(name="ready", op="AssignAddVariableOp", input=["layer/w", "ten"])
    ready.attr["dtype"].type = DataType.DT_FLOAT
    meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "ready"
    file.write_bytes(model.SerializeToString())
    with load_model(path) as loaded:
        assert list(loaded.signatures) == ["serving_default"]
        assert loaded.session.read_variables(["layer/w"])["layer/w"].tolist() == [13, 14]


def test_several_signatures_share_variables(tmp_path: Path) -> None:
    model = Scale()
    with hr.Session(model.graph) as session:
        weights = hr.Signature(inputs={}, outputs={"w": model.w.value, "b": model.b.value})
        save_model(tmp_path / "m", session, {"serving_default": model.signature, "weights": weights})
    with load_model(tmp_path / "m") as loaded:
        assert sorted(loaded.signatures) == ["serving_default", "weights"]
        assert loaded.signatures["weights"]()["w"].tolist() == [2, 3]


def test_inputs_that_a_signature_lacks_are_named(path: Path) -> None:
    with load_model(path) as model:
        signature = model.signatures["serving_default"]
        with pytest.raises(
            FeedError, match=r"inputs of signature 'serving_default'[^$]*x: float32\[\?, 2\]\n *got: *v\n"
        ):
            signature(v=X)
        with pytest.raises(FeedError, match=r"got: *none"):
            signature()
        with pytest.raises(FeedError, match="x"):
            signature(x=np.ones((2, 3), np.float32))
        np.testing.assert_array_equal(signature(x=X)["out"], Y)


def test_threads_call_one_model(path: Path) -> None:
    results = []
    with load_model(path) as model:

        def call(value: float) -> None:
            for _ in range(50):
                out = model.signatures["serving_default"](x=np.full((1, 2), value, np.float32))["out"]
                results.append(out.tolist() == [[3 * value + 1, 4 * value + 1]])

        threads = [threading.Thread(target=call, args=(float(value),)) for value in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 200
    assert all(results)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    model, other = Scale(), Scale()
    with hr.Session(model.graph) as session:
        with pytest.raises(InvalidArgumentError, match="at least one signature"):
            save_model(tmp_path / "m", session, {})
        single = hr.Signature(inputs={"x": model.x}, outputs={"x": model.x})
        with pytest.raises(InvalidArgumentError, match="at least one signature\n.*a dictionary.*\n.*a Signature"):
            save_model(tmp_path / "m", session, single)  # type: ignore[arg-type]  # the mistake under test
        with pytest.raises(InvalidArgumentError, match="signature 'f' has no output"):
            save_model(tmp_path / "m", session, {"f": hr.Signature(inputs={"x": model.x}, outputs={})})
        with pytest.raises(GraphError, match="'x' of signature 'f' is not in the session's graph"):
            save_model(tmp_path / "m", session, {"f": hr.Signature(inputs={"x": other.x}, outputs={"y": model.y})})
        for alias in ("in", "a-b", ""):
            with pytest.raises(InvalidArgumentError, match="a name that callers cannot use"):
                save_model(tmp_path / "m", session, {"f": hr.Signature({alias: model.x}, {"y": model.y})})
        assert list(tmp_path.iterdir()) == []
        model.save(tmp_path / "m")
        with pytest.raises(AlreadyExistsError, match=r"of this name already[^$]*next version"):
            save_model(tmp_path / "m", session, {"f": model.signature})


class LoggedDisk(Disk):
    """Logs which folders are forced to the disk; fails at the n-th file."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.synced: list[str] = []

    def create(self, path: Path) -> int:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        self.room -= 1
        return super().create(path)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self.synced.append(path.name.partition("~")[0])


def test_an_export_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    model = Scale()
    with hr.Session(model.graph) as session:
        for room in range(3):
            with pytest.raises(OSError, match="No space left"):
                save_model(tmp_path / "m" / "1", session, {"f": model.signature}, disk=LoggedDisk(room))
            assert list((tmp_path / "m").iterdir()) == []
        disk = LoggedDisk(3)
        save_model(tmp_path / "m" / "1", session, {"f": model.signature}, disk=disk)
    assert disk.synced[-3:] == ["variables", ".tmp-1", "m"]


def test_models_that_are_not_there(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no saved model here[^$]*saved_model\.pb"):
        load_model(tmp_path)
    with pytest.raises(NotFoundError, match=r"no graph of these tags[^$]*one of: serve\n *got: *serve,gpu"):
        load_model(path, tags=("serve", "gpu"))


def test_K09_damaged_variables_are_refused(path: Path) -> None:
    data = path / "variables" / "variables.data-00000-of-00001"
    good = data.read_bytes()
    for index in range(len(good)):
        data.write_bytes(good[:index] + bytes([good[index] ^ 1]) + good[index + 1 :])
        with pytest.raises(DataLossError, match="is damaged"):
            load_model(path)
    data.unlink()
    with pytest.raises(NotFoundError, match=r"shard 0 of 1 of the checkpoint is missing"):
        load_model(path)


def test_damaged_descriptions_are_refused(path: Path) -> None:
    file = path / "saved_model.pb"
    file.write_bytes(b"\xff" + file.read_bytes())
    with pytest.raises(DataLossError, match="the saved model is damaged"):
        load_model(path)
    file.write_bytes(SavedModel(saved_model_schema_version=7).SerializeToString())
    with pytest.raises(DataLossError, match=r"not a saved model[^$]*schema version 7, 0 graphs"):
        load_model(path)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=3
    )
)
def test_fuzzed_descriptions_give_a_typed_error_or_a_model(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[float, int, bytes]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed-model"
    if not folder.exists():
        Scale().save(folder)
    file = folder / "saved_model.pb"
    good = file.read_bytes()
    fuzzed = bytearray(good)
    for where, length, replacement in edits:
        at = int(where * len(fuzzed))
        fuzzed[at : at + length] = replacement
    file.write_bytes(fuzzed)
    tracemalloc.start()
    try:
        model: LoadedModel | None = load_model(folder)
    except HeadraceError:
        model = None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        file.write_bytes(good)
    if model is not None:
        model.close()
    assert peak < 200 * len(fuzzed) + 5_000_000


def test_a_loop_that_was_differentiated_is_saved_without_what_only_its_gradient_reads(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None], name="x")
        w = hr.Variable(1.5, name="w")
        y = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * w), (hr.constant(0), x))[1]
        train = hr.optim.SGD(0.1).minimize(hr.sum(y))
    sizes = []
    with hr.Session(graph) as session:
        signature = hr.Signature(inputs={"x": x}, outputs={"y": y})
        for name in ("before", "after"):
            save_model(tmp_path / name, session, {"serving_default": signature})
            nodes = read_saved_model(tmp_path / name).graph_def.node
            sizes.append([len(node.attr["T"].list.type) for node in nodes if node.op == y.op.type])
            session.run(train, feeds={x: [1.0]})
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 1


def test_a_signature_that_gives_a_gradient_keeps_what_it_reads(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [], name="x")
        y = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), (hr.constant(0), x))[1]
        (slope,) = hr.gradients(y, [x])
    with hr.Session(graph) as session:
        signature = hr.Signature(inputs={"x": x}, outputs={"y": y, "slope": slope})
        save_model(tmp_path / "m", session, {"serving_default": signature})
    with load_model(tmp_path / "m") as model:
        found = model.signatures["serving_default"](x=2.0)
    assert (found["y"], found["slope"]) == (16, 32)
