"""Variables in graphs, in the process, and in traces."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.resources import process_resources


def test_outside_of_any_graph_the_value_lives_at_once() -> None:
    w = hr.Variable([1.0, 2.0], name="w_process")
    w.assign_add([1.0, 1.0])
    w.assign_sub([0.5, 0.0])
    np.testing.assert_array_equal(w.numpy(), [1.5, 3.0])
    w.assign([0, 0])
    np.testing.assert_array_equal(w.numpy(), [0, 0])
    assert "in the process" in repr(w)
    assert hr.Variable(lambda: hr.ones([2]) * 3.0).numpy().tolist() == [3.0, 3.0]
    assert hr.Variable(1, dtype=hr.float64).dtype is hr.float64


def test_sessions_of_every_graph_share_it() -> None:
    w = hr.Variable(1.0)
    graphs = []
    for _ in range(2):
        with hr.Graph().as_default() as graph:
            graphs.append((graph, w * 2.0, w.assign_add(1.0)))
    (first, y1, change), (second, y2, _) = graphs
    hr.Session(first).run(change)
    assert hr.Session(first).run(y1) == hr.Session(second).run(y2) == 4.0


def test_names_of_two_variables_differ_and_their_memory_is_given_back() -> None:
    gc.collect()
    before = len(list(process_resources().variables()))
    a, b = hr.Variable(1.0, name="same"), hr.Variable(2.0, name="same")
    assert a.name != b.name
    assert (a.numpy(), b.numpy()) == (1.0, 2.0)
    del a, b
    gc.collect()
    assert len(list(process_resources().variables())) == before


def test_in_a_graph_it_is_a_handle_with_a_value_per_session() -> None:
    with hr.Graph().as_default() as graph:
        with hr.name_scope("layer"):
            w = hr.Variable(np.zeros((2, 3), np.float32), name="w")
        assert w.name == "layer/w"
        assert w.handle.dtype is hr.resource
        assert w.shape == [2, 3]
        assert "in a graph" in repr(w)
        other = hr.Variable(0.0, name="w")
        assert other.name == "w"
    assert graph.variables == [w, other]
    with pytest.raises(hr.errors.FailedPreconditionError, match="one value per session"):
        w.numpy()
    with (
        hr.Graph().as_default() as elsewhere,
        pytest.raises(hr.errors.InvalidArgumentError, match="belongs to another graph"),
    ):
        w.handle_in(elsewhere)


def test_reads_see_the_assignments_they_wait_for() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(1.0, name="w")
        with hr.control_dependencies([w.assign_add(5.0)]):
            after = w.read()
    assert hr.Session(graph).run(after) == 6.0


def test_A32_a_value_that_was_read_does_not_change_later_in_the_step() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.ones(4, np.float32), name="w")
        before = w.read()
        with hr.control_dependencies([before]):
            change = w.assign_add(np.ones(4, np.float32))
        with hr.control_dependencies([change]):
            total = before + w.read()
    np.testing.assert_array_equal(hr.Session(graph).run(total), [3] * 4)


def test_A33_updates_happen_in_place_when_nobody_looks() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.ones(1000, np.float32), name="w")
        change = w.assign_sub(w.read() * 0.5)
    session = hr.Session(graph)
    session.run(change)
    (buffer,) = session.resources.variables()
    address = buffer.read().ctypes.data
    for _ in range(5):
        session.run(change)
    assert buffer.read().ctypes.data == address
    held = buffer.read()
    session.run(change)
    assert buffer.read().ctypes.data != held.ctypes.data
    assert held[0] == 0.5**6


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda w: w.assign([1.0, 2.0, 3.0]), "ShapeError", "does not fit the variable"),
        (lambda w: w.assign_add(np.ones(2)), "DTypeError", "wrong dtype"),
        (lambda w: hr.apply_op("ReadVariableOp", w.handle, dtype=hr.int32), "DTypeError", "another dtype"),
        (
            lambda w: hr.apply_op("ResourceScatterAdd", w.handle, [0], [[1.0, 2.0]], dtype=hr.float32),
            "ShapeError",
            "does not fit",
        ),
    ],
)
def test_wrong_assignments_are_refused_while_building(call, error: str, message: str) -> None:
    with hr.Graph().as_default():
        w = hr.Variable([1.0, 2.0], name="w")
        with pytest.raises(getattr(hr.errors, error), match=message):
            call(w)


@pytest.mark.parametrize(
    ("start", "change", "message"),
    [
        ([1, 2], lambda w: w.assign_add([1.0, 2.0, 3.0]), r"update does not fit(.|\n)*\[2\](.|\n)*\[3\]"),
        ([1, 2], lambda w: w.assign_sub([1.0, 2.0, 3.0]), r"update does not fit(.|\n)*\[2\](.|\n)*\[3\]"),
        ([[1, 2]], lambda w: hr.apply_op("ResourceScatterAdd", w.handle, [0], np.ones((1, 3), np.float32)), "not fit"),
        (1, lambda w: hr.apply_op("ResourceScatterAdd", w.handle, [0], np.ones(1, np.float32)), "has no rows"),
        (1, lambda w: hr.apply_op("ResourceGather", w.handle, [0], dtype=hr.float32), "batch_dims is too large"),
    ],
)
def test_changes_of_a_variable_of_open_shape_are_checked_by_its_value(start, change, message: str) -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.array(start, np.float32), shape=hr.Shape())
        changed = change(w)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match=message):
        session.run(changed)
    np.testing.assert_array_equal(session.run(w), start)


def test_indices_that_do_not_share_the_batch_axes_of_a_variable_are_refused() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(np.ones((2, 3), np.float32))
        with pytest.raises(hr.errors.ShapeError, match=r"do not share the batch axes(.|\n)*\[2\](.|\n)*\[1, 2\]"):
            hr.apply_op("ResourceGather", w.handle, [[0, 1]], dtype=hr.float32, batch_dims=1)


def test_symbolic_initial_value_outside_a_graph_is_refused() -> None:
    with hr.Graph().as_default():
        x = hr.constant(1.0)
    with pytest.raises(hr.errors.InvalidArgumentError, match="cannot start from a symbolic tensor(.|\n)*lambda"):
        hr.Variable(x)
    with pytest.raises(hr.errors.FailedPreconditionError, match="has no handle here"):
        _ = hr.Variable(1.0).handle


def test_updates_by_row_change_all_rows_or_none() -> None:
    """O13: an index out of range changes nothing."""
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.zeros((3, 2), np.float32), name="w")
        index, rows = hr.placeholder(hr.int32, [None]), hr.placeholder(hr.float32, [None, 2])
        ops = {
            name: hr.apply_op(f"ResourceScatter{name}", w.handle, index, rows, dtype=hr.float32)
            for name in ("Add", "Sub", "Update")
        }
    session = hr.Session(graph)
    feeds = {index: [1, 1], rows: [[1, 2], [3, 4]]}
    session.run(ops["Add"], feeds=feeds)
    np.testing.assert_array_equal(session.run(w), [[0, 0], [4, 6], [0, 0]])
    session.run(ops["Sub"], feeds={index: [0, 1], rows: [[1, 1], [4, 6]]})
    np.testing.assert_array_equal(session.run(w), [[-1, -1], [0, 0], [0, 0]])
    session.run(ops["Update"], feeds=feeds)
    np.testing.assert_array_equal(session.run(w), [[-1, -1], [3, 4], [0, 0]])
    before = session.run(w)
    for bad in ([0, -1], [0, 3]):
        for op in ops.values():
            with pytest.raises(hr.errors.OutOfRangeError, match="index is out of range(.|\n)*0 <= index < 3"):
                session.run(op, feeds={index: bad, rows: [[9, 9], [9, 9]]})
    np.testing.assert_array_equal(session.run(w), before)


def test_state_can_be_asked_for_and_destroyed() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable([1.0, 2.0], name="w")
        asked = hr.apply_op("VarIsInitializedOp", w.handle)
        shape = hr.apply_op("VariableShape", w.handle)
        destroy = hr.apply_op("DestroyResourceOp", w.handle)
        strict = hr.apply_op("DestroyResourceOp", w.handle, ignore_lookup_error=False)
        value = w.read()
    session = hr.Session(graph)
    assert not session.run(asked)
    session.run(value)
    assert session.run(asked)
    assert session.run(shape).tolist() == [2]
    session.run(destroy)
    assert not session.run(asked)
    with pytest.raises(hr.errors.FailedPreconditionError, match="has no value to destroy"):
        session.run(strict)
    with pytest.raises(
        hr.errors.FailedPreconditionError, match="'w' has no value yet(.|\n)*created at test_variable.py"
    ):
        session.run(value)


def test_two_variables_of_one_shared_name_must_agree() -> None:
    with hr.Graph().as_default() as graph:
        attrs = {"shared_name": "v", "shape": hr.Shape([2])}
        a = graph.create_op("VarHandleOp", (), {**attrs, "dtype": hr.float32}).outputs[0]
        b = graph.create_op("VarHandleOp", (), {**attrs, "dtype": hr.int32}).outputs[0]
        reads = [hr.apply_op("VarIsInitializedOp", item) for item in (a, b)]
    with pytest.raises(hr.errors.InvalidArgumentError, match="'v' exists with another type"):
        hr.Session(graph).run(reads)


def test_a_variable_of_the_process_never_gets_the_name_of_another() -> None:
    """The name decides where the value lives: two variables under one would overwrite each other."""
    first = hr.Variable(1.0, name="taken_1")
    second, third = hr.Variable(2.0, name="taken"), hr.Variable(3.0, name="taken")
    assert len({first.name, second.name, third.name}) == 3
    assert [first.numpy(), second.numpy(), third.numpy()] == [1.0, 2.0, 3.0]


def test_graphs_that_used_a_variable_of_the_process_do_not_outlive_their_use() -> None:
    """D01: an update outside any graph builds a small one; the variable must not keep it."""
    w = hr.Variable(0.0)
    graph = hr.Graph()
    with graph.as_default():
        w.read()
    alive = weakref.ref(graph)
    del graph
    gc.collect()
    assert alive() is None


def test_rows_are_read_and_changed_like_a_variable() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="w")
        rows = w.rows([2, 0])
        assert (rows.shape, rows.dtype) == (hr.Shape([2, 2]), hr.float32)
        assert repr(rows) == "<hr.VariableRows of 'w'>"
        read, product = rows.read(), rows * 10.0
        changes = {
            "assign": rows.assign([[0.0, 1.0], [2.0, 3.0]]),
            "add": rows.assign_add([[1.0, 1.0], [2.0, 2.0]]),
            "sub": rows.assign_sub([[0.5, 0.5], [0.5, 0.5]]),
        }
    with hr.Session(graph) as session:
        assert session.run(read).tolist() == [[5.0, 6.0], [1.0, 2.0]]
        assert session.run(product).tolist() == [[50.0, 60.0], [10.0, 20.0]]
        expected = [([0.0, 1.0], [2.0, 3.0]), ([1.0, 2.0], [4.0, 5.0]), ([0.5, 1.5], [3.5, 4.5])]
        for change, (last, first) in zip(changes.values(), expected, strict=True):
            session.run(change)
            assert session.run(w).tolist() == [first, [3.0, 4.0], last]


def test_rows_of_a_variable_of_unknown_shape_have_unknown_shape() -> None:
    with hr.Graph().as_default():
        w = hr.Variable([[1.0]], shape=None, name="w")
        assert w.rows(hr.placeholder(hr.int32, [None])).shape.dims == (None, 1)
        assert w.rows(hr.placeholder(hr.int32)).shape.rank is None


def test_a_variable_beside_another_lives_where_that_one_lives() -> None:
    outside = hr.Variable(1.0, name="outside")
    with hr.Graph().as_default() as graph:
        inside = hr.Variable(1.0, name="inside")
        slot = hr.Variable(0.0, name="slot", beside=inside)
        shared = hr.Variable(2.0, name="shared", beside=outside)
        assert slot.handle.op.colocation == (inside.handle.op.name,)
    assert slot in graph.variables
    assert shared not in graph.variables
    assert shared.numpy() == 2.0


def test_an_absolute_name_leaves_the_scopes_and_is_made_unique() -> None:
    with hr.Graph().as_default(), hr.name_scope("model"):
        names = [hr.Variable(0.0, name="w/slot/").name for _ in range(2)]
    assert names == ["w/slot", "w/slot_1"]
    assert hr.Variable(0.0, name="absolute/in_the_process/").name == "absolute/in_the_process"


@pytest.mark.parametrize("name", ["ü b", 5, "/"])
def test_a_name_that_no_graph_can_hold_is_refused_outside_of_graphs_too(name: object) -> None:
    with pytest.raises(hr.errors.GraphError, match="characters that graph files cannot hold"):
        hr.Variable(1.0, name=name)


def test_two_variables_of_one_name_and_two_types_are_refused_with_their_place() -> None:
    with hr.Graph().as_default() as graph:
        for dtype in (hr.float32, hr.int32):
            handle = hr.apply_op("VarHandleOp", shared_name="one", dtype=dtype, shape=[], name=f"as_{dtype}")
            hr.apply_op("VarIsInitializedOp", handle, name=f"asked_{dtype}")
    with pytest.raises(
        hr.errors.InvalidArgumentError, match="'one' exists with another type(.|\n)*'as_int32' created at"
    ):
        hr.Session(graph).run(["asked_float32:0", "asked_int32:0"])


def test_views_keep_the_value_that_was_read_while_the_variable_goes_on() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(np.zeros(3, np.float32), name="w")
        grow = w.assign_add(np.ones(3, np.float32))
    outside = hr.Variable(np.zeros(3, np.float32), name="outside")
    with hr.Session(graph) as session:
        views = [session.read_variables(copy=False)["w"], outside.numpy(copy=False)]
        for _ in range(2):
            session.run(grow)
            outside.assign_add(np.ones(3, np.float32))
        assert [view.tolist() for view in views] == [[0, 0, 0]] * 2
        assert session.run(w).tolist() == outside.numpy().tolist() == [2, 2, 2]
        for view in views:
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1


def test_handles_of_a_graph_file_become_variables() -> None:
    original = hr.Graph()
    with original.as_default():
        hr.Variable(np.ones(2, np.float32), name="layer/w")
    graph = hr.import_graph_def(hr.to_graph_def(original))
    assert graph.variables == []
    handle = graph.tensor("layer/w:0")
    w = hr.Variable.of_handle(handle, initializer=graph.operation("layer/w/assign"))
    assert (w.name, str(w.spec), w.trainable) == ("layer/w", "float32[2]", True)
    assert hr.Variable.of_handle(handle, trainable=False) is w
    assert graph.variables == [w]
    with graph.as_default():
        train = hr.optim.SGD(1.0).minimize(hr.sum(w * w), [w])
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run(w).tolist() == [-1, -1]
    with pytest.raises(hr.errors.InvalidArgumentError, match="'layer/w/read:0' is not the handle of a variable"):
        hr.Variable.of_handle(graph.tensor("layer/w/read:0"))


def test_a_step_may_give_a_variable_without_an_initial_value_its_value_before_it_reads_it() -> None:
    graph = hr.Graph()
    with graph.as_default():
        attrs = {"dtype": hr.float32, "shape": hr.Shape([2]), "shared_name": "v"}
        handle = graph.create_op("VarHandleOp", (), attrs).outputs[0]
        assign = hr.apply_op("AssignVariableOp", handle, [1.0, 2.0], dtype=hr.float32)
        with hr.control_dependencies([assign]):
            after = hr.apply_op("ReadVariableOp", handle, dtype=hr.float32)
        alone = hr.apply_op("ReadVariableOp", handle, dtype=hr.float32)
    with hr.Session(graph) as session:
        with pytest.raises(hr.errors.FailedPreconditionError, match="variables without a value"):
            session.run(alone)
        assert session.run(after).tolist() == [1, 2]
        assert session.run(alone).tolist() == [1, 2]
