"""cond, case and switch_case: one function of several runs, in each step anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import headrace as hr

_runs: list[str] = []


@hr.register_op("CountedIdentity", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"label": hr.attr.string("")})
def _counted_shape(op):
    """The input; each run is counted."""
    return [op.inputs[0].shape]


@hr.register_kernel("CountedIdentity", aliases=[0])
def _counted(op, x):
    _runs.append(op.attr("label"))
    return x


hr.no_gradient("CountedIdentity", "it is made for counting")


def _counting(x: Any, label: str) -> hr.Tensor:
    return hr.apply_op("CountedIdentity", x, label=label)


def test_A60_the_branch_that_is_not_taken_does_not_compute() -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        x = hr.placeholder(hr.float32, [])
        y = hr.cond(p, lambda: _counting(x, "true"), lambda: _counting(x, "false") * 2.0)
    session = hr.Session(graph)
    for value, expected, label in ((True, 3.0, "true"), (False, 6.0, "false")):
        _runs.clear()
        assert session.run(y, feeds={p: value, x: 3.0}) == expected
        assert _runs == [label]


def test_A61_nested_branches_run_the_one_that_all_predicates_choose() -> None:
    with hr.Graph().as_default() as graph:
        p, q = hr.placeholder(hr.bool, []), hr.placeholder(hr.bool, [])
        y = hr.cond(
            p,
            lambda: hr.cond(q, lambda: _counting(1, "11"), lambda: _counting(2, "10")),
            lambda: hr.cond(q, lambda: _counting(3, "01"), lambda: _counting(4, "00")),
        )
    session = hr.Session(graph, config=hr.config(passes=["arithmetic"]))  # constants are to be seen running
    for values, expected in (((True, True), 1), ((True, False), 2), ((False, True), 3), ((False, False), 4)):
        _runs.clear()
        assert session.run(y, feeds=dict(zip((p, q), values, strict=True))) == expected
        assert _runs == ["".join(str(int(value)) for value in values)]


class _Pair(NamedTuple):
    first: Any
    second: Any


def test_nested_structures_come_back_as_they_were_returned() -> None:
    def branch(factor: float) -> Callable[[], Any]:
        return lambda: {"a": [x * factor, (x + factor,)], "b": _Pair(x - factor, None)}

    with hr.Graph().as_default() as graph:
        p, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [2])
        result = hr.cond(p, branch(2.0), branch(3.0))
    assert isinstance(result["b"], _Pair)
    assert result["b"].second is None
    value = hr.Session(graph).run(result, feeds={p: False, x: [1.0, 2.0]})
    np.testing.assert_array_equal(value["a"][0], [3.0, 6.0])
    np.testing.assert_array_equal(value["a"][1][0], [4.0, 5.0])
    np.testing.assert_array_equal(value["b"].first, [-2.0, -1.0])


def test_python_numbers_take_the_dtype_of_the_tensor_that_another_branch_gives() -> None:
    with hr.Graph().as_default() as graph:
        p, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float64, [])
        y = hr.cond(p, lambda: 1, lambda: x)
    assert y.dtype is hr.float64
    assert hr.Session(graph).run(y, feeds={p: True, x: 2.0}) == 1.0


def test_shapes_that_branches_agree_on_are_known() -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        y = hr.cond(p, lambda: hr.zeros([2, 3]), lambda: hr.zeros([2, 5]))
    assert y.shape == hr.Shape([2, None])
    session = hr.Session(graph)
    assert session.run(y, feeds={p: True}).shape == (2, 3)
    assert session.run(y, feeds={p: False}).shape == (2, 5)


def test_a_tensor_of_the_graph_around_may_be_a_result_itself() -> None:
    with hr.Graph().as_default() as graph:
        p, x = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [2])
        y = hr.cond(p, lambda: x, lambda: -x)
    given = np.array([1.0, 2.0], np.float32)
    value = hr.Session(graph).run(y, feeds={p: True, x: given})
    value[:] = 0
    np.testing.assert_array_equal(given, [1.0, 2.0])


def test_sparse_values_are_structures_of_their_tensors() -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        x = hr.sparse.placeholder(hr.float32, [2, 3])
        y = hr.cond(p, lambda: x, lambda: hr.SparseTensor(x.indices, x.values * 2.0, x.shape))
    value = hr.SparseTensor([[0, 2]], [5.0], [2, 3])
    assert hr.Session(graph).run(y, feeds={p: False, x: value}).values.tolist() == [10.0]


def test_cond_inside_a_traced_function_uses_arrays_of_its_arguments() -> None:
    @hr.function
    def clipped(x: hr.Tensor) -> hr.Tensor:
        return hr.cond(hr.sum(x) > 1.0, lambda: x / hr.sum(x), lambda: x)

    np.testing.assert_allclose(clipped(np.array([2.0, 2.0])), [0.5, 0.5])
    np.testing.assert_allclose(clipped(np.array([0.25, 0.25])), [0.25, 0.25])


def test_switch_case_by_number_with_gaps_and_default() -> None:
    with hr.Graph().as_default() as graph:
        i = hr.placeholder(hr.int64, [])
        y = hr.switch_case(i, {1: lambda: 10, 3: lambda: 30}, default=lambda: -1)
        z = hr.switch_case(i, [lambda: "a", lambda: "b"])
    session = hr.Session(graph)
    values = [int(session.run(y, feeds={i: number})) for number in (-1, 0, 1, 2, 3, 4)]
    assert values == [-1, -1, 10, -1, 30, -1]
    assert [session.run(z, feeds={i: number}) for number in (0, 1, 7, -2)] == [b"a", b"b", b"b", b"b"]


def test_case_takes_the_first_true_predicate() -> None:
    with hr.Graph().as_default() as graph:
        p, q = hr.placeholder(hr.bool, []), hr.placeholder(hr.bool, [])
        y = hr.case([(p, lambda: 1), (q, lambda: 2)], default=lambda: 0)
        z = hr.case([(p, lambda: 1), (q, lambda: 2)], exclusive=True)
    session = hr.Session(graph)
    flags = [(True, True), (True, False), (False, True), (False, False)]
    assert [int(session.run(y, feeds={p: a, q: b})) for a, b in flags] == [1, 1, 2, 0]
    assert [int(session.run(z, feeds={p: a, q: b})) for a, b in flags[1:]] == [1, 2, 2]
    with pytest.raises(hr.errors.InvalidArgumentError, match="more than one predicate is true"):
        session.run(z, feeds={p: True, q: True})


def test_a_constant_predicate_leaves_only_its_branch_in_the_plan() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        y = hr.cond(True, lambda: hr.sin(x), lambda: hr.cos(x))
    optimized = hr.Session(graph).optimized_graph(y, feeds={x: 0.0})
    assert [op.type for op in optimized.operations] == ["_Arg", "Sin", "_Retval"]


def _p() -> hr.Tensor:
    return hr.placeholder(hr.bool, [], name="p")


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: hr.cond(1, lambda: 1, lambda: 2), "DTypeError", "predicate of cond is no bool(.|\n)*x > 0"),
        (lambda: hr.cond([True], lambda: 1, lambda: 2), "ShapeError", "no scalar(.|\n)*hr.all"),
        (lambda: hr.cond(_p(), 1, lambda: 2), "InvalidArgumentError", "true_fn is no function(.|\n)*lambda"),
        (lambda: hr.cond(_p(), lambda: 1, 2), "InvalidArgumentError", "false_fn is no function"),
        (
            lambda: hr.cond(_p(), lambda: 1, lambda: (1, 2)),
            "InvalidArgumentError",
            r"branch 'false' of 'cond' returns another structure\n  expected: \*\n  got:      \(\*, \*\)",
        ),
        (
            lambda: hr.cond(_p(), lambda: hr.zeros([]), lambda: hr.ones([], hr.int32)),
            "DTypeError",
            r"different dtypes(.|\n)*'true': float32\[\], 'false': int32\[\](.|\n)*hr.astype",
        ),
        (lambda: hr.switch_case(0, []), "InvalidArgumentError", "no function"),
        (lambda: hr.switch_case(0, {-1: lambda: 1}), "InvalidArgumentError", "branches of switch_case are wrong"),
        (lambda: hr.switch_case(0, [3]), "InvalidArgumentError", "branch 0 is no function"),
        (lambda: hr.switch_case(0, [lambda: 1], 3), "InvalidArgumentError", "default is no function"),
        (lambda: hr.switch_case([0], [lambda: 1]), "ShapeError", "index of switch_case is no scalar"),
        (lambda: hr.switch_case(0.5, [lambda: 1]), "DTypeError", "no integer"),
        (lambda: hr.case([(True, 3)]), "InvalidArgumentError", "branch 0 is no function"),
        (lambda: hr.case([]), "InvalidArgumentError", "no predicates"),
        (lambda: hr.case([([True], lambda: 1)]), "ShapeError", "predicate of case is no scalar"),
        (
            lambda: hr.cond(_p(), lambda: hr.placeholder(hr.float32, []), lambda: 1.0),
            "GraphError",
            "was made inside a function(.|\n)*make the placeholder before",
        ),
    ],
)
def test_wrong_branches_are_refused(build: Callable[[], Any], kind: str, message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(getattr(hr.errors, kind), match=message):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda chosen: hr.cond(hr.not_equal(chosen, 0), lambda: 1.0, lambda: 2.0),
        lambda chosen: hr.switch_case(chosen, [lambda: 2.0, lambda: 1.0]),
        lambda chosen: hr.case([(hr.not_equal(chosen, 0), lambda: 1.0)], default=lambda: 2.0),
    ],
)
def test_what_chooses_must_turn_out_a_scalar_where_its_rank_is_not_known(build: Callable[[hr.Tensor], Any]) -> None:
    """The operations take any shape and ask for elements: a vector of one false element would count as true."""
    with hr.Graph().as_default() as graph:
        chosen = hr.placeholder(hr.int32, None)
        value = build(chosen)
    session = hr.Session(graph)
    assert [session.run(value, feeds={chosen: number}) for number in (1, 0)] == [1.0, 2.0]
    with pytest.raises(hr.errors.ShapeError, match=r"another shape than was ensured(.|\n)*expected: \[\]"):
        session.run(value, feeds={chosen: [0]})


def test_branches_may_build_the_same_mapping_in_another_order() -> None:
    """What has the same dtype and shape would change places without a word."""
    with hr.Graph().as_default() as graph:
        chosen = hr.placeholder(hr.bool, [])
        both = hr.cond(chosen, lambda: {"a": 1.0, "b": 2.0}, lambda: {"b": 20.0, "a": 10.0})
    session = hr.Session(graph)
    assert [session.run(both, feeds={chosen: value}) for value in (True, False)] == [
        {"a": 1.0, "b": 2.0},
        {"a": 10.0, "b": 20.0},
    ]
