"""L-BFGS: a quasi-Newton method that looks at all variables as one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError
from headrace.training.optim.optimizer import LearningRate, Optimizer, new_slot

__all__ = ["LBFGS"]

_LEAST_CURVATURE = 1e-10
"""A pair of differences below this scalar product would make the matrix nearly singular; it is left out."""


class LBFGS(Optimizer):
    """Limited-memory BFGS for losses without noise, without a line search.

    Each update takes the step t * d, where d = -H g is found by the two-loop recursion from the last `history`
    differences of positions s and gradients y. H starts from (s.y / y.y) I. The first update, which has no history,
    takes the step min(1, 1 / |g|_1) * rate along -g; all later ones take t = rate.

    Args:
      learning_rate: see `Optimizer`.
      history: how many differences to keep; each takes twice the memory of the variables.
    Raises:
      InvalidArgumentError: `history` is not above 0.
    Source: Nocedal, Wright, *Numerical Optimization*, 2nd edition, algorithms 7.4 and 7.5.
    """

    def __init__(self, learning_rate: LearningRate = 1.0, history: int = 10) -> None:
        super().__init__(learning_rate)
        if history < 1:
            raise InvalidArgumentError(
                "L-BFGS cannot work without a history",
                expected="history >= 1",
                got=str(history),
                hint="hr.optim.SGD keeps none",
            )
        self.history = history

    def update_all(self, pairs: Sequence[tuple[Any, hr.Variable]], step: hr.Tensor) -> list[Any]:
        """Add the update of all variables at once; see `Optimizer.update_all`.

        Raises:
          DTypeError: the variables have more than one dtype, or one other than float32 and float64.
          InvalidArgumentError: a variable's static shape is not fully known.
        """
        variables = [variable for _, variable in pairs]
        sizes = [_size(variable, variables[0]) for variable in variables]
        gradient = hr.concat([hr.reshape(hr.convert_to_tensor(grad), [-1]) for grad, _ in pairs], axis=0)
        state = self._state(variables[0], sum(sizes))
        first = hr.equal(step, hr.constant(1, step.dtype))
        # Where nothing has been done yet, change and difference are zeros, so the pair is left out by its curvature.
        change, difference = state["Change"].read(), gradient - state["Gradient"].read()
        curvature = hr.sum(change * difference)
        useful = curvature > _LEAST_CURVATURE
        positions = _pushed(state["Positions"].read(), change, useful)
        gradients = _pushed(state["Gradients"].read(), difference, useful)
        weights = _pushed(state["Weights"].read(), hr.where(useful, 1.0 / curvature, hr.zeros_like(curvature)), useful)
        safe = hr.where(useful, hr.sum(hr.square(difference)), hr.ones_like(curvature))
        scale = hr.where(useful, curvature / safe, state["Scale"].read())
        direction = self._direction(gradient, positions, gradients, weights, scale)
        rate = hr.convert_to_tensor(self.rate(step, gradient.dtype), gradient.dtype)
        length = hr.where(first, rate * hr.minimum(1.0 / hr.sum(hr.abs(gradient)), 1.0), rate)
        moved = length * direction
        news = {
            "Change": moved, "Gradient": gradient, "Positions": positions, "Gradients": gradients, "Weights": weights,
            "Scale": scale,
        }  # fmt: skip
        return [*(state[name].assign(value) for name, value in news.items()), *_moves(variables, sizes, moved)]

    def _direction(
        self, gradient: hr.Tensor, positions: hr.Tensor, gradients: hr.Tensor, weights: hr.Tensor, scale: hr.Tensor
    ) -> hr.Tensor:
        """-H g by the two-loop recursion; unused rows of the history have weight 0 and change nothing."""
        direction, shares = -gradient, []
        for row in reversed(range(self.history)):
            shares.append(weights[row] * hr.sum(positions[row] * direction))
            direction = direction - shares[-1] * gradients[row]
        direction = scale * direction
        for row in range(self.history):
            share = shares.pop() - weights[row] * hr.sum(gradients[row] * direction)
            direction = direction + share * positions[row]
        return direction

    def _state(self, variable: hr.Variable, size: int) -> dict[str, hr.Variable]:
        """The state of all variables together, kept with the first."""
        found = self._slots.get(variable)
        if found is None:
            shapes: dict[str, list[int]] = {
                "Change": [size], "Gradient": [size], "Positions": [self.history, size],
                "Gradients": [self.history, size], "Weights": [self.history],
            }  # fmt: skip
            found = {
                name: new_slot(variable, f"LBFGS/{name}", _zeros(shape, variable.dtype))
                for name, shape in shapes.items()
            }
            found["Scale"] = new_slot(variable, "LBFGS/Scale", _one(variable.dtype))
            self._slots[variable] = found
        return found


def _zeros(shape: list[int], dtype: hr.DType) -> Any:
    return lambda: hr.zeros(shape, dtype)


def _one(dtype: hr.DType) -> Any:
    return lambda: hr.ones([], dtype)


def _size(variable: hr.Variable, first: hr.Variable) -> int:
    if variable.dtype not in (hr.float32, hr.float64):
        raise DTypeError(
            f"L-BFGS cannot optimise variable '{variable.name}'",
            expected="float32 or float64: it lives on differences of gradients",
            got=str(variable.dtype),
            hint="hr.optim.SGD or Adam",
        )
    if variable.dtype is not first.dtype:
        raise DTypeError(
            f"L-BFGS sees all variables as one vector, but '{variable.name}' has another dtype",
            expected=f"{first.dtype} as '{first.name}'",
            got=str(variable.dtype),
            hint="one optimiser for the variables of each dtype",
        )
    size = variable.shape.num_elements
    if size is None:
        raise InvalidArgumentError(
            f"L-BFGS cannot keep state for variable '{variable.name}'",
            expected="a fully known static shape",
            got=str(variable.shape),
            hint="hr.Variable(..., shape=[...]), or an initial value of known shape",
        )
    return size


def _pushed(history: hr.Tensor, newest: hr.Tensor, useful: hr.Tensor) -> hr.Tensor:
    """The history with its oldest entry exchanged for the newest, if that is useful."""
    return hr.where(useful, hr.concat([history[1:], hr.expand_dims(newest, 0)], axis=0), history)


def _moves(variables: Sequence[hr.Variable], sizes: Sequence[int], moved: hr.Tensor) -> list[Any]:
    moves, start = [], 0
    for variable, size in zip(variables, sizes, strict=True):
        part = hr.reshape(moved[start : start + size], variable.shape.as_tuple())
        moves.append(variable.assign_add(part))
        start += size
    return moves
