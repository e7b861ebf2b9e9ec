"""Loop rules of what changes variables: a rule gets the state behind a handle as a value, gives the new one."""

from __future__ import annotations

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.value import Value

__all__: list[str] = []


@register_loops("AssignVariableOp")
def _assign(op: LoopContext, state: Value, value: Value) -> Value | None:
    return value if state.shape == value.shape and state.dtype is value.dtype else None


@register_loops("AssignAddVariableOp")
def _assign_add(op: LoopContext, state: Value, value: Value) -> Value | None:
    return state + value if state.shape == value.shape else None


@register_loops("AssignSubVariableOp")
def _assign_sub(op: LoopContext, state: Value, value: Value) -> Value | None:
    return state - value if state.shape == value.shape else None


def _alike(*values: Value) -> bool:
    """States and gradient of one shape and of a dtype whose rounding the kernel shares."""
    return len({value.shape for value in values}) == 1 and values[0].dtype.name in ("float32", "float64")


@register_loops("ResourceApplyGradientDescent")
def _gradient_descent(op: LoopContext, var: Value, alpha: Value, delta: Value) -> Value | None:
    return var - alpha * delta if _alike(var, delta) else None


@register_loops("ResourceApplyMomentum")
def _momentum(op: LoopContext, var: Value, accum: Value, lr: Value, grad: Value, momentum: Value) -> object:
    if not _alike(var, accum, grad):
        return None
    accum = momentum * accum + grad
    step = grad * lr + accum * momentum * lr if op.attr("use_nesterov") else accum * lr
    return var - step, accum


@register_loops("ResourceApplyKerasMomentum")
def _keras_momentum(op: LoopContext, var: Value, accum: Value, lr: Value, grad: Value, momentum: Value) -> object:
    if not _alike(var, accum, grad):
        return None
    accum = momentum * accum - grad * lr
    return var + (accum * momentum - grad * lr if op.attr("use_nesterov") else accum), accum


@register_loops("ResourceApplyAdam")
def _adam(
    op: LoopContext,
    var: Value,
    m: Value,
    v: Value,
    beta1_power: Value,
    beta2_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
) -> object:
    if not _alike(var, m, v, grad):
        return None
    rate = lr * loops.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)
    m = m + (grad - m) * (1.0 - beta1)
    v = v + (grad * grad - v) * (1.0 - beta2)
    direction = grad * (1.0 - beta1) + beta1 * m if op.attr("use_nesterov") else m
    return var - direction * rate / (loops.sqrt(v) + epsilon), m, v


@register_loops("ResourceApplyRMSProp")
def _rmsprop(
    op: LoopContext,
    var: Value,
    ms: Value,
    mom: Value,
    lr: Value,
    rho: Value,
    momentum: Value,
    epsilon: Value,
    grad: Value,
) -> object:
    if not _alike(var, ms, mom, grad):
        return None
    ms = ms + (grad * grad - ms) * (1.0 - rho)
    mom = mom * momentum + lr * grad / loops.sqrt(ms + epsilon)
    return var - mom, ms, mom


@register_loops("ResourceApplyAdagrad")
def _adagrad(op: LoopContext, var: Value, accum: Value, lr: Value, grad: Value) -> object:
    if not _alike(var, accum, grad):
        return None
    accum = accum + grad * grad if op.attr("update_slots") else accum
    return var - lr * grad / loops.sqrt(accum), accum
