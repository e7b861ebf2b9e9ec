"""Optimiser updates as single operations: each is the composition of primitives that its docstring states."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.op_def import lookup_op_def
from headrace.testing import assert_close

_SCALARS = {
    "lr": 0.1, "alpha": 0.1, "rho": 0.9, "momentum": 0.8, "epsilon": 1e-3, "beta1_power": 0.9, "beta2_power": 0.99,
    "beta1": 0.9, "beta2": 0.99, "l1": 0.3, "l2": 0.02, "l2_shrinkage": 0.03, "lr_power": -0.5,
}  # fmt: skip
_INDICES = np.array([1, 3, 1, 0, 1])


def _initial(op_type: str, dtype: Any = np.float64) -> dict[str, Any]:
    """A value of shape [4, 3] for every variable of an update, positive as accumulators are."""
    rng = np.random.default_rng(7)
    names = [argument.name for argument in lookup_op_def(op_type).inputs if argument.dtype is hr.resource]
    return {name: (rng.uniform(0.05, 0.2, (4, 3)) * (0.1 if name == "mg" else 1)).astype(dtype) for name in names}


def _updated(op_type: str, initial: dict[str, Any], inputs: dict[str, Any], **attrs: Any) -> dict[str, Any]:
    """What the variables hold after one update."""
    arguments = [argument.name for argument in lookup_op_def(op_type).inputs]
    dtype = next(iter(initial.values())).dtype
    with hr.Graph().as_default() as graph:
        variables = {name: hr.Variable(value, name=name) for name, value in initial.items()}
        given = [
            variables[name].handle if name in variables
            else inputs[name] if name == "indices" else np.asarray(inputs[name], dtype)
            for name in arguments
        ]  # fmt: skip
        update = hr.apply_op(op_type, *given, **attrs)
    session = hr.Session(graph)
    session.run(update)
    return dict(zip(variables, session.run(list(variables.values())), strict=True))


def _gradient_descent(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    return {"var": s["var"] - i["alpha"] * i["delta"]}


def _momentum(s: dict[str, Any], i: dict[str, Any], nesterov: bool = False) -> dict[str, Any]:
    m = i["momentum"] * s["accum"] + i["grad"]
    return {"accum": m, "var": s["var"] - i["lr"] * (i["grad"] + i["momentum"] * m if nesterov else m)}


def _keras_momentum(s: dict[str, Any], i: dict[str, Any], nesterov: bool = False) -> dict[str, Any]:
    m = i["momentum"] * s["accum"] - i["lr"] * i["grad"]
    return {"accum": m, "var": s["var"] + (i["momentum"] * m - i["lr"] * i["grad"] if nesterov else m)}


def _adagrad(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    a = s["accum"] + i["grad"] ** 2
    return {"accum": a, "var": s["var"] - i["lr"] * i["grad"] / (np.sqrt(a) + i.get("epsilon", 0))}


def _adadelta(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    a = i["rho"] * s["accum"] + (1 - i["rho"]) * i["grad"] ** 2
    d = i["grad"] * np.sqrt((s["accum_update"] + i["epsilon"]) / (a + i["epsilon"]))
    b = i["rho"] * s["accum_update"] + (1 - i["rho"]) * d**2
    return {"accum": a, "accum_update": b, "var": s["var"] - i["lr"] * d}


def _rmsprop(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    result = {"ms": i["rho"] * s["ms"] + (1 - i["rho"]) * i["grad"] ** 2}
    spread = result["ms"]
    if "mg" in s:
        result["mg"] = i["rho"] * s["mg"] + (1 - i["rho"]) * i["grad"]
        spread = spread - result["mg"] ** 2
    result["mom"] = i["momentum"] * s["mom"] + i["lr"] * i["grad"] / np.sqrt(spread + i["epsilon"])
    return {**result, "var": s["var"] - result["mom"]}


def _adam(s: dict[str, Any], i: dict[str, Any], nesterov: bool = False) -> dict[str, Any]:
    m = i["beta1"] * s["m"] + (1 - i["beta1"]) * i["grad"]
    v = i["beta2"] * s["v"] + (1 - i["beta2"]) * i["grad"] ** 2
    direction = i["beta1"] * m + (1 - i["beta1"]) * i["grad"] if nesterov else m
    rate = i["lr"] * np.sqrt(1 - i["beta2_power"]) / (1 - i["beta1_power"])
    return {"m": m, "v": v, "var": s["var"] - rate * direction / (np.sqrt(v) + i["epsilon"])}


def _ada_max(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    m = i["beta1"] * s["m"] + (1 - i["beta1"]) * i["grad"]
    v = np.maximum(i["beta2"] * s["v"], np.abs(i["grad"]))
    return {"m": m, "v": v, "var": s["var"] - i["lr"] / (1 - i["beta1_power"]) * m / (v + i["epsilon"])}


def _ftrl(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    n = s["accum"] + i["grad"] ** 2
    sigma = (n ** -i["lr_power"] - s["accum"] ** -i["lr_power"]) / i["lr"]
    z = s["linear"] + i["grad"] + 2 * i.get("l2_shrinkage", 0) * s["var"] - sigma * s["var"]
    solved = (np.sign(z) * i["l1"] - z) / (n ** -i["lr_power"] / i["lr"] + 2 * i["l2"])
    return {"accum": n, "linear": z, "var": np.where(np.abs(z) > i["l1"], solved, 0)}


def _proximal(s: dict[str, Any], i: dict[str, Any]) -> dict[str, Any]:
    if "accum" not in s:
        rate, g, result = i["alpha"], i["grad"], {}
    else:
        result = {"accum": s["accum"] + i["grad"] ** 2}
        rate, g = i["lr"] / np.sqrt(result["accum"]), i["grad"]
    p = s["var"] - rate * g
    return {**result, "var": np.sign(p) * np.maximum(np.abs(p) - rate * i["l1"], 0) / (1 + rate * i["l2"])}


_RULES = {
    "GradientDescent": _gradient_descent, "Momentum": _momentum, "KerasMomentum": _keras_momentum,
    "Adagrad": _adagrad, "AdagradV2": _adagrad, "Adadelta": _adadelta, "RMSProp": _rmsprop,
    "CenteredRMSProp": _rmsprop, "Adam": _adam, "AdaMax": _ada_max, "Ftrl": _ftrl, "FtrlV2": _ftrl,
    "ProximalGradientDescent": _proximal, "ProximalAdagrad": _proximal,
}  # fmt: skip
_SPARSE = (
    *("Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp", "Ftrl", "FtrlV2"),
    *("ProximalGradientDescent", "ProximalAdagrad"),
)


def _inputs(op_type: str, rows: int) -> dict[str, Any]:
    gradient = np.random.default_rng(3).normal(size=(rows, 3))
    scalars = {argument.name: _SCALARS.get(argument.name) for argument in lookup_op_def(op_type).inputs}
    return {**scalars, "grad": gradient, "delta": gradient, "indices": _INDICES}


@pytest.mark.parametrize("optimizer", _RULES)
def test_update_is_its_composition(optimizer: str) -> None:
    op_type = f"ResourceApply{optimizer}"
    initial, inputs = _initial(op_type), _inputs(op_type, 4)
    expected = _RULES[optimizer](initial, {k: v for k, v in inputs.items() if v is not None})
    actual = _updated(op_type, initial, inputs)
    assert actual.keys() == expected.keys()
    for name in expected:
        assert_close(actual[name], expected[name], what=name)


@pytest.mark.parametrize("optimizer", ["Momentum", "KerasMomentum", "Adam"])
def test_nesterov_looks_one_step_ahead(optimizer: str) -> None:
    op_type = f"ResourceApply{optimizer}"
    initial, inputs = _initial(op_type), _inputs(op_type, 4)
    actual = _updated(op_type, initial, inputs, use_nesterov=True)
    for name, value in _RULES[optimizer](initial, inputs, True).items():  # type: ignore[operator]
        assert_close(actual[name], value, what=name)


@pytest.mark.parametrize("optimizer", _SPARSE)
def test_rows_are_updated_in_the_order_of_the_indices(optimizer: str) -> None:
    op_type = f"ResourceSparseApply{optimizer}"
    initial, inputs = _initial(op_type), _inputs(op_type, len(_INDICES))
    expected = {name: value.copy() for name, value in initial.items()}
    for position, row in enumerate(_INDICES):
        one = {**{k: v for k, v in inputs.items() if v is not None}, "grad": inputs["grad"][position]}
        changed = _RULES[optimizer]({name: value[row] for name, value in expected.items()}, one)
        for name, value in changed.items():
            expected[name][row] = value
    actual = _updated(op_type, initial, inputs)
    for name, value in expected.items():
        assert_close(actual[name], value, what=name)
        assert actual[name][2].tobytes() == initial[name][2].tobytes()  # a row without a gradient


def test_repeated_rows_t05() -> None:
    """T05: the raw operation applies row after row; an optimiser adds repeated rows first."""
    initial = {"var": np.array([[1], [2]], np.float32), "accum": np.full((2, 1), 0.1, np.float32)}
    inputs = {"lr": 1.0, "grad": [[1.0], [2.0]], "indices": np.array([0, 0])}
    actual = _updated("ResourceSparseApplyAdagrad", initial, inputs)
    assert actual["var"][0, 0] == pytest.approx(-0.8390775, abs=1e-6)
    assert actual["accum"][:, 0].tolist() == pytest.approx([5.1, 0.1])


def test_adam_has_epsilon_hat_t01() -> None:
    initial = {"var": np.float32(1)[None], "m": np.zeros(1, np.float32), "v": np.zeros(1, np.float32)}
    inputs = {
        "beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3,
        "grad": [1e-3],
    }  # fmt: skip
    assert _updated("ResourceApplyAdam", initial, inputs)["var"][0] == pytest.approx(0.99693466, abs=1e-7)


def test_adam_is_that_of_the_optimizer() -> None:
    value, gradient = np.array([1.0, -2.0], np.float32), np.array([0.5, -0.25], np.float32)
    with hr.Graph().as_default() as graph:
        w = hr.Variable(value)
        train = hr.optim.Adam(0.1, epsilon=1e-3, epsilon_hat=True).minimize(hr.sum(w * gradient))
    session = hr.Session(graph)
    session.run(train)
    zeros = np.zeros(2, np.float32)
    inputs = {
        "beta1_power": 0.9, "beta2_power": 0.999, "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3,
        "grad": gradient,
    }  # fmt: skip
    fused = _updated("ResourceApplyAdam", {"var": value, "m": zeros, "v": zeros}, inputs)
    assert_close(fused["var"], session.run(w), what="var")


def test_centered_rmsprop_stays_finite_t03() -> None:
    """T03: for a constant gradient rounding brings ms - mg² below 0, of which TensorFlow takes the root."""
    zeros = np.zeros(1, np.float32)
    with hr.Graph().as_default() as graph:
        state = [hr.Variable(zeros) for _ in range(4)]
        rest = [np.float32(x) for x in (1e-3, 0.9, 0.0, 1e-10)]
        update = hr.apply_op(
            "ResourceApplyCenteredRMSProp", *(v.handle for v in state), *rest, np.array([1e4], np.float32)
        )
    session = hr.Session(graph)
    for _ in range(3000):
        session.run(update)
        assert all(np.isfinite(value).all() for value in session.run(state))


def test_slots_may_be_left_as_they_are() -> None:
    initial = _initial("ResourceApplyAdagrad")
    inputs = _inputs("ResourceApplyAdagrad", 4)
    actual = _updated("ResourceApplyAdagrad", initial, inputs, update_slots=False)
    assert actual["accum"].tobytes() == initial["accum"].tobytes()
    assert_close(actual["var"], initial["var"] - 0.1 * inputs["grad"] / np.sqrt(initial["accum"]), what="var")


def test_ftrl_with_linear_times_the_rate() -> None:
    """Linear is then lr times that of the plain form, and the variable the same."""
    initial, inputs = _initial("ResourceApplyFtrl"), _inputs("ResourceApplyFtrl", 4)
    plain = _updated("ResourceApplyFtrl", initial, inputs)
    scaled = {**initial, "linear": initial["linear"] * 0.1}
    actual = _updated("ResourceApplyFtrl", scaled, inputs, multiply_linear_by_lr=True)
    assert_close(actual["var"], plain["var"], what="var")
    assert_close(actual["linear"], plain["linear"] * 0.1, what="linear")


def test_no_rows_change_nothing() -> None:
    initial = _initial("ResourceSparseApplyMomentum")
    inputs = {"lr": 0.1, "momentum": 0.9, "grad": np.zeros((0, 3)), "indices": np.zeros(0, np.int64)}
    actual = _updated("ResourceSparseApplyMomentum", initial, inputs)
    assert all(actual[name].tobytes() == initial[name].tobytes() for name in initial)


@pytest.mark.parametrize("known", [True, False], ids=["when built", "when run"])
@pytest.mark.parametrize(
    ("grad", "indices", "lr", "text"),
    [
        (np.zeros((2, 3)), [0, 9], 0.1, "index is out of range"),
        (np.zeros((2, 3)), [0, -1], 0.1, "index is out of range"),
        (np.zeros((3, 3)), [0, 1], 0.1, "gradient does not fit"),
        (np.zeros((2, 2)), [0, 1], 0.1, "gradient does not fit"),
        (np.zeros((2, 3)), [[0, 1]], 0.1, "only rows can be updated|rank"),
        (np.zeros((2, 3)), [0, 1], [0.1], "must be a scalar|rank"),
    ],
)
def test_wrong_inputs_are_refused_and_change_nothing(grad: Any, indices: Any, lr: Any, text: str, known: bool) -> None:
    initial = _initial("ResourceSparseApplyAdagrad")
    values = [np.asarray(lr), np.asarray(grad), np.asarray(indices, np.int64)]
    with hr.Graph().as_default() as graph:
        variables = [hr.Variable(value) for value in initial.values()]
        handles = [variable.handle for variable in variables]
        holders = [hr.placeholder(hr.as_dtype(v.dtype), v.shape if known else None) for v in values]
    session = hr.Session(graph)

    def run() -> None:
        update = hr.apply_op("ResourceSparseApplyAdagrad", *handles, *holders)
        session.run(update, feeds=dict(zip(holders, values, strict=True)))

    with pytest.raises(hr.errors.InvalidArgumentError, match=text):
        run()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(session.run(variables), initial.values(), strict=True))


def test_slots_of_another_shape_or_dtype_are_refused() -> None:
    with hr.Graph().as_default():
        w, other, wide = hr.Variable([1.0, 2.0]), hr.Variable([1.0]), hr.Variable(np.ones(2))
        rest = [np.float32(0.1), np.ones(2, np.float32)]
        with pytest.raises(hr.errors.ShapeError, match="slot does not fit"):
            hr.apply_op("ResourceApplyAdagrad", w.handle, other.handle, *rest)
        with pytest.raises(hr.errors.DTypeError, match="another dtype"):
            hr.apply_op("ResourceApplyAdagrad", w.handle, wide.handle, *rest)
        scalar, slot = hr.Variable(1.0), hr.Variable(1.0)
        with pytest.raises(hr.errors.ShapeError, match="no rows"):
            hr.apply_op(
                "ResourceSparseApplyAdagrad", scalar.handle, slot.handle, np.float32(1), np.ones(1, np.float32), [0]
            )


@pytest.mark.parametrize(
    ("op_type", "w", "slot", "gradient", "rest", "message"),
    [
        ("ResourceApplyAdagrad", [1, 2], [1, 2, 3], [1, 1], [], r"slot does not fit(.|\n)*\[2\](.|\n)*\[3\]"),
        ("ResourceApplyAdagrad", [1, 2], [1, 2], [1, 1, 1], [], r"gradient does not fit(.|\n)*\[2\](.|\n)*\[3\]"),
        ("ResourceSparseApplyAdagrad", [[1, 2]], [[1, 2]], [[1, 1, 1]], [[0]], r"gradient does not fit(.|\n)*\[1, 2\]"),
        ("ResourceSparseApplyAdagrad", 1, 1, [1], [[0]], r"a scalar variable has no rows(.|\n)*ResourceApply"),
    ],
)
def test_variables_of_open_shape_are_checked_by_their_values(op_type, w, slot, gradient, rest, message: str) -> None:
    with hr.Graph().as_default() as graph:
        variables = [hr.Variable(np.array(value, np.float32), shape=hr.Shape()) for value in (w, slot)]
        given = [np.float32(0.1), np.array(gradient, np.float32), *rest]
        update = hr.apply_op(op_type, *(variable.handle for variable in variables), *given)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match=message):
        session.run(update)
    for variable, value in zip(variables, (w, slot), strict=True):
        np.testing.assert_array_equal(session.run(variable), value)


def test_a_variable_as_its_own_slot_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable([1.0, 2.0])
        update = hr.apply_op("ResourceApplyAdagrad", w.handle, w.handle, np.float32(0.1), np.ones(2, np.float32))
    with pytest.raises(hr.errors.InvalidArgumentError, match="given twice"):
        hr.Session(graph).run(update)


def test_updates_of_the_same_variables_in_either_order_do_not_wait_for_each_other() -> None:
    with hr.Graph().as_default() as graph:
        a, b = hr.Variable(np.ones(4)), hr.Variable(np.ones(4))
        rest = [np.float64(1e-6), np.ones(4), np.float64(0.5)]
        updates = [hr.apply_op("ResourceApplyMomentum", x.handle, y.handle, *rest) for x, y in ((a, b), (b, a))]
    session = hr.Session(graph)
    threads = [
        threading.Thread(target=lambda update=update: [session.run(update) for _ in range(200)], daemon=True)
        for update in updates
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
