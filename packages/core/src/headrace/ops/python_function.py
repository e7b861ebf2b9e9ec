"""Python in a graph (`hr.py_function`): a function of arrays as an operation.

The function stays in this program: graph files hold only its token, so they run where the function is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from headrace.errors import InvalidArgumentError, NotFoundError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.branching import check_callable
from headrace.types import DType, DTypeLike, Shape, ShapeLike, as_dtype, as_shape

__all__ = ["PythonFunction", "find_python_function", "py_function"]

_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class PythonFunction:
    """A function that operations call, and what differentiates it.

    Attributes:
      function: arrays in, arrays out.
      gradient: arrays and output gradients in, input gradients out; None if there is none.
      token: its name in the attributes of operations.
    """

    function: Callable[..., Any]
    gradient: Callable[..., Any] | None = None
    token: str = field(default_factory=lambda: f"headrace_py_{next(_numbers)}")


_functions: WeakValueDictionary[str, PythonFunction] = WeakValueDictionary()
"""By token; the graph in which a function is used holds it."""


def find_python_function(token: str) -> PythonFunction:
    """The function of a token.

    Raises:
      NotFoundError: it is not in this program.
    """
    found = _functions.get(token)
    if found is None:
        raise NotFoundError(
            f"the Python function '{token}' is not in this program",
            expected="a function that this program gave to hr.py_function",
            got=f"a token from a graph file or another process; {len(_functions)} functions are known",
            hint="feed the output of the operation instead, or replace it when the graph is imported",
        )
    return found


_ATTRS = {"token": attr.string(), "Tin": attr.list_of(attr.any_type), "Tout": attr.list_of(attr.any_type)}


def _any_shapes(op: InferenceContext) -> list[Shape]:
    return [Shape()] * len(op.attr("Tout"))


@register_op("PyFunc", inputs={"input": "Tin"}, outputs={"output": "Tout"}, attrs=_ATTRS, stateful=True)
def _py_func_shape(op: InferenceContext) -> list[Shape]:
    """What a Python function gives for the arrays of the inputs; it may have effects."""
    return _any_shapes(op)


@register_op("PyFuncStateless", inputs={"input": "Tin"}, outputs={"output": "Tout"}, attrs=_ATTRS, stateful=True)
def _py_func_stateless_shape(op: InferenceContext) -> list[Shape]:
    """As PyFunc, of a function without effects; it is not run while the graph is made ready all the same."""
    return _any_shapes(op)


@register_op(
    "EagerPyFunc",
    inputs={"input": "Tin"},
    outputs={"output": "Tout"},
    attrs={**_ATTRS, "is_async": attr.bool(False)},
    stateful=True,
)
def _eager_py_func_shape(op: InferenceContext) -> list[Shape]:
    """As PyFunc; in TensorFlow the function gets tensors instead of arrays."""
    return _any_shapes(op)


def py_function(
    function: Callable[..., Any],
    inputs: Sequence[TensorLike],
    dtypes: DTypeLike | Sequence[DTypeLike],
    *,
    shapes: ShapeLike | Sequence[ShapeLike] = None,
    gradient: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call a Python function when the step runs.

    Args:
      function: called with one NumPy array for each input, which it must not write to; gives an array, or one for each
        of several `dtypes`. It runs under Python's lock, in the thread of the step.
      inputs: the tensors it gets.
      dtypes: that of its result, or a list of them for several (an empty one for none).
      shapes: the static shape of the result, or one for each of several, where it is known.
      gradient: called with the inputs and one more array for each result, the gradient by that; gives one array (or
        None for zeros) for each input. Without it the results count as constants.
      name: the operation's name.
    Returns:
      A tensor, or a tuple of them where `dtypes` is a sequence.
    Raises:
      InvalidArgumentError: when it runs, if the function gives something else than was said.

    Example:
      >>> import headrace as hr, numpy as np
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.constant([3.0, 4.0])
      ...     y = hr.py_function(np.square, [x], hr.float32, shapes=[2], gradient=lambda x, g: 2 * x * g)
      ...     (dx,) = hr.gradients(y, [x])
      >>> print(*hr.Session(graph).run([y, dx]))
      [ 9. 16.] [6. 8.]
    """
    check_callable(function, "what py_function was given", "*arrays")
    several = isinstance(dtypes, (list, tuple))
    kinds: list[DType] = [as_dtype(item) for item in dtypes] if several else [as_dtype(dtypes)]  # type: ignore[union-attr, arg-type]
    known = list(shapes) if several and shapes is not None else [shapes] * len(kinds)  # type: ignore[arg-type]
    if len(known) != len(kinds):
        raise InvalidArgumentError(
            "the results and their shapes differ in number",
            expected=f"{len(kinds)} shapes",
            got=str(len(known)),
            hint="give None for a shape that is not known",
        )
    with graph_of(inputs) as graph:
        holder = PythonFunction(function, gradient)
        _functions[holder.token] = holder
        graph.root.python_functions[holder.token] = holder
        tensors = [convert_to_tensor(item) for item in inputs]
        outputs: tuple[Tensor, ...] = apply_op(
            "PyFunc", tensors, token=holder.token, Tin=[item.dtype for item in tensors], Tout=kinds, name=name
        )
    for output, shape in zip(outputs, known, strict=True):
        if shape is not None:
            output.set_shape(as_shape(shape))  # type: ignore[arg-type]  # one of several, or the only one
    return outputs if several else outputs[0]
