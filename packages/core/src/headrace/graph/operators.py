"""Python's operators on symbolic values: one table from operator names to user functions.

`Tensor` and `Variable` inherit the methods; the operation families fill the table with `overload_operator`, so that
this module names no operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import InternalError

if TYPE_CHECKING:
    from headrace.graph.operation import Tensor

__all__ = ["Operators", "overload_operator"]

_overloads: dict[str, Callable[..., Any]] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def overload_operator(*names: str) -> Callable[[Function], Function]:
    """Make the decorated user function the meaning of the operators `names` (for instance "add" for `+`)."""

    def decorate(function: Function) -> Function:
        for name in names:
            _overloads[name] = function
        return function

    return decorate


def _call(name: str, *operands: Any) -> Tensor:
    function = _overloads.get(name)
    if function is None:
        raise InternalError(
            f"the operator '{name}' has no user function",
            expected="a function registered with overload_operator",
            got=f"functions of {len(_overloads)} other operators",
            hint="import headrace as a whole; if that was done, please report this",
        )
    result: Tensor = function(*operands)
    return result


class Operators:
    """Arithmetic, comparison and slicing on symbolic values.

    `==` stays identity, since tensors are dictionary keys: use `hr.equal` for the element-wise comparison.
    """

    __slots__ = ()
    __array_priority__ = 1000  # NumPy arrays on the left let us answer
    __array_ufunc__ = None  # NumPy functions refuse symbolic values at once instead of making object arrays

    def __add__(self, other: Any) -> Tensor:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _call("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _call("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _call("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _call("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _call("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _call("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _call("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _call("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _call("remainder", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _call("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _call("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return _call("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _call("matmul", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _call("and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _call("and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _call("or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _call("or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _call("xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _call("xor", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return _call("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _call("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _call("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _call("greater_equal", self, other)

    def __lshift__(self, other: Any) -> Tensor:
        return _call("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _call("left_shift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _call("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _call("right_shift", other, self)

    def __pos__(self) -> Tensor:
        return _call("positive", self)

    def __neg__(self) -> Tensor:
        return _call("negative", self)

    def __abs__(self) -> Tensor:
        return _call("abs", self)

    def __invert__(self) -> Tensor:
        return _call("invert", self)

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix; `mT` is that of each of several."""
        return _call("transpose", self)

    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix: the last two axes exchanged."""
        return _call("matrix_transpose", self)

    def __getitem__(self, key: Any) -> Tensor:
        return _call("getitem", self, key)
