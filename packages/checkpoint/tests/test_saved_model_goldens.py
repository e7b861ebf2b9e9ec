"""Saved models that TensorFlow wrote: loaded, trained on and saved again, without TensorFlow.

`data/write_saved_models.py` wrote them, and what TensorFlow answers.
"""

from __future__ import annotations

import json
import re
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import DataLossError, HeadraceError, NotFoundError
from headrace_checkpoint.inspection import inspect_path
from headrace_checkpoint.model_description import read_saved_model
from headrace_checkpoint.proto.saved_model_pb2 import MetaGraphDef, SavedModel
from headrace_checkpoint.saved_model import LoadedModel, load_model, save_model
from headrace_checkpoint.tensor_bundle import TensorBundle

DATA = Path(__file__).parent / "data"
ANSWERS: dict[str, Any] = json.loads((DATA / "answers.json").read_text())
LOOP, LOOKUP = ANSWERS["loop"], ANSWERS["lookup"]
WORDS = np.array([word.encode("latin-1") for word in LOOKUP["words"]], object)


def looked_up(model: LoadedModel) -> dict[str, list[int]]:
    return {alias: value.tolist() for alias, value in model.signatures["serving_default"](words=WORDS).items()}


BUILDER = ANSWERS["builder"]
FOUND = {alias: LOOKUP[alias] for alias in ("table", "vocabulary")}


@pytest.fixture
def lookup(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "tf221_lookup", tmp_path / "lookup"))


def edit(path: Path, change: Callable[[MetaGraphDef], object]) -> None:
    model = SavedModel.FromString((path / "saved_model.pb").read_bytes())
    change(model.meta_graphs[0])
    (path / "saved_model.pb").write_bytes(model.SerializeToString())


def test_while_and_cond_in_functions_give_what_tensorflow_gives() -> None:
    with load_model(DATA / "tf221_loop") as model:
        signature = model.signatures["serving_default"]
        assert str(signature) == "<signature 'serving_default' (n: int32[], x: float32[?]) -> (y: float32[?])>"
        assert signature(n=LOOP["n"], x=LOOP["x"])["y"].tolist() == LOOP["y"]
        assert [(v.name, v.trainable) for v in model.graph.variables] == [("factor", True)]


def test_a_model_of_tensorflow_is_trained_on_and_saved_again(tmp_path: Path) -> None:
    with load_model(DATA / "tf221_loop") as model:
        signature = model.signatures["serving_default"]
        n, x, y = (model.graph.tensor(item.name) for item in (*signature.inputs.values(), *signature.outputs.values()))
        with model.graph.as_default():
            # For two rounds of doubling: (f * f * 1 - 16)^2 is 0 at f = 4.
            loss = hr.sum(hr.square(y - 16.0))
            train = hr.optim.SGD(0.001).minimize(loss)
        feeds = {n: 2, x: np.ones(1, np.float32)}
        first = model.session.run(loss, feeds=feeds)
        for _ in range(100):
            model.session.run(train, feeds=feeds)
        assert first == 144
        assert model.session.run(loss, feeds=feeds) < 1e-3
        trained = model.session.read_variables(["factor"])["factor"]
        model.save(tmp_path / "again")
    with load_model(DATA / "tf221_loop") as model:
        model.save(tmp_path / "untrained")
    # Loops and calls that were differentiated give what a gradient reads, which a saved model has no use for.
    trained_once, never = (read_saved_model(tmp_path / name).graph_def.library for name in ("again", "untrained"))
    assert sorted(str(f.signature) for f in trained_once.function) == sorted(str(f.signature) for f in never.function)
    assert {node.op for node in read_saved_model(tmp_path / "again").graph_def.node}.isdisjoint({"Square", "Sum"})
    with load_model(tmp_path / "again") as again:
        expected = np.float32(trained) * np.float32(trained) * np.float32(3)
        assert again.signatures["serving_default"](n=2, x=[3.0])["y"] == pytest.approx([expected])
        assert [(v.name, v.trainable) for v in again.graph.variables] == [("factor", True)]


def test_a_model_of_tensorflow_1_with_reference_variables_and_loops_of_primitives(tmp_path: Path) -> None:
    with load_model(DATA / "tf221_builder") as model:
        assert model.signatures["serving_default"](x=BUILDER["x"])["y"].tolist() == BUILDER["y"]
        assert sorted(v.name for v in model.graph.variables) == ["factor", "offsets/part_0", "offsets/part_1", "step"]
        assert all(variable.trainable for variable in model.graph.variables)
        assert {"Enter", "Merge", "Switch"} <= {op.type for op in model.graph.operations}
        model.session.write_variables({"factor": np.float32(1)})
        model.save(tmp_path / "again")
    with load_model(tmp_path / "again") as again:
        assert again.signatures["serving_default"](x=BUILDER["x"])["y"].tolist() == [5, 6]


