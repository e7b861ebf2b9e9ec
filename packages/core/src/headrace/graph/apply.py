"""apply_op: from a user's call with Python values to one checked operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.errors import DTypeError, GraphError, HeadraceError, InvalidArgumentError
from headrace.graph.attr import AttrSpec, AttrValue
from headrace.graph.graph import Graph
from headrace.graph.op_def import ArgSpec, OpDef, lookup_op_def
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_graph, current_scope, enter, has_graph
from headrace.graph.source import user_line
from headrace.types import Array, DType, Scalar, as_dtype, dtype_of_number, string

__all__ = ["TensorLike", "apply_op", "as_array", "constant", "convert_to_tensor", "graph_of", "natural_array"]

TensorLike = Any
"""A Tensor, a Variable, a NumPy array, a Python number, bytes, str, or nested sequences of these."""


def apply_op(type_name: str, *inputs: TensorLike, name: str | None = None, **attrs: AttrValue) -> Any:
    """Add one operation to the graph that is being built and return what it gives.

    Inputs that are not tensors become constants: Python numbers take the dtype of a tensor they share a type attr with.
    Type attrs and list lengths follow from the inputs and need not be given.

    Args:
      type_name: the registered type.
      *inputs: one per input of the signature; a sequence where the input is a list.
      name: the operation's name.
      **attrs: its attributes.
    Returns:
      The output tensor; a tuple of tensors where there are several (an output list counts as its own tuple); the
      `Operation` where there is none.
    Raises:
      InvalidArgumentError: the number of inputs does not fit the signature.
      HeadraceError: as `Graph.create_op`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.apply_op("AddV2", [1.0, 2.0], 3).shape)
      [2]
    """
    try:
        op_def = lookup_op_def(type_name)
        if len(inputs) != len(op_def.inputs):
            raise InvalidArgumentError(
                f"{type_name} was given {len(inputs)} inputs",
                expected=op_def.signature,
                got=f"{len(inputs)} inputs",
                hint="pass an input that stands for a list as one list, and attrs by keyword",
            )
        with graph_of(inputs) as graph:
            flat, inferred = _convert_inputs(op_def, inputs, attrs)
            operation = graph.create_op(type_name, flat, {**inferred, **attrs}, name=name)
    except HeadraceError as error:
        error.at(f"{type_name} asked for at {user_line()}")
        raise
    return _results(operation)


def _results(operation: Operation) -> Any:
    outputs = list(operation.outputs)
    results: list[Any] = []
    for argument in operation.op_def.outputs:
        count = len(argument.dtypes(operation.attrs))
        taken, outputs = outputs[:count], outputs[count:]
        results.append(tuple(taken) if argument.is_list else taken[0])
    if not results:
        return operation
    return results[0] if len(results) == 1 else tuple(results)


@contextmanager
def graph_of(inputs: Iterable[TensorLike]) -> Iterator[Graph]:
    """Build in the graph of the first tensor among the inputs: a tensor may be used outside `as_default` too."""
    graph = _find_graph(inputs)
    with enter(current_scope() if current_scope().graph is graph else Scope(graph=graph)):
        yield graph


def _find_graph(inputs: Iterable[TensorLike]) -> Graph:
    """The graph of the first tensor among the inputs, or the one being built, also where that is inside the other."""
    for item in inputs:
        for part in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(part, Tensor):
                building = current_scope().graph
                return part.graph if building is None or not building.is_inside(part.graph) else building
    return current_graph()


def _convert_inputs(
    op_def: OpDef, inputs: Sequence[TensorLike], attrs: Mapping[str, AttrValue]
) -> tuple[list[Tensor], dict[str, AttrValue]]:
    """Turn the inputs into tensors and infer the type and number attrs they decide."""
    inferred: dict[str, AttrValue] = {
        name: as_dtype(value)
        for name, value in attrs.items()
        if name in op_def.attrs and op_def.attrs[name].kind == "type" and not op_def.attrs[name].is_list
    }
    for argument, value in zip(op_def.inputs, inputs, strict=True):
        _infer_from_tensors(argument, value, inferred)
    flat: list[Tensor] = []
    for argument, value in zip(op_def.inputs, inputs, strict=True):
        if not argument.is_list:
            flat.append(_convert_one(op_def, argument, value, inferred))
            continue
        if isinstance(value, (Tensor, str, bytes)) or not isinstance(value, Iterable):
            raise InvalidArgumentError(
                f"input '{argument.name}' of {op_def.name} stands for a list",
                expected="a sequence of tensors",
                got=repr(value),
                hint=f"{argument.name}=[x] for a list of one tensor",
            )
        tensors = [_convert_one(op_def, argument, item, inferred) for item in value]
        if argument.number_attr is not None:
            inferred.setdefault(argument.number_attr, len(tensors))
        else:
            inferred.setdefault(str(argument.type_list_attr), tuple(tensor.dtype for tensor in tensors))
        flat.extend(tensors)
    return flat, inferred


def _infer_from_tensors(argument: ArgSpec, value: TensorLike, inferred: dict[str, AttrValue]) -> None:
    """Tensors, variables and arrays have a dtype of their own, which decides the type attr before Python numbers do."""
    if argument.type_attr is None or argument.type_attr in inferred:
        return
    for item in value if argument.is_list and isinstance(value, Iterable) else [value]:
        dtype = getattr(item, "dtype", None)
        if dtype is not None:
            inferred[argument.type_attr] = as_dtype(dtype)
            return


def _convert_one(op_def: OpDef, argument: ArgSpec, value: TensorLike, inferred: dict[str, AttrValue]) -> Tensor:
    wanted = argument.dtype
    if wanted is None and argument.type_attr is not None:
        wanted = inferred.get(argument.type_attr)
    tensor = convert_to_tensor(value, wanted or _preferred(op_def, argument, value))
    if argument.type_attr is not None:
        inferred.setdefault(argument.type_attr, tensor.dtype)
    return tensor


def _preferred(op_def: OpDef, argument: ArgSpec, value: TensorLike) -> DType | None:
    """The default of the type attr, if a Python value may take it (an index given as a Python int becomes int32)."""
    spec: AttrSpec | None = op_def.attrs.get(argument.type_attr or "")
    if spec is None or not isinstance(spec.default, DType) or hasattr(value, "dtype") or _is_symbolic(value):
        return None
    natural = as_array(value, None)
    return spec.default if not natural.size or as_dtype(natural.dtype).kind == spec.default.kind else None


def convert_to_tensor(value: TensorLike, dtype: DType | None = None) -> Tensor:
    """Convert a value to a tensor of the graph that is being built.

    Args:
      value: see `TensorLike`.
      dtype: the wanted dtype; Python values take it, arrays and tensors must have it.
    Raises:
      DTypeError: the value has another dtype.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     hr.convert_to_tensor([1, 2]).dtype
      hr.int32
    """
    to_tensor = getattr(value, "__headrace_tensor__", None)
    tensor = to_tensor() if to_tensor is not None else value
    if isinstance(tensor, Tensor):
        _check_dtype(tensor, dtype)
        if has_graph() and not current_graph().is_inside(tensor.graph):
            raise GraphError(
                f"tensor '{tensor.name}' belongs to another graph",
                expected="a tensor of the graph that is being built",
                got=tensor.op.location,
                hint="build both in one graph, or feed the value through a placeholder",
            )
        return current_graph().own(tensor) if has_graph() else tensor
    if isinstance(value, (list, tuple)) and any(_is_symbolic(item) for item in value):
        parts = [convert_to_tensor(item, dtype or _symbolic_dtype(value)) for item in value]
        packed: Tensor = apply_op("Pack", parts)
        return packed
    return constant(value, dtype)


def _is_symbolic(value: TensorLike) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_symbolic(item) for item in value)
    return isinstance(value, Tensor) or hasattr(value, "__headrace_tensor__")


def _symbolic_dtype(values: Sequence[TensorLike]) -> DType | None:
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _symbolic_dtype(value)
            if found is not None:
                return found
        elif _is_symbolic(value):
            return as_dtype(value.dtype)
    return None


def _check_dtype(tensor: Tensor, dtype: DType | None) -> None:
    if dtype is not None and tensor.dtype is not dtype:
        raise DTypeError(
            f"tensor '{tensor.name}' has the wrong dtype",
            where=tensor.op.location,
            expected=str(dtype),
            got=str(tensor.dtype),
            hint=f"hr.astype(x, hr.{dtype})",
        )


def constant(value: TensorLike, dtype: Any = None, shape: Any = None, *, name: str | None = None) -> Tensor:
    """A tensor whose value is fixed when the graph is built.

    Args:
      value: a NumPy array, Python number, bytes, str or nested sequences of these.
      dtype: the element type; by default that of the array, or bool, int32, float32, complex64, string for Python
        values.
      shape: broadcast a single element to this shape, or reshape to it.
      name: the operation's name.
    Returns:
      The tensor, of the value's shape.
    Raises:
      DTypeError: the value cannot have the dtype without loss.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.constant([[1, 2]], hr.float64).spec)
      float64[1, 2]
    """
    wanted = None if dtype is None else as_dtype(dtype)
    array = as_array(value, wanted)
    if shape is not None:
        array = np.broadcast_to(array, shape).copy() if array.size == 1 else array.reshape(shape)
    return (
        current_graph().create_op("Const", (), {"value": array, "dtype": as_dtype(array.dtype)}, name=name).outputs[0]
    )


def as_array(value: TensorLike, dtype: DType | None) -> Array:
    """Convert a concrete value to an array.

    Args:
      value: an array, a Python value or nested sequences.
      dtype: the wanted dtype, or None for the natural one.
    Raises:
      DTypeError: an array has another dtype, or a Python value does not fit the wanted one.
    """
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "SUO":
        given = as_dtype(value.dtype)
        if dtype is not None and given is not dtype:
            raise DTypeError(
                "an array has the wrong dtype", expected=str(dtype), got=f"{given}{list(value.shape)}",
                hint=f"array.astype(np.{dtype})",
            )  # fmt: skip
        return np.asarray(value, given.array_type)
    natural = natural_array(value)
    if natural.dtype.kind in "SUO":
        return _string_array(value, natural, dtype)
    if dtype is None:
        dtype = _natural_dtype(value, natural)
    if not _fits(natural, dtype):
        raise DTypeError(
            "a Python value does not fit the dtype",
            expected=str(dtype),
            got=_short(value),
            hint="str(value)"
            if dtype is string
            else "round or clip it first with np.round or np.clip, or use another dtype",
        )
    return natural.astype(dtype.array_type)


def natural_array(value: TensorLike) -> Array:
    """What NumPy makes of a concrete value; but integers beyond int64 stay integers, which it takes for floats.

    Raises:
      InvalidArgumentError: the value is not numbers, strings or nested sequences of equal length.
    """
    try:
        natural = np.asarray(value)
        if natural.dtype == np.float64 and natural.size and natural.max() >= 2.0**63:
            numbers = np.array(value, object)
            if all(type(number) is int for number in numbers.reshape(-1)) and min(numbers.reshape(-1)) >= 0:
                return numbers.astype(np.uint64)
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            "the value is not a tensor",
            expected="numbers, strings or nested sequences of equal length",
            got=_short(value),
            hint="pad the inner sequences to one length, or np.stack the arrays",
        ) from error
    return natural


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _natural_dtype(value: TensorLike, natural: Array) -> DType:
    """Python ints are int32 where they fit, floats float32; NumPy scalars inside a list keep their own dtype."""
    leaf = value
    while isinstance(leaf, (list, tuple)) and leaf:
        leaf = leaf[0]
    if isinstance(leaf, (np.ndarray, np.generic)):
        return as_dtype(natural.dtype)
    if natural.dtype.kind in "iu" and natural.size:
        number: Scalar = max(int(natural.max()), -int(natural.min()) - 1)
        return dtype_of_number(number)
    return {"b": as_dtype(bool), "i": as_dtype(int), "u": as_dtype(int), "c": as_dtype(complex)}.get(
        natural.dtype.kind, as_dtype(float)
    )


def _fits(natural: Array, dtype: DType) -> bool:
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    target = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
    if dtype.kind not in target:
        return False
    if natural.size and order[natural.dtype.kind] > target[dtype.kind]:
        return False
    if dtype.kind == "bool" or not natural.size:
        return natural.dtype.kind == "b" or not natural.size
    if dtype.is_integer and natural.dtype.kind in "iu":
        bounds = np.iinfo(dtype.array_type)
        return bounds.min <= int(natural.min()) and int(natural.max()) <= bounds.max
    return True


def _no_tensor(value: TensorLike, item: Any) -> InvalidArgumentError:
    if isinstance(item, Operation):
        hint = "an operation has no value; use one of its .outputs, or read the variable that it assigns to"
    elif isinstance(item, int) and abs(item) >= 2**63:
        hint = "no integer dtype holds a number as large as this; float(value) is near it"
    elif item is None:
        hint = "None is no value; look for a function without a return, or for what is missing in the data"
    else:
        hint = "give numbers alone or text alone, and no other objects"
    expected = "numbers, strings or nested sequences of equal length"
    return InvalidArgumentError("the value is not a tensor", expected=expected, got=_short(value), hint=hint)


def _string_array(value: TensorLike, natural: Array, dtype: DType | None) -> Array:
    """An object array of bytes; text is encoded as UTF-8.

    NumPy's fixed-width types would drop trailing zero bytes, so the elements come from the value itself.
    """
    if dtype is not None and dtype is not string:
        others = [item for item in natural.reshape(-1).tolist() if not isinstance(item, (str, bytes))]
        if others:
            raise _no_tensor(value, next((item for item in others if not isinstance(item, (int, float))), others[0]))
        raise DTypeError(
            "text has the wrong dtype",
            expected=str(dtype),
            got=_short(value),
            hint="turn the text into numbers first, e.g. with int() or float()",
        )
    objects = np.array(value, dtype=object) if not isinstance(value, (str, bytes)) else np.array(None, dtype=object)
    if isinstance(value, (str, bytes)):
        objects[()] = value
    result = np.empty(objects.shape, dtype=object)
    for index, item in enumerate(objects.reshape(-1)):
        if not isinstance(item, (str, bytes)):
            raise _no_tensor(value, item)
        result.reshape(-1)[index] = item.encode("utf-8") if isinstance(item, str) else bytes(item)
    return result
