"""Optimizer: the way from a loss to one operation that updates variables. A rule is a subclass of a few lines.

    loss ──hr.gradients──> gradients ──update(variable, gradient, slots, step)──> assignments ──group──> train operation

An update rule is written once, for whole variables. For a sparse gradient it is given the touched rows of the variable
and of its slots in their place (`hr.Variable.rows`), so that every optimiser, a user's too, leaves the other rows as
they are.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import DTypeError, GradientError, InvalidArgumentError

__all__ = ["LearningRate", "Optimizer", "add_repeated_rows", "new_slot"]

LearningRate = Any
"""A Python number, a scalar tensor or Variable, or a schedule: a function from the number of updates done to a rate."""


class Optimizer:
    """Base class of optimisers. It remembers which slots belong to which variable, and is else immutable.

    A subclass has `slots`, which names the state it keeps for a variable, and `update`, which adds the operations of
    one update. The same object works in graphs and inside `@hr.function`; slots live where their variable lives.

    Args:
      learning_rate: a number, a scalar tensor or Variable, or a schedule (see `hr.optim.schedules`).

    Example:
      >>> import headrace as hr
      >>> class SignDescent(hr.optim.Optimizer):
      ...     def update(self, variable, grad, slots, step):
      ...         return [variable.assign_sub(self.rate(step, variable.dtype) * hr.sign(grad))]
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     w = hr.Variable([3.0, -4.0])
      ...     train = SignDescent(0.5).minimize(hr.sum(w * w))
      >>> with hr.Session(graph) as session:
      ...     session.run(train)
      ...     print(session.run(w))
      [ 2.5 -3.5]
    """

    def __init__(self, learning_rate: LearningRate) -> None:
        is_number = isinstance(learning_rate, (int, float))
        if isinstance(learning_rate, (str, bytes)) or learning_rate is None or (is_number and not learning_rate >= 0):
            raise InvalidArgumentError(
                f"the learning rate of {type(self).__name__} cannot be used",
                expected="a number >= 0, a scalar tensor, or a schedule",
                got=repr(learning_rate),
                hint="to climb instead of descend, minimise -loss" if is_number else "0.01, say",
            )
        self.learning_rate = learning_rate
        self._slots: weakref.WeakKeyDictionary[hr.Variable, dict[str, hr.Variable]] = weakref.WeakKeyDictionary()
        self._counters: weakref.WeakKeyDictionary[hr.Variable, hr.Variable] = weakref.WeakKeyDictionary()

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """Name the state to keep for a variable.

        Args:
          variable: one that is to be updated.
        Returns:
          For each slot's name its initial value: a Python number fills a slot of the variable's shape, anything else is
          taken as it is. The slot becomes a Variable `<variable>/<name>` that is not trainable.
        """
        return {}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add the operations of one update of one variable.

        Args:
          variable: the Variable, or the rows of it that have a gradient.
          grad: its gradient, of its dtype and shape.
          slots: its slots by name, whole or the same rows of them.
          step: int64 scalar, the number of this update, from 1.
        Returns:
          The assignments.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update rule")

    def minimize(
        self,
        loss: hr.Tensor,
        var_list: Sequence[hr.Variable] | None = None,
        *,
        step: hr.Variable | None = None,
        name: str | None = None,
    ) -> hr.Operation:
        """Add the operation that makes `loss` smaller.

        Args:
          loss: floating scalar (of a tensor of more elements the sum is made smaller).
          var_list: what to update; by default every trainable variable that the loss depends on.
          step: int64 scalar Variable that counts the updates (a global step); by default the optimiser has its own.
          name: the name of the operation.
        Returns:
          The operation; inside `@hr.function` it runs without being fetched.
        Raises:
          InvalidArgumentError: there is nothing to update.
          GradientError: the loss does not depend on a variable of `var_list`.
        """
        return self.apply_gradients(self.compute_gradients(loss, var_list), step=step, name=name)

    def compute_gradients(
        self, loss: hr.Tensor, var_list: Sequence[hr.Variable] | None = None
    ) -> list[tuple[Any, hr.Variable]]:
        """Differentiate a loss.

        Args:
          loss: see `minimize`.
          var_list: see `minimize`.
        Returns:
          Pairs of gradient (a tensor, or `IndexedSlices` where few rows have one) and variable, to change at will
          (clip, scale) and hand to `apply_gradients`.
        Raises:
          HeadraceError: see `minimize`.
        """
        wanted = _trainable(loss) if var_list is None else list(var_list)
        if not wanted:
            raise InvalidArgumentError(
                "there is nothing to optimise",
                expected="at least one trainable hr.Variable",
                got="none in the graph",
                hint="hr.Variable(..., trainable=True), or module.unfreeze()",
            )
        pairs = list(zip(hr.gradients(loss, wanted), wanted, strict=True))
        found = [(grad, variable) for grad, variable in pairs if grad is not None]
        if var_list is not None and len(found) < len(pairs):
            lost = next(variable for grad, variable in pairs if grad is None)
            raise GradientError(
                f"variable '{lost.name}' gets no gradient",
                expected="a loss that depends on every variable of var_list",
                got=hr.explain_gradient(loss, lost),
                hint="leave it out of var_list",
            )
        if not found:
            raise InvalidArgumentError(
                "there is nothing to optimise",
                expected="a loss that depends on a trainable variable",
                got=hr.explain_gradient(loss, wanted[0]),
                hint="compute the loss from the variables in this graph",
            )
        return found

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, hr.Variable]],
        *,
        step: hr.Variable | None = None,
        name: str | None = None,
    ) -> hr.Operation:
        """Add the operation that updates variables by their gradients.

        Args:
          grads_and_vars: pairs of gradient and variable; pairs whose gradient is None are passed over.
          step: see `minimize`.
          name: the name of the operation.
        Returns:
          The operation.
        Raises:
          InvalidArgumentError: no pair has a gradient, a variable comes twice, or its static shape is not fully known.
        """
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        variables = [variable for _, variable in pairs]
        if not pairs:
            raise InvalidArgumentError(
                "no variable has a gradient",
                expected="at least one pair of gradient and variable",
                got="no pair, or None for each gradient",
                hint="hr.explain_gradient(loss, variable) says why a gradient is None",
            )
        if len(set(variables)) < len(variables):
            repeated = next(variable for variable in variables if variables.count(variable) > 1)
            raise InvalidArgumentError(
                f"variable '{repeated.name}' is to be updated twice",
                expected="one gradient per variable",
                got=f"{variables.count(repeated)}",
                hint="add them up",
            )
        counter = self._counter(variables) if step is None else step
        with hr.name_scope(name or type(self).__name__) as scope:
            number = counter.read() + 1
            updates = [*self.update_all(pairs, number), counter.assign(number)]
            return hr.group(updates, name=scope)

    def update_all(self, pairs: Sequence[tuple[Any, hr.Variable]], step: hr.Tensor) -> list[Any]:
        """Add the updates of all variables; a rule that looks at several variables at a time overrides this.

        Args:
          pairs: gradient and variable, as in `apply_gradients`.
          step: int64 scalar, the number of this update, from 1.
        """
        updates: list[Any] = []
        for grad, variable in pairs:
            slots = self.slots_of(variable)
            whole = add_repeated_rows(grad) if isinstance(grad, hr.IndexedSlices) else hr.convert_to_tensor(grad)
            with _beside(variable):
                if isinstance(whole, hr.IndexedSlices):
                    updates += self._update_rows(variable, whole, slots, step)
                else:
                    updates += self._assignments(self.update(variable, whole, slots, step))
        return updates

    def _update_rows(
        self, variable: hr.Variable, grad: hr.IndexedSlices, slots: Mapping[str, hr.Variable], step: hr.Tensor
    ) -> Iterable[Any]:
        rows = {name: slot.rows(grad.indices) if slot.shape == variable.shape else slot for name, slot in slots.items()}
        return self._assignments(self.update(variable.rows(grad.indices), grad.values, rows, step))

    def _assignments(self, updates: Any) -> Iterable[Any]:
        """What `update` gave; a rule that forgets to return its assignments would train nothing in a graph."""
        if not isinstance(updates, Iterable) or isinstance(updates, hr.Tensor):
            raise InvalidArgumentError(
                f"{type(self).__name__}.update returned no assignments",
                expected="a list of the operations that assign to the variable and its slots",
                got=repr(updates),
                hint="return [slots['momentum'].assign(...), variable.assign_sub(...)]",
            )
        return updates

    def slots_of(self, variable: hr.Variable) -> Mapping[str, hr.Variable]:
        """The slots of a variable by name; made at the first call."""
        found = self._slots.get(variable)
        if found is None:
            found = {name: new_slot(variable, name, value) for name, value in self.slots(variable).items()}
            self._slots[variable] = found
        return found

    def _counter(self, variables: Sequence[hr.Variable]) -> hr.Variable:
        """The counter of the updates of these variables: a trace that is made again must find the one it had."""
        counter = next((self._counters[variable] for variable in variables if variable in self._counters), None)
        if counter is None:
            name = f"{type(self).__name__}/step/"
            counter = hr.Variable(np.int64(0), name=name, trainable=False, beside=variables[0])
        for variable in variables:
            self._counters.setdefault(variable, counter)
        return counter

    def rate(self, step: hr.Tensor, dtype: hr.DType) -> Any:
        """The learning rate of one update.

        Args:
          step: int64 scalar, the number of the update, from 1.
          dtype: the dtype of the variable.
        Returns:
          A Python number, or a scalar tensor of `dtype`.
        """
        if isinstance(self.learning_rate, (int, float)):
            return self.learning_rate
        rate = self.learning_rate(step - 1) if callable(self.learning_rate) else self.learning_rate
        return hr.astype(rate, dtype)


def _trainable(loss: hr.Tensor) -> list[hr.Variable]:
    return [variable for variable in loss.op.graph.variables if variable.trainable]


def new_slot(variable: hr.Variable, name: str, value: Any) -> hr.Variable:
    """Make the slot `<variable>/<name>`, where the variable lives; a number fills a slot of its shape."""
    if not isinstance(value, (int, float)):
        return hr.Variable(value, name=f"{variable.name}/{name}/", trainable=False, beside=variable)
    if not variable.shape.is_fully_defined:
        raise InvalidArgumentError(
            f"an optimiser cannot keep state for variable '{variable.name}'",
            expected="a fully known static shape",
            got=str(variable.shape),
            hint="hr.Variable(..., shape=[...]), or an initial value of known shape",
        )
    if not variable.dtype.is_floating:
        raise DTypeError(
            f"variable '{variable.name}' cannot be optimised",
            expected="a floating dtype",
            got=str(variable.dtype),
            hint="make it with trainable=False if it only counts",
        )
    fill = _fill(variable, value)
    return hr.Variable(fill, name=f"{variable.name}/{name}/", trainable=False, beside=variable)


def _fill(variable: hr.Variable, value: float) -> Callable[[], hr.Tensor]:
    """Filled by an operation, so that the graph holds no constant of the variable's size."""
    return lambda: hr.full(variable.shape.as_tuple(), hr.constant(value, variable.dtype))


def add_repeated_rows(grad: hr.IndexedSlices) -> hr.IndexedSlices:
    """Add up the rows of a sparse gradient that have the same index, so that each index comes once.

    Args:
      grad: its rows, `[n, ...]`.
    Returns:
      The same gradient with `[m, ...]` rows, m <= n.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     grad = hr.IndexedSlices(hr.constant([[1.0], [2.0], [4.0]]), hr.constant([7, 0, 7]), hr.constant([9, 1]))
      ...     once = hr.optim.add_repeated_rows(grad)
      >>> values, indices = hr.Session(graph).run([once.values, once.indices])
      >>> print(values.tolist(), indices.tolist())
      [[5.0], [2.0]] [7, 0]
    """
    indices, position = hr.unique_inverse(grad.indices)
    values = hr.unsorted_segment_sum(grad.values, position, hr.size(indices))
    return hr.IndexedSlices(values, indices, grad.dense_shape)


def _beside(variable: hr.Variable) -> AbstractContextManager[None]:
    """The scope of an update: where the variable is, if somebody says where that is.

    Otherwise it is left open: what is computed for several variables alike can then be computed once.
    """
    home = variable.handle.op
    return hr.colocate_with(home) if home.device or home.colocation else nullcontext()
