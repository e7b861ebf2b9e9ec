"""Graphs: creation of operations and everything that is checked there."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.graph.op_def import ArgSpec, OpDef


def test_building_runs_no_kernel_and_keeps_order_names_and_the_users_line() -> None:
    """A05."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2], name="x")
        y = x + 1.0
    assert [op.name for op in graph.operations] == ["x", "Const", "AddV2"]
    assert graph.version == 3
    assert str(y.op.source).startswith("test_graph.py:")
    assert graph.tensor("AddV2:0") is y
    assert graph.tensor("AddV2") is y
    assert graph.operation("x") is x.op
    assert repr(graph) == "<hr.Graph of 3 operations>"
    assert repr(y.op) == "<hr.Operation 'AddV2' AddV2>"


def test_names_are_unique_in_scopes_and_absolute_names_are_kept() -> None:
    with hr.Graph().as_default():
        names = [hr.constant(1, name="c").op.name for _ in range(3)]
        with hr.name_scope("s"):
            inner = hr.constant(1, name="c").op.name
        with hr.name_scope("s"):
            again = hr.constant(1, name="c").op.name
        with hr.name_scope("s/"):
            reentered = hr.constant(1, name="d").op.name
        clash = hr.constant(1, name="c_1").op.name
    assert names == ["c", "c_1", "c_2"]
    assert (inner, again, reentered, clash) == ("s/c", "s_1/c", "s/d", "c_1_1")


def test_devices_control_edges_and_colocation_come_from_scopes() -> None:
    with hr.Graph().as_default():
        a = hr.constant(1.0, name="a")
        with hr.colocate_with(a), hr.device("/job:ps/task:1"), hr.control_dependencies([a]):
            b = hr.constant(2.0, name="b")
            with hr.control_dependencies([b.op]):
                c = hr.constant(3.0, name="c")
    assert b.op.device == "/job:ps/task:1"
    assert b.op.colocation == ("a",)
    assert [op.name for op in c.op.control_inputs] == ["a", "b"]
    assert " on /job:ps/task:1" in repr(b)


@pytest.mark.parametrize("name", ["", "_x", "/", "a\n", "a b", "-x", "ü"])
def test_bad_names_are_refused(name: object) -> None:
    graph = hr.Graph()
    with (
        pytest.raises(hr.errors.GraphError, match="characters that graph files cannot hold"),
        graph.as_default(),
        hr.name_scope(name),
    ):
        pass


def test_outside_of_any_graph_the_error_says_what_to_do() -> None:
    with pytest.raises(hr.errors.NoGraphError, match=r"no graph is being built(.|\n)*as_default"):
        hr.constant(1.0)


def test_a_tensor_brings_its_graph_with_it() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(2.0)
    assert (x * 3.0).graph is graph


