"""Tables that live in a session."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


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
