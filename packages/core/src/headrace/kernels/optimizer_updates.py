"""NumPy kernels of the optimizer_updates family: one rule per optimiser, for whole variables and for rows of them.

A rule takes the state (the variable, then its slots) and the inputs by name, and returns the new state; nothing is
written before all of it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.op_def import lookup_op_def
from headrace.interfaces import OpContext, VariableStorage
from headrace.kernels.registry import register_kernel
from headrace.kernels.state import check_indices
from headrace.types import Array

State = Sequence[Any]
Inputs = dict[str, Any]
Rule = Callable[[OpContext, State, Inputs], State]


def _register(optimizer: str, rule: Rule, *, sparse: bool = False) -> None:
    register_kernel(f"ResourceApply{optimizer}")(_kernel(f"ResourceApply{optimizer}", rule))
    if sparse:
        register_kernel(f"ResourceSparseApply{optimizer}")(_kernel(f"ResourceSparseApply{optimizer}", rule))


def _kernel(op_type: str, rule: Rule) -> Callable[..., None]:
    arguments = lookup_op_def(op_type).inputs
    handles = sum(argument.dtype is not None for argument in arguments)
    names = [argument.name for argument in arguments[handles:]]

    def kernel(op: OpContext, *values: Any) -> None:
        inputs = dict(zip(names, values[handles:], strict=True))
        _update_together(values[:handles], lambda state: _change(op, rule, state, inputs))

    return kernel


def _update_together(variables: Sequence[VariableStorage], change: Callable[[Sequence[Array]], None]) -> None:
    """Change several variables at one moment.

    Their locks are taken in one order everywhere, so no two steps can wait for each other.
    """
    if len({id(variable) for variable in variables}) < len(variables):
        raise InvalidArgumentError(
            "one variable is given twice",
            expected="a variable and slots of its own",
            got=", ".join(variable.name for variable in variables),
            hint="make a slot with hr.Variable for each use",
        )
    buffers: dict[int, Array] = {}
    waiting = sorted(variables, key=id)

    def enter(position: int) -> None:
        if position == len(waiting):
            change([buffers[id(variable)] for variable in variables])
            return

        def hold(target: Array) -> None:
            buffers[id(waiting[position])] = target
            enter(position + 1)

        waiting[position].update(hold)

    try:
        enter(0)
    finally:
        buffers.clear()  # a buffer that is still referenced would be copied by its next update


def _change(op: OpContext, rule: Rule, state: Sequence[Array], inputs: Inputs) -> None:
    shape = state[0].shape
    for slot in state[1:]:
        if slot.shape != shape:
            raise ShapeError(
                "a slot does not fit the variable",
                expected=str(list(shape)),
                got=str(list(slot.shape)),
                hint="make the slot anew from zeros of the variable's shape, also after a restore",
            )
    gradient = "delta" if "delta" in inputs else "grad"
    indices = inputs.get("indices")
    if indices is not None and not shape:
        raise ShapeError(
            "a scalar variable has no rows",
            expected="rank >= 1",
            got=str(list(shape)),
            hint="update it with the op named ResourceApply..., which takes no indices",
        )
    wanted = shape if indices is None else (len(indices), *shape[1:])
    if np.shape(inputs[gradient]) != wanted:
        raise ShapeError(
            "the gradient does not fit the variable",
            expected=str(list(wanted)),
            got=str(list(np.shape(inputs[gradient]))),
            hint="hr.sum the gradient over axes that were broadcast, or hr.reshape it",
        )
    if indices is None:
        for target, value in zip(state, rule(op, state, inputs), strict=True):
            np.copyto(target, value)
        return
    check_indices(indices, shape[0])
    for chosen in _rounds(indices):
        rows = indices[chosen]
        replaced = rule(op, [target[rows] for target in state], {**inputs, gradient: inputs[gradient][chosen]})
        for target, value in zip(state, replaced, strict=True):
            target[rows] = value


def _rounds(indices: Array) -> list[Array]:
    """Positions in `indices` in rounds without repetition: first where each row is met first, then second, ..."""
    order = np.argsort(indices, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(indices[order]) != 0]))[: len(indices)]
    lengths = np.diff(np.concatenate([starts, [len(indices)]]))
    occurrence = np.arange(len(indices)) - np.repeat(starts, lengths)
    return [order[occurrence == turn] for turn in range(int(lengths.max(initial=0)))]


def _mean(old: Any, value: Any, decay: Any) -> Any:
    """decay * old + (1 - decay) * value, in the order of TensorFlow's kernels."""
    return old + (value - old) * (1 - decay)


def _gradient_descent(op: OpContext, state: State, inputs: Inputs) -> State:
    return [state[0] - inputs["alpha"] * inputs["delta"]]


def _momentum(op: OpContext, state: State, inputs: Inputs) -> State:
    var, accum = state
    rate, momentum, g = inputs["lr"], inputs["momentum"], inputs["grad"]
    accum = momentum * accum + g
    return [var - (g * rate + accum * momentum * rate if op.attr("use_nesterov") else accum * rate), accum]


def _keras_momentum(op: OpContext, state: State, inputs: Inputs) -> State:
    var, accum = state
    rate, momentum, g = inputs["lr"], inputs["momentum"], inputs["grad"]
    accum = momentum * accum - g * rate
    return [var + (accum * momentum - g * rate if op.attr("use_nesterov") else accum), accum]