def test_tensors_of_two_graphs_do_not_mix() -> None:
    with hr.Graph().as_default():
        a = hr.constant(1.0)
    with hr.Graph().as_default() as other:
        b = hr.constant(1.0)
        with pytest.raises(hr.errors.GraphError, match="belongs to another graph"):
            hr.add(b, a)
        with pytest.raises(hr.errors.GraphError, match="belongs to another graph"):
            other.create_op("Identity", [a], {"T": hr.float32})
        with (
            pytest.raises(hr.errors.GraphError, match="control dependency lies in another graph"),
            hr.control_dependencies([a]),
        ):
            pass


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g, x: g.create_op("Nope"), "UnknownOpError", "'Nope' is not known(.|\n)*try:"),
        (lambda g, x: g.create_op("Cast", [x], {"SrcT": "float32"}), "AttrError", "attr 'DstT' is missing"),
        (
            lambda g, x: g.create_op("Identity", [x], {"T": "float32", "mode": 1}),
            "AttrError",
            "attr 'mode' is not known",
        ),
        (lambda g, x: g.create_op("Identity", [x], {"T": 3.5}), "AttrError", "attr 'T' has a wrong value"),
        (
            lambda g, x: g.create_op("Identity", [x], {"T": "int32"}),
            "DTypeError",
            "input 'input' has the wrong dtype(.|\n)*astype",
        ),
        (lambda g, x: g.create_op("Identity", [], {"T": "int32"}), "DTypeError", "number of inputs is wrong"),
        (lambda g, x: g.create_op("Identity", [3], {"T": "int32"}), "GraphError", "an input is not a tensor"),
        (lambda g, x: g.operation("nope"), "NotFoundError", "no operation 'nope'"),
        (lambda g, x: g.tensor(5), "NotFoundError", "no operation '5'"),
        (lambda g, x: hr.apply_op(5, x), "UnknownOpError", "type '5' is not known"),
        (lambda g, x: g.tensor("x:4"), "NotFoundError", "'x' has no output '4'"),
        (lambda g, x: g.tensor("x:-1"), "NotFoundError", "'x' has no output '-1'"),
        (lambda g, x: x.op.attr("nope"), "InvalidArgumentError", "has no attr 'nope'"),
        (lambda g, x: bool(x), "InvalidArgumentError", "truth value"),
        (lambda g, x: float(x), "InvalidArgumentError", "Python number"),
        (lambda g, x: int(x), "InvalidArgumentError", "Python number"),
        (lambda g, x: [1, 2][x], "InvalidArgumentError", "Python integer"),
        (lambda g, x: np.asarray(x), "InvalidArgumentError", "NumPy array"),
        (lambda g, x: len(x), "InvalidArgumentError", "no static length"),
    ],
)
def test_what_cannot_be_right_is_refused_and_changes_nothing(call, error: str, message: str) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None], name="x")
        with pytest.raises(getattr(hr.errors, error), match=message):
            call(graph, x)
    assert graph.version == 1


def test_shape_error_at_the_line_that_wrote_it_shows_inputs() -> None:
    with hr.Graph().as_default():
        a, b = hr.placeholder(hr.float32, [2], name="a"), hr.placeholder(hr.float32, [3], name="b")
        with pytest.raises(hr.errors.ShapeError) as caught:
            hr.add(a, b, name="sum")
    assert "'sum' created at test_graph.py" in str(caught.value)
    assert "[2] and [3]" in str(caught.value)


def test_numpy_arrays_on_the_left_of_an_operator_leave_it_to_the_tensor() -> None:
    with hr.Graph().as_default() as graph:
        y = np.ones(3, np.float32) * hr.constant([1.0, 2.0, 3.0])
    assert isinstance(y, hr.Tensor)
    np.testing.assert_array_equal(hr.Session(graph).run(y), [1, 2, 3])
    with pytest.raises(TypeError, match="'Tensor' does not support ufuncs"):
        np.add(np.ones(3), y)


