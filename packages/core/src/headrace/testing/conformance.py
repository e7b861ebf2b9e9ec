"""The conformance kit: what every backend must do with every operation case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.grad.registry import gradient_of_type
from headrace.graph.apply import apply_op, as_array, constant
from headrace.graph.graph import Graph
from headrace.graph.op_def import lookup_op_def
from headrace.graph.operation import Operation, Tensor
from headrace.session import Session
from headrace.testing.numerical_gradient import check_gradient
from headrace.testing.op_case import OpCase, all_cases
from headrace.testing.tolerance import assert_close
from headrace.types import Array, Shape, TensorSpec, as_dtype, int32

__all__ = [
    "applied_case",
    "check_backend",
    "check_case",
    "check_case_gradient",
    "differentiated_inputs",
    "flat_arrays",
]


COMPUTED_BY_NUMPY = ("with constant inputs", "with shapes that show only in the step")
"""The ways of `check_case` in which another backend may leave the work to the NumPy kernels."""


def check_backend(name: str, cases: Iterable[OpCase] | None = None) -> int:
    """Run every case on a backend and raise AssertionError at the first that fails.

    Args:
      name: the backend's name.
      cases: the cases to run; all of core's by default.
    Returns:
      The number of cases.
    """
    count = 0
    for case in all_cases() if cases is None else cases:
        check_case(case, backend=name)
        count += 1
    return count


def check_case(case: OpCase, *, backend: str = "numpy") -> None:
    """Run one case in every way an operation can be run, and raise AssertionError if one of them is not right.

    The ways: inputs fed, with exact and with open static shapes; inputs constant, so that passes may fold it; inputs
    that are strided views; the output in the arena, full of garbage before. Static shapes must agree with what comes
    out. All ways must give the same bits, except that what the NumPy kernels compute for another backend (folded
    constants, shapes that show late) need only be close.
    """
    config = Config(backend=backend, verify=True)
    arrays = flat_arrays(case)
    if case.raises is not None:
        _check_raises(case, arrays, config)
        return
    fed = _run_fed(case, arrays, config, open_shapes=False)
    expected = _expected(case)
    if len(fed) != len(expected):
        raise AssertionError(f"{case.id}: {len(fed)} outputs, expected {len(expected)}")
    for index, (actual, wanted) in enumerate(zip(fed, expected, strict=True)):
        assert_close(actual, wanted, what=f"{case.id} output {index}", exact=case.exact)
    if lookup_op_def(case.op).stateful and case.build is None:  # what it gives depends on what went before
        return
    ways = {
        "with open static shapes": _run_fed(case, arrays, config, open_shapes=True),
        "with strided inputs": _run_fed(case, [_strided(array) for array in arrays], config, open_shapes=False),
        "with constant inputs": _run_constant(case, arrays, config),
        "without passes": _run_fed(case, arrays, Config(backend=backend, passes=()), open_shapes=False),
        "with shapes that show only in the step": _run_late(case, arrays, config),
    }
    for way, values in ways.items():
        for index, (actual, wanted) in enumerate(zip(values, fed, strict=True)):
            same_code = backend == "numpy" or way not in COMPUTED_BY_NUMPY
            exact = actual.dtype != object and same_code
            assert_close(actual, wanted, what=f"{case.id} output {index} {way}", exact=exact)


def differentiated_inputs(case: OpCase) -> tuple[int, ...]:
    """Positions of the flat inputs by which `check_case_gradient` differentiates a case.

    Returns:
      None of them where the type has no derivative, the case raises, the case says so, or no input is floating.
    """
    rule = gradient_of_type(case.op)
    depends_on_past = lookup_op_def(case.op).stateful and case.build is None
    if case.raises is not None or rule is None or rule.function is None or depends_on_past:
        return ()
    arrays = flat_arrays(case)
    floating = [index for index, array in enumerate(arrays) if as_dtype(array.dtype).is_floating]
    chosen = floating if case.differentiate is None else case.differentiate
    return tuple(chosen) if all(arrays[index].size for index in chosen) else ()


def check_case_gradient(case: OpCase) -> None:
    """Check the gradient rule of a case's operation numerically, first and second order.

    Raises:
      AssertionError: the rule disagrees with central differences.
    """
    arrays = flat_arrays(case)
    floating = [index for index, array in enumerate(arrays) if as_dtype(array.dtype).is_floating]
    chosen = differentiated_inputs(case)

    def build(inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        given = iter(inputs)
        tensors = [
            next(given) if index in chosen else constant(np.asarray(array, np.float64) if index in floating else array)
            for index, array in enumerate(arrays)
        ]
        return applied_case(case, tensors, wide=True)

    check_gradient(build, [arrays[index] for index in chosen])


def _float64_attrs(case: OpCase) -> dict[str, Any]:
    """The gradient is checked in float64: type attrs of narrower floats that were given explicitly are widened."""
    attrs = dict(case.attrs)
    for name, spec in lookup_op_def(case.op).attrs.items():
        if spec.kind == "type" and name in attrs and as_dtype(attrs[name]).is_floating:
            attrs[name] = "float64"
    return attrs


def flat_arrays(case: OpCase) -> list[Array]:
    """The inputs of a case as arrays; Python numbers take the dtype that `apply_op` would give them."""
    if case.build is not None:
        return [as_array(value, None) for value in case.inputs]
    flat: list[Array] = []
    for argument, value in zip(lookup_op_def(case.op).inputs, case.inputs, strict=True):
        flat.extend(
            as_array(item, argument.dtype if _is_python(item) else None)
            for item in (value if argument.is_list else [value])
        )
    return flat


def _is_python(value: Any) -> bool:
    return not isinstance(value, (np.ndarray, np.generic))


def applied_case(case: OpCase, tensors: Sequence[Tensor], *, wide: bool = False) -> list[Tensor]:
    """The outputs of a case's operation, built in the current graph on tensors that stand for `flat_arrays`.

    `wide`: in float64, as gradients are checked.
    """
    return _outputs(_applied(case, tensors, _float64_attrs(case) if wide else case.attrs))


def _applied(case: OpCase, tensors: Sequence[Tensor], attrs: Mapping[str, Any]) -> Any:
    """What the case's operation gives."""
    if case.build is not None:
        return case.build(apply_op, *tensors)
    return apply_op(case.op, *_grouped(case, tensors), **attrs)