def test_only_functions_that_are_called_are_saved_again(tmp_path: Path) -> None:
    with load_model(DATA / "tf221_loop") as model:
        model.save(tmp_path / "again")
    before, after = (
        {
            re.sub(r"_\d+\Z", "", function.signature.name)
            for function in read_saved_model(path).graph_def.library.function
        }
        for path in (DATA / "tf221_loop", tmp_path / "again")
    )
    assert before - after == {"__inference__traced_save", "__inference__traced_restore"}
    assert {"while_body", "while_cond", "while_cond_true", "while_cond_false"} <= after


def test_tables_of_strings_are_filled_from_constants_and_from_an_asset() -> None:
    with load_model(DATA / "tf221_lookup") as model:
        assert looked_up(model) == FOUND


def test_a_model_moves_with_its_assets_and_is_saved_again_with_them(lookup: Path, tmp_path: Path) -> None:
    moved = lookup.rename(tmp_path / "moved")
    with load_model(moved) as model:
        again = model.save(tmp_path / "again")
    shutil.rmtree(moved)
    assert [file.name for file in (again / "assets").iterdir()] == ["vocabulary.txt"]
    with load_model(again) as model:
        assert looked_up(model) == FOUND
        model.save(tmp_path / "third")
    with load_model(tmp_path / "third") as model:
        assert looked_up(model) == FOUND


def test_another_vocabulary_gives_other_numbers(lookup: Path) -> None:
    (lookup / "assets" / "vocabulary.txt").write_bytes(b"a\nx\n\xff\n")
    with load_model(lookup) as model:
        assert looked_up(model)["vocabulary"][:3] == [0, 1, 2]


def test_an_asset_that_is_missing_is_named(lookup: Path) -> None:
    (lookup / "assets" / "vocabulary.txt").unlink()
    with pytest.raises(HeadraceError, match=r"vocabulary\.txt"):
        load_model(lookup)


@pytest.mark.parametrize("name", ["../secret", "/etc/hosts", "a/b", "..", ".", "", "a\\b", "a\0b"])
def test_an_asset_outside_the_model_is_refused(lookup: Path, name: str) -> None:
    edit(lookup, lambda meta: setattr(meta.asset_file_def[0], "filename", name))
    with pytest.raises(DataLossError, match=r"names an asset outside its folder[^$]*do not trust"):
        load_model(lookup)


def test_an_asset_of_a_tensor_that_is_not_there(lookup: Path) -> None:
    edit(lookup, lambda meta: setattr(meta.asset_file_def[0].tensor_info, "name", "absent:0"))
    with pytest.raises(NotFoundError, match="absent"):
        load_model(lookup)


def test_a_description_of_a_variable_that_is_none(lookup: Path) -> None:
    edit(lookup, lambda meta: meta.collection_def["variables"].bytes_list.value.append(b"\xff"))
    with pytest.raises(DataLossError, match=r"description of a variable of the saved model is damaged[^$]*VariableDef"):
        load_model(lookup)


def test_a_collection_of_tensorflow_1_lists_the_assets_too(lookup: Path) -> None:
    def change(meta: MetaGraphDef) -> None:
        encoded = meta.asset_file_def[0].SerializeToString()
        meta.collection_def["saved_model_assets"].any_list.value.add(value=encoded)
        del meta.asset_file_def[:]

    edit(lookup, change)
    with load_model(lookup) as model:
        assert looked_up(model) == FOUND
    assert "  asset vocabulary.txt: 6 bytes" in (inspect_path(lookup) or [])
    edit(lookup, lambda meta: meta.collection_def["saved_model_assets"].any_list.value.add(value=b"\xff"))
    with pytest.raises(DataLossError, match=r"description of an asset of the saved model is damaged[^$]*AssetFileDef"):
        load_model(lookup)


def test_an_initializer_that_is_not_there(lookup: Path) -> None:
    def change(meta: MetaGraphDef) -> None:
        meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "absent"

    edit(lookup, change)
    with pytest.raises(NotFoundError, match="absent"):
        load_model(lookup)