def test_a_line_that_extends_a_running_graph_again_and_again_is_named() -> None:
    """D01."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(1.0)
    session = hr.Session(graph)

    def careless_loop() -> None:
        for _ in range(100):
            session.run(x * 2.0)

    with pytest.raises(hr.errors.GraphError, match=r"grows while it is being run(.|\n)*test_graph.py") as caught:
        careless_loop()
    assert "create the operation before the loop" in str(caught.value)
    assert graph.version < 60


def test_extend_permits_growth_and_finalize_forbids_it() -> None:
    graph = hr.Graph(extend=True)
    with graph.as_default():
        x = hr.constant(1.0)
    session = hr.Session(graph)
    for _ in range(30):
        session.run(x * 2.0)
    graph.finalize()
    with pytest.raises(hr.errors.GraphError, match="finalized"):
        _ = x * 2.0


def test_threads_may_build_one_graph_and_each_its_own() -> None:
    shared = hr.Graph()
    own: list[int] = []

    def build() -> None:
        mine = hr.Graph()
        for _ in range(50):
            with shared.as_default():
                hr.constant(1.0, name="c")
            with mine.as_default():
                hr.constant(1.0)
        own.append(mine.version)

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own == [50] * 8
    assert len({op.name for op in shared.operations}) == 400
    assert [op.index for op in shared.operations] == list(range(400))


@pytest.mark.parametrize(
    ("enter", "message"),
    [
        (lambda x: hr.name_scope("bäd/"), "characters that graph files cannot hold"),
        (lambda x: hr.name_scope("/"), "characters that graph files cannot hold"),
        (lambda x: hr.name_scope(None), "characters that graph files cannot hold(.|\n)*None"),
        (lambda x: hr.device(0), "device is asked for by name(.|\n)*GPU:0"),
        (lambda x: hr.control_dependencies(x.op), r"control dependencies are a sequence(.|\n)*\[operation\]"),
        (lambda x: hr.control_dependencies(x), r"control dependencies are a sequence(.|\n)*\[operation\]"),
        (lambda x: hr.control_dependencies([None]), "neither an operation nor a tensor(.|\n)*None"),
        (lambda x: hr.colocate_with("x"), "neither an operation nor a tensor(.|\n)*'x'"),
    ],
)
def test_scopes_refuse_what_cannot_be_right_and_leave_the_outer_one_in_force(enter, message: str) -> None:
    graph = hr.Graph()
    with graph.as_default(), hr.name_scope("outer"):
        x = hr.constant(1.0, name="x")
        before = graph.version
        with pytest.raises(hr.errors.GraphError, match=message), enter(x):
            raise AssertionError("entered")
        assert graph.version == before
        assert hr.constant(1.0, name="y").name == "outer/y:0"


def test_a_name_that_is_no_text_is_refused() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(hr.errors.GraphError, match="characters that graph files cannot hold(.|\n)*5"),
    ):
        hr.constant(1.0, name=5)


def test_an_annotation_must_be_something_that_graph_files_hold() -> None:
    attrs = {"value": np.ones(()), "dtype": hr.float64}
    with pytest.raises(hr.errors.AttrError, match="attr '_note' has a wrong value(.|\n)*a bool, int(.|\n)*object"):
        hr.Graph().create_op("Const", (), {**attrs, "_note": object()})
    with pytest.raises(hr.errors.AttrError, match="attr '_note' has a wrong value"):
        hr.Graph().create_op("Const", (), {**attrs, "_note": (1, "a")})


def test_many_equal_names_and_very_long_ones_cost_the_same_each() -> None:
    with hr.Graph().as_default() as graph:
        for _ in range(3000):
            graph.create_op("NoOp", name="n" * 10_000)
    assert graph.operations[-1].name == "n" * 10_000 + "_2999"


def test_what_is_taken_back_leaves_no_trace() -> None:
    graph = hr.Graph()
    with graph.as_default():
        hr.constant(1.0, name="kept")

    def add_and_fail() -> None:
        with graph.as_default(), graph.all_or_nothing():
            hr.Variable(1.0, name="lost")
            raise ZeroDivisionError("halfway")

    with pytest.raises(ZeroDivisionError, match="halfway"):
        add_and_fail()
    assert [op.name for op in graph.operations] == ["kept"]
    assert graph.variables == []
    with pytest.raises(hr.errors.NotFoundError, match="no operation 'lost'"):
        graph.operation("lost")


@pytest.mark.parametrize("shapes", [None, hr.Shape([2]), [[2]], [None], 3], ids=str)
def test_a_shape_function_that_gives_no_shapes_is_named(shapes: object) -> None:
    definition = OpDef("TestShapes", (), (ArgSpec("y", dtype=hr.float32),), {}, lambda op: shapes)
    with pytest.raises(hr.errors.InternalError, match="shape function of TestShapes gave no shapes(.|\n)*hr.Shape"):
        hr.Graph().create_op("TestShapes", op_def=definition)


def test_an_exception_of_a_users_shape_function_is_kept_and_explained() -> None:
    definition = OpDef("TestShapes", (), (), {}, lambda op: op.inputs[0])
    with pytest.raises(IndexError) as caught:
        hr.Graph().create_op("TestShapes", op_def=definition, name="guilty")
    assert any(
        "shape function of TestShapes 'guilty' created at test_graph.py" in note for note in caught.value.__notes__
    )


def test_a_device_asked_for_outside_of_any_graph_holds_inside_and_that_of_another_graph_does_not() -> None:
    with hr.device("GPU:0"), hr.Graph().as_default():
        assert hr.constant(1.0).op.device == "/device:GPU:0"
        with hr.Graph().as_default(), hr.device("CPU:0"), hr.Graph().as_default():
            assert hr.constant(1.0).op.device == ""
