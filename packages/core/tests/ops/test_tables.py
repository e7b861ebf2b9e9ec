"""Tables that live in a session."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError


def test_table_is_filled_once_and_read_in_every_session() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.HashTable(["the", "cat"], [1.5, 2.5], default=-1)
        words = hr.placeholder(hr.string, [None, 2])
        found, size = table.lookup(words), table.size()
        entries = hr.apply_op("LookupTableExportV2", table.handle, Tkeys=hr.string, Tvalues=hr.float32)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.FailedPreconditionError, match="is empty yet"):
        session.run(size)
    session.run(table.initializer)
    session.run(table.initializer)  # the same entries again
    assert session.run(found, feeds={words: [["the", "dog"], ["cat", "the"]]}).tolist() == [[1.5, -1], [2.5, 1.5]]
    assert session.run(found, feeds={words: np.zeros((0, 2), object)}).shape == (0, 2)
    assert session.run(size) == 2
    keys, values = session.run(entries)
    assert keys.tolist() == [b"the", b"cat"]
    assert values.tolist() == [1.5, 2.5]
    with pytest.raises(hr.errors.FailedPreconditionError, match="is empty yet"):
        hr.Session(graph).run(size)


def test_integers_to_strings() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.HashTable(np.array([3, -4]), ["three", "minus four"], default="?")
        found = table.lookup(np.array([-4, 0, 3]))
    session = hr.Session(graph)
    session.run(table.initializer)
    assert session.run(found).tolist() == [b"minus four", b"?", b"three"]


def test_wrong_entries_are_refused() -> None:
    with hr.Graph().as_default() as graph:
        double = hr.HashTable(["a", "a"], [1, 2], default=0)
        table = hr.HashTable(["a"], [1], default=0)
        other = hr.apply_op("LookupTableImportV2", table.handle, ["b"], [2])
        keys = hr.placeholder(hr.string, None)
        uneven = hr.apply_op("LookupTableImportV2", double.handle, keys, [1, 2])
        integers = hr.apply_op("LookupTableFindV2", table.handle, [1], 0)
        default = hr.placeholder(hr.int32, None)
        many = hr.apply_op("LookupTableFindV2", table.handle, ["a"], default)
        with pytest.raises(hr.errors.ShapeError, match="each key has one value"):
            hr.HashTable(["a", "b"], [1], default=0)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.InvalidArgumentError, match="key has two values"):
        session.run(double.initializer)
    with pytest.raises(hr.errors.ShapeError, match="each key has one value"):
        session.run(uneven, feeds={keys: ["a"]})
    session.run(table.initializer)
    with pytest.raises(hr.errors.FailedPreconditionError, match="is filled already"):
        session.run(other)
    with pytest.raises(hr.errors.DTypeError, match="has other dtypes"):
        session.run(integers)
    with pytest.raises(hr.errors.ShapeError, match="must be a scalar"):
        session.run(many, feeds={default: [1, 2]})


def test_shapes_that_show_only_in_the_step_are_refused_there() -> None:
    with hr.Graph().as_default() as graph:
        keys, default = hr.placeholder(hr.int32, None), hr.placeholder(hr.int32, None)
        table = hr.HashTable(keys, [1, 2], default=default)
        found = table.lookup([1])
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="each key has one value"):
        session.run(table.initializer, feeds={keys: [1, 2, 3]})
    session.run(table.initializer, feeds={keys: [1, 2]})
    with pytest.raises(hr.errors.ShapeError, match="default_value must be a scalar"):
        session.run(found, feeds={default: [0]})
    assert session.run(found, feeds={default: 0}).tolist() == [1]


def test_a_mutable_table_changes_from_step_to_step() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.MutableHashTable(hr.string, hr.float32, default=-1.0)
        keys, values = hr.placeholder(hr.string, [None]), hr.placeholder(hr.float32, [None])
        insert, remove = table.insert(keys, values), table.remove(keys)
        look, size, entries = table.lookup([["a", "b"], ["c", "a"]]), table.size(), table.export()
    session = hr.Session(graph)
    assert session.run(size) == 0
    session.run(insert, feeds={keys: ["a", "b", "a"], values: [1.0, 2.0, 3.0]})
    assert session.run(look).tolist() == [[3.0, 2.0], [-1.0, 3.0]]
    session.run(insert, feeds={keys: ["b", "c"], values: [5.0, 6.0]})
    session.run(remove, feeds={keys: ["a", "x"]})
    found = session.run(entries)
    assert [item.tolist() for item in found] == [[b"b", b"c"], [5.0, 6.0]]
    assert session.run(size) == 2
    assert hr.Session(graph).run(size) == 0


def test_import_replaces_the_entries_of_a_mutable_table_and_a_fixed_one_takes_no_more() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.MutableHashTable(hr.int64, hr.int64, default=0)
        first = table.insert(np.array([1, 2]), np.array([3, 4]))
        again = hr.apply_op("LookupTableImportV2", table.handle, np.array([7]), np.array([8]))
        look = table.lookup(np.array([1, 7]))
        fixed = hr.HashTable(["a"], [1], default=0)
        size = fixed.size()
        wrong = hr.apply_op("LookupTableInsertV2", fixed.handle, ["b"], [2])
        initialize = hr.apply_op("InitializeTableV2", fixed.handle, ["a"], [1])
    session = hr.Session(graph)
    session.run(first)
    session.run(again)
    assert session.run(look).tolist() == [0, 8]
    session.run(initialize)
    assert session.run(size) == 1
    with pytest.raises(InvalidArgumentError, match="does not change"):
        session.run(wrong)


def test_tables_from_text_files(tmp_path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("the\t0.5\ncat\t0.25\nsat\t0.125\n")
    with hr.Graph().as_default() as graph:
        lines = hr.HashTable.from_text_file(str(path))
        shares = hr.HashTable.from_text_file(
            str(path), keys=0, values=1, value_dtype=hr.float32, default=0.0, name="shares"
        )
        words = hr.HashTable.from_text_file(
            str(path), keys="number", values=0, key_dtype=hr.int64, value_dtype=hr.string, default="?", name="words"
        )
        found = [lines.lookup(["cat\t0.25", "dog"]), shares.lookup(["sat", "dog"]), words.lookup(np.array([0, 9]))]
    session = hr.Session(graph)
    session.run([table.initializer for table in (lines, shares, words)])
    assert [item.tolist() for item in session.run(found)] == [[1, -1], [0.125, 0.0], [b"the", b"?"]]


@pytest.mark.parametrize(
    ("text", "attrs", "error", "message"),
    [
        (None, {}, NotFoundError, "cannot be read"),
        ("a\n", {"vocab_size": 2}, InvalidArgumentError, "too short"),
        ("a\na\n", {}, InvalidArgumentError, "two values"),
        ("a\n", {"key_index": 1}, InvalidArgumentError, "too few columns"),
        ("a\tb\n", {"value_index": 1, "key_index": 0}, InvalidArgumentError, "not a number"),
    ],
)
def test_damaged_text_files_are_named(tmp_path, text, attrs, error, message) -> None:
    path = tmp_path / "words.txt"
    if text is not None:
        path.write_text(text)
    with hr.Graph().as_default() as graph:
        table = hr.apply_op("HashTableV2", key_dtype=hr.string, value_dtype=hr.int64)
        fill = hr.apply_op(
            "InitializeTableFromTextFileV2", table, str(path), **{"key_index": -2, "value_index": -1, **attrs}
        )
    with pytest.raises(error, match=message):
        hr.Session(graph).run(fill)


def test_keys_and_values_of_one_column_are_refused() -> None:
    with hr.Graph().as_default():
        table = hr.apply_op("HashTableV2", key_dtype=hr.string, value_dtype=hr.int64)
        with pytest.raises(InvalidArgumentError, match="same column"):
            hr.apply_op("InitializeTableFromTextFileV2", table, "x", key_index=0, value_index=0)