def _grouped(case: OpCase, tensors: Sequence[Tensor]) -> list[Any]:
    remaining = list(tensors)
    grouped: list[Any] = []
    for argument, value in zip(lookup_op_def(case.op).inputs, case.inputs, strict=True):
        count = len(value) if argument.is_list else 1
        taken, remaining = remaining[:count], remaining[count:]
        grouped.append(taken if argument.is_list else taken[0])
    return grouped


def _outputs(result: Any) -> list[Tensor]:
    if isinstance(result, Operation):
        return []
    if isinstance(result, Tensor):
        return [result]
    return [tensor for item in result for tensor in _outputs(item)]


def _expected(case: OpCase) -> list[Any]:
    expected = case.expected(*case.inputs) if callable(case.expected) else case.expected
    return list(expected) if isinstance(expected, (tuple, list)) and not _is_single(case) else [expected]


def _is_single(case: OpCase) -> bool:
    outputs = lookup_op_def(case.op).outputs
    return case.build is None and len(outputs) == 1 and not outputs[0].is_list


def _run_fed(case: OpCase, arrays: Sequence[Array], config: Config, *, open_shapes: bool) -> list[Array]:
    graph = Graph()
    with graph.as_default():
        inputs = [
            graph.create_op(
                "Placeholder",
                (),
                {
                    "dtype": as_dtype(array.dtype),
                    "shape": Shape([None] * array.ndim) if open_shapes else Shape(array.shape),
                },
                name=f"input_{index}",
            ).outputs[0]
            for index, array in enumerate(arrays)
        ]
        outputs = applied_case(case, inputs)
        copies = [apply_op("Identity", output) for output in outputs]  # the operation itself then writes to the arena
    session = Session(graph, config=config)
    feeds = dict(zip(inputs, arrays, strict=True))
    if not outputs:
        return []
    direct = session.run(outputs, feeds=feeds)
    planned = session.make_callable(copies, inputs)
    planned(*arrays)
    for index, (value, copied, output) in enumerate(zip(direct, planned(*arrays), outputs, strict=True)):
        _check_spec(case, output, value)
        assert_close(copied, value, what=f"{case.id} output {index} in the arena", exact=value.dtype != object)
    return list(direct)


def _run_late(case: OpCase, arrays: Sequence[Array], config: Config) -> list[Array]:
    """Run the case with inputs whose rank nothing tells before the step: it depends on data."""
    graph = Graph()
    feeds: dict[Tensor, Array] = {}
    with graph.as_default():
        inputs: list[Tensor] = []
        for array in arrays:
            attrs = {"dtype": as_dtype(array.dtype), "shape": Shape()}
            hidden = graph.create_op("Placeholder", (), attrs).outputs[0]
            sizes = graph.create_op("Placeholder", (), {"dtype": int32, "shape": Shape([None])}).outputs[0]
            kept = apply_op("Reshape", apply_op("Where", apply_op("GreaterEqual", sizes, 0)), [-1])
            inputs.append(apply_op("Reshape", hidden, apply_op("GatherV2", sizes, kept, 0)))
            feeds |= {hidden: array, sizes: np.array(array.shape, np.int32)}
        outputs = applied_case(case, inputs)
    return list(Session(graph, config=config).run(outputs, feeds=feeds))


def _run_constant(case: OpCase, arrays: Sequence[Array], config: Config) -> list[Array]:
    graph = Graph()
    with graph.as_default():
        outputs = _outputs(_applied(case, [constant(array) for array in arrays], case.attrs))
    values = Session(graph, config=config).run(outputs)
    for output, value in zip(outputs, values, strict=True):
        _check_spec(case, output, value)
    return list(values)


def _check_spec(case: OpCase, output: Tensor, value: Array) -> None:
    given = TensorSpec(as_dtype(value.dtype), Shape(value.shape))
    if given.dtype is not output.dtype or not output.shape.is_compatible_with(given.shape):
        raise AssertionError(f"{case.id}: the graph says {output.spec}, the kernel gave {given}")


def _strided(array: Array) -> Array:
    """The same values in memory that is neither contiguous nor in order."""
    if array.ndim == 0:
        return array
    wide = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array[..., ::-1]
    return wide[..., ::2][..., ::-1]


def _check_raises(case: OpCase, arrays: Sequence[Array], config: Config) -> None:
    """The error must come whether the inputs are fed, constant, or of a shape that shows only in the step."""
    for way, run in (("fed", _run_fed_once), ("constant", _run_constant), ("late", _run_late)):
        try:
            run(case, arrays, config)
        except HeadraceError as error:
            if not re.search(str(case.raises), str(error)):
                raise AssertionError(
                    f"{case.id} ({way}): the error does not match {case.raises!r}:\n{error}"
                ) from error
        else:
            raise AssertionError(f"{case.id} ({way}): no error, expected one that matches {case.raises!r}")


def _run_fed_once(case: OpCase, arrays: Sequence[Array], config: Config) -> list[Array]:
    return _run_fed(case, arrays, config, open_shapes=True)
