"""Modules find their parameters by walking attributes and name them by the way to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import NotFoundError, ShapeError


class Scale(hr.layers.Module):
    """A layer as a user would write it (A03)."""

    factor: hr.Variable

    def build(self, shape: hr.Shape) -> None:
        self.add_parameter("factor", [shape[-1]], "ones")
        self.add_parameter("calls", [], "zeros", trainable=False)

    def call(self, x: Any, *, training: bool = False) -> Any:
        return x * self.factor


class Pair(hr.layers.Module):
    """Two branches in a dictionary, and a variable of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = {"left": Scale(), "right": hr.layers.Dense(3)}
        self.offset = hr.Variable(np.ones(3, np.float32), name="offset")
        self._hidden = hr.Variable(0.0)

    def call(self, x: Any, *, training: bool = False) -> Any:
        return self.branches["left"](x) + self.branches["right"](x) + self.offset


def built(
    module: hr.layers.Module, shape: list[int | None] | None = None, **arguments: Any
) -> tuple[hr.Graph, Any, Any]:
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x = hr.placeholder(hr.float32, shape or [None, 3], name="x")
        return graph, x, module(x, **arguments)


def test_parameters_are_named_by_their_path() -> None:
    model = hr.layers.Sequential([hr.layers.Dense(4), hr.layers.Sequential([Scale(), hr.layers.Dense(2)])])
    assert model.named_parameters() == {}
    built(model)
    expected = [
        "layers/0/kernel", "layers/0/bias", "layers/1/layers/0/factor", "layers/1/layers/0/calls",
        "layers/1/layers/1/kernel", "layers/1/layers/1/bias",
    ]  # fmt: skip
    assert list(model.named_parameters()) == expected
    assert [variable.name for variable in model.parameters()] == expected
    assert [v.shape.as_tuple() for v in model.parameters()] == [(3, 4), (4,), (4,), (), (4, 2), (2,)]


def test_a_name_comes_before_the_path() -> None:
    model = hr.layers.Sequential([hr.layers.Dense(4)], name="encoder")
    built(model)
    assert model.named_parameters()["layers/0/kernel"].name == "encoder/layers/0/kernel"


def test_parameters_in_dictionaries_and_attributes_are_found_but_not_hidden_ones() -> None:
    model = Pair()
    built(model)
    paths = ["branches/left/factor", "branches/left/calls", "branches/right/kernel", "branches/right/bias", "offset"]
    assert list(model.named_parameters()) == paths
    assert list(model.modules()) == ["", "branches/left", "branches/right"]


def test_scopes_do_not_change_the_names_of_parameters() -> None:
    layer = hr.layers.Dense(2)
    graph = hr.Graph()
    with graph.as_default(), hr.name_scope("somewhere"):
        y = layer(hr.placeholder(hr.float32, [None, 3]))
    assert layer.kernel.name == "kernel"
    assert y.op.name.startswith("somewhere/Dense/")


def test_two_models_without_names_share_a_graph() -> None:
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3])
        first, second = hr.layers.Dense(1), hr.layers.Dense(1)
        difference = first(x) - second(x)
    assert (first.kernel.name, second.kernel.name) == ("kernel", "kernel_1")
    with hr.Session(graph) as session:
        assert session.run(difference, feeds={x: np.ones((1, 3), np.float32)}) != 0


def test_a_second_call_uses_the_same_parameters() -> None:
    layer = Scale()
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3])
        y = layer(x) + layer(x)
    assert len(graph.variables) == 2
    with hr.Session(graph) as session:
        assert session.run(y, feeds={x: [[1.0, 2.0, 3.0]]}).tolist() == [[2.0, 4.0, 6.0]]


def test_a_shared_module_is_listed_once() -> None:
    shared = Scale()
    model = hr.layers.Sequential([shared, shared])
    built(model)
    assert list(model.named_parameters()) == ["layers/0/factor", "layers/0/calls"]


def test_a_module_may_refer_back_to_its_owner() -> None:
    inner = Scale()
    model = hr.layers.Sequential([inner])
    inner.owner = model  # type: ignore[attr-defined]  # a reference that a user might keep
    assert list(model.modules().values()) == [model, inner]


def test_parameters_live_in_the_process_when_called_in_a_function() -> None:
    model = hr.layers.Sequential([Scale()], name="in_function")

    @hr.function
    def call(x: Any) -> Any:
        return model(x)

    assert call(np.array([[1.0, 2.0]], np.float32)).tolist() == [[1.0, 2.0]]
    factor = model.named_parameters()["layers/0/factor"]
    assert factor.name == "in_function/layers/0/factor"
    factor.assign([3.0, 4.0])
    assert call(np.array([[1.0, 2.0]], np.float32)).tolist() == [[3.0, 8.0]]


def test_float64_inputs_make_float64_parameters() -> None:
    layer = hr.layers.Dense(2)
    with hr.Graph().as_default():
        y = layer(hr.placeholder(hr.float64, [None, 3]))
    assert (y.dtype, layer.kernel.dtype) == (hr.float64, hr.float64)


def test_trainable_parameters_are_told_apart() -> None:
    layer = Scale()
    built(layer)
    assert list(layer.named_parameters(trainable=True)) == ["factor"]
    assert list(layer.named_parameters(trainable=False)) == ["calls"]


def test_frozen_parameters_keep_their_value() -> None:
    body, head = Scale(), hr.layers.Dense(1)
    model = hr.layers.Sequential([body, head])
    body.freeze()
    graph, x, y = built(model)
    with graph.as_default():
        train = hr.optim.SGD(0.1).minimize(hr.sum(hr.square(y)), model.parameters(trainable=True))
    with hr.Session(graph) as session:
        before = session.read_variables()
        session.run(train, feeds={x: [[1.0, 2.0, 3.0]]})
        after = session.read_variables()
    assert after["layers/0/factor"].tobytes() == before["layers/0/factor"].tobytes()
    assert after["layers/1/kernel"].tobytes() != before["layers/1/kernel"].tobytes()
    model.unfreeze()
    assert [v.trainable for v in body.parameters()] == [True, False]
    model.freeze()
    assert model.parameters(trainable=True) == []


def test_a_parameter_of_unknown_shape_says_what_to_do() -> None:
    with pytest.raises(
        ShapeError, match=r"parameter 'factor' of Scale needs to know the shape\D+\n.*\n.*\n.*placeholder"
    ):
        built(Scale(), [None, None])


def test_an_unknown_initializer_names_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="no initializer 'glorot_uniforn'\n.*close ones: glorot_uniform"):
        built(hr.layers.Dense(1, kernel_initializer="glorot_uniforn"))


def test_a_module_without_a_call_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Module has no call: def call\(self, x"):
        built(hr.layers.Module())


class Forgetful(hr.layers.Module):
    """Does not call the constructor of its base."""

    def __init__(self) -> None:
        self.inner = hr.layers.Dense(2)

    def call(self, x: Any, *, training: bool = False) -> Any:
        return self.inner(x)


def test_the_constructor_of_the_base_need_not_be_called() -> None:
    model = Forgetful()
    built(model)
    assert list(model.named_parameters()) == ["inner/kernel", "inner/bias"]


def test_repr_counts_the_parameters() -> None:
    layer = hr.layers.Dense(1)
    built(layer)
    assert repr(layer) == "<hr.layers.Dense of 2 parameters>"