def test_collections_of_tensorflow_1_name_the_initializer_too(lookup: Path) -> None:
    def change(meta: MetaGraphDef) -> None:
        name = meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name
        del meta.signature_def["__saved_model_init_op"]
        meta.collection_def["legacy_init_op"].node_list.value.append(name)

    edit(lookup, change)
    with load_model(lookup) as model:
        assert looked_up(model) == FOUND


def test_what_inspect_shows(lookup: Path) -> None:
    lines = inspect_path(lookup)
    assert lines is not None
    assert "  asset vocabulary.txt: 6 bytes" in lines
    assert "  initializer NoOp" in lines
    assert [line for line in lines if line.startswith("  signature")] == ["  signature serving_default"]
    assert any(re.match(r"  function __inference___call___\d+\(words: string, ", line) for line in lines)
    assert lines[0].endswith(", tags serve, written by TensorFlow 2.21.0")
    (lookup / "assets" / "vocabulary.txt").unlink()
    missing = inspect_path(lookup)
    assert missing is not None
    assert "  asset vocabulary.txt: MISSING" in missing


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=3
    )
)
def test_fuzzed_models_of_tensorflow_give_a_typed_error_or_a_model(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[float, int, bytes]]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed-lookup"
    if not folder.exists():
        shutil.copytree(DATA / "tf221_lookup", folder)
    fuzzed = bytearray((DATA / "tf221_lookup" / "saved_model.pb").read_bytes())
    for where, length, replacement in edits:
        at = int(where * len(fuzzed))
        fuzzed[at : at + length] = replacement
    (folder / "saved_model.pb").write_bytes(fuzzed)
    tracemalloc.start()
    try:
        load_model(folder).close()
    except HeadraceError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200 * len(fuzzed) + 5_000_000


class Vocabulary:
    """A graph with two tables, each filled from a file."""

    def __init__(self) -> None:
        self.graph = hr.Graph()
        with self.graph.as_default():
            self.words = hr.placeholder(hr.string, [None], name="words")
            self.paths = [hr.placeholder(hr.string, [], name=f"path_{n}") for n in range(2)]
            self.tables = [hr.HashTable.from_text_file(path) for path in self.paths]
            self.outputs = {f"in_{n}": table.lookup(self.words) for n, table in enumerate(self.tables)}

    def save(self, path: Path, files: list[Path]) -> Path:
        with hr.Session(self.graph) as session:
            return save_model(
                path,
                session,
                {"serving_default": hr.Signature(inputs={"words": self.words}, outputs=self.outputs)},
                initializers=[table.initializer for table in self.tables],
                assets=dict(zip(self.paths, files, strict=True)),
            )


@pytest.mark.parametrize("same", [True, False])
def test_assets_of_one_name_are_kept_apart_unless_they_are_the_same(tmp_path: Path, same: bool) -> None:
    files = [tmp_path / folder / "words.txt" for folder in ("a", "b")]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_bytes(b"cat\ndog\n" if same or number == 0 else b"dog\ncat\n")
    path = Vocabulary().save(tmp_path / "m", files)
    names = sorted(file.name for file in (path / "assets").iterdir())
    assert names == (["words.txt"] if same else ["1_words.txt", "words.txt"])
    for file in files:
        file.unlink()
    with load_model(path) as model:
        found = model.signatures["serving_default"](words=np.array([b"dog", b"bird"], object))
    assert {alias: value.tolist() for alias, value in found.items()} == {
        "in_0": [1, -1],
        "in_1": [1 if same else 0, -1],
    }


def test_the_initializers_wait_for_one_operation_that_loaders_run(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_bytes(b"a\n")
    model = Vocabulary()
    meta = read_saved_model(model.save(tmp_path / "m", [tmp_path / "words.txt"] * 2))
    (name,) = meta.collection_def["saved_model_main_op"].node_list.value
    (node,) = [node for node in meta.graph_def.node if node.name == name]
    assert (node.op, list(node.input)) == ("NoOp", [f"^{table.initializer.name}" for table in model.tables])


def test_an_asset_to_save_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no such asset[^$]*'path_0:0'[^$]*absent\.txt"):
        Vocabulary().save(tmp_path / "m", [tmp_path / "absent.txt"] * 2)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFoundError, match="no such asset"):
        Vocabulary().save(tmp_path / "m", [tmp_path / "folder"] * 2)


def test_the_values_are_those_of_the_bundle() -> None:
    bundle = TensorBundle(DATA / "tf221_loop" / "variables" / "variables")
    (name,) = [name for name in bundle if name.startswith("factor/")]
    with load_model(DATA / "tf221_loop") as model:
        assert model.session.read_variables(["factor"])["factor"] == bundle.read(name) == 2