def _adagrad(op: OpContext, state: State, inputs: Inputs) -> State:
    var, accum = state
    g = inputs["grad"]
    accum = accum + g * g if op.attr("update_slots") else accum
    return [var - inputs["lr"] * g / (np.sqrt(accum) + inputs.get("epsilon", 0)), accum]


def _adadelta(op: OpContext, state: State, inputs: Inputs) -> State:
    var, accum, accum_update = state
    rho, epsilon, g = inputs["rho"], inputs["epsilon"], inputs["grad"]
    accum = accum * rho + g * g * (1 - rho)
    change = np.sqrt(accum_update + epsilon) / np.sqrt(accum + epsilon) * g
    return [var - change * inputs["lr"], accum, accum_update * rho + change * change * (1 - rho)]


def _rmsprop(op: OpContext, state: State, inputs: Inputs) -> State:
    var, ms, mom = state
    g = inputs["grad"]
    ms = _mean(ms, g * g, inputs["rho"])
    mom = mom * inputs["momentum"] + inputs["lr"] * g / np.sqrt(ms + inputs["epsilon"])
    return [var - mom, ms, mom]


def _centered_rmsprop(op: OpContext, state: State, inputs: Inputs) -> State:
    var, mg, ms, mom = state
    g = inputs["grad"]
    ms, mg = _mean(ms, g * g, inputs["rho"]), _mean(mg, g, inputs["rho"])
    spread = np.maximum(ms - mg * mg, np.zeros_like(ms))  # rounding may bring it below 0 for a constant gradient
    mom = mom * inputs["momentum"] + inputs["lr"] * g / np.sqrt(spread + inputs["epsilon"])
    return [var - mom, mg, ms, mom]


def _adam(op: OpContext, state: State, inputs: Inputs) -> State:
    var, m, v = state
    g, beta1 = inputs["grad"], inputs["beta1"]
    rate = inputs["lr"] * np.sqrt(1 - inputs["beta2_power"]) / (1 - inputs["beta1_power"])
    m, v = _mean(m, g, beta1), _mean(v, g * g, inputs["beta2"])
    direction = g * (1 - beta1) + beta1 * m if op.attr("use_nesterov") else m
    return [var - direction * rate / (np.sqrt(v) + inputs["epsilon"]), m, v]


def _ada_max(op: OpContext, state: State, inputs: Inputs) -> State:
    var, m, v = state
    g = inputs["grad"]
    m, v = _mean(m, g, inputs["beta1"]), np.maximum(inputs["beta2"] * v, np.abs(g))
    return [var - inputs["lr"] / (1 - inputs["beta1_power"]) * (m / (v + inputs["epsilon"])), m, v]


def _ftrl(op: OpContext, state: State, inputs: Inputs) -> State:
    """The rate divides, or with `multiply_linear_by_lr` linear is kept multiplied by it, so that it may be 0."""
    var, accum, linear = state
    g, rate, l1, l2 = inputs["grad"], inputs["lr"], inputs["l1"], inputs["l2"]
    total = accum + g * g
    power = -inputs["lr_power"]
    old, new = (np.sqrt(n) if power == 0.5 else np.power(n, power) for n in (accum, total))
    shrunk = g + 2 * inputs["l2_shrinkage"] * var if "l2_shrinkage" in inputs else g
    multiplied = op.attr("multiply_linear_by_lr")
    outer, inner = (rate, 1) if multiplied else (1, rate)
    linear = linear + shrunk * outer - (new - old) / inner * var
    solved = (np.sign(linear) * l1 * outer - linear) / (new / inner + 2 * l2 * outer)
    return [np.where(np.abs(linear) > l1 * outer, solved, np.zeros_like(var)), total, linear]


def _shrunk(point: Any, rate: Any, inputs: Inputs) -> Any:
    """The point nearest to `point` under l1 and l2 of strength `rate`."""
    lower = np.abs(point) - rate * np.maximum(inputs["l1"], np.zeros_like(inputs["l1"]))
    return np.sign(point) * np.maximum(lower, np.zeros_like(lower)) / (1 + inputs["l2"] * rate)


def _proximal_gradient_descent(op: OpContext, state: State, inputs: Inputs) -> State:
    rate = inputs["alpha"]
    gradient = inputs["grad" if "grad" in inputs else "delta"]
    return [_shrunk(state[0] - rate * gradient, rate, inputs)]


def _proximal_adagrad(op: OpContext, state: State, inputs: Inputs) -> State:
    var, accum = state
    g = inputs["grad"]
    accum = accum + g * g
    rate = inputs["lr"] / np.sqrt(accum)
    return [_shrunk(var - rate * g, rate, inputs), accum]


_register("GradientDescent", _gradient_descent)
_register("Momentum", _momentum, sparse=True)
_register("KerasMomentum", _keras_momentum, sparse=True)
_register("Adagrad", _adagrad, sparse=True)
_register("AdagradV2", _adagrad, sparse=True)
_register("Adadelta", _adadelta, sparse=True)
_register("RMSProp", _rmsprop, sparse=True)
_register("CenteredRMSProp", _centered_rmsprop, sparse=True)
_register("Adam", _adam)
_register("AdaMax", _ada_max)
_register("Ftrl", _ftrl, sparse=True)
_register("FtrlV2", _ftrl, sparse=True)
_register("ProximalGradientDescent", _proximal_gradient_descent, sparse=True)
_register("ProximalAdagrad", _proximal_adagrad, sparse=True)
