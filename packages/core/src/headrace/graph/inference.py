"""What is checked and inferred before an operation is made: attributes, dtypes of inputs, specs of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import AttrError, DTypeError, HeadraceError, InternalError
from headrace.graph.attr import REQUIRED, AttrValue, RawAttr, spec_of
from headrace.graph.frames import MAY_NOT_RUN
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.handle_spec import variable_spec
from headrace.graph.list_spec import list_spec
from headrace.graph.op_def import UNKNOWN_OUTPUT, OpDef
from headrace.graph.operation import Operation, Tensor, bodies_of, origin
from headrace.graph.shape_value import constant_value, constant_value_as_shape
from headrace.types import Array, Shape, TensorSpec

if TYPE_CHECKING:
    from headrace.graph.functions import Body

__all__ = ["attrs_and_specs", "infer_specs", "sees_the_same"]

_ONE_SHAPE_EACH = "let the shape function return a list with one hr.Shape for each output"


def attrs_and_specs(
    op_def: OpDef,
    name: str,
    given: Mapping[str, AttrValue],
    inputs: Sequence[Tensor],
    functions: FunctionLibrary,
    *,
    may_not_run: bool,
) -> tuple[Mapping[str, AttrValue], Sequence[TensorSpec | Tensor]]:
    """All attributes of a new operation, and what is known of its outputs (see `Graph.create_op`)."""
    attrs = complete_attrs(op_def, given)
    check_inputs(op_def, attrs, inputs)
    try:
        return attrs, infer_specs(op_def, name, attrs, inputs, functions)
    except HeadraceError:
        if not may_not_run and MAY_NOT_RUN not in attrs:
            raise
        attrs = {**attrs, MAY_NOT_RUN: True}
        return attrs, open_specs(op_def, attrs)


def complete_attrs(op_def: OpDef, given: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Check the given attributes and fill in the defaults. Names with a leading underscore pass as annotations."""
    values: dict[str, AttrValue] = {}
    for name, spec in op_def.attrs.items():
        if name in given:
            values[name] = spec.normalize(given[name], name)
        elif spec.default is not REQUIRED:
            values[name] = spec.default
        else:
            raise AttrError(
                f"attr '{name}' is missing",
                expected=op_def.signature,
                got=_names(given),
                hint=f"hr.apply_op({op_def.name!r}, ..., {name}=value)",
            )
    for name in given:
        if name not in values:
            values[name] = given[name]
            if isinstance(given[name], RawAttr):
                continue
            if not name.startswith("_"):
                raise AttrError(
                    f"attr '{name}' is not known",
                    expected=op_def.signature,
                    got=_names(given),
                    hint=f"leave it out, or call it '_{name}' if it is only an annotation",
                )
            spec_of(given[name], name)
    return values


def _names(attrs: Mapping[str, AttrValue]) -> str:
    return "attrs " + (", ".join(sorted(attrs)) or "(none)")


def check_inputs(op_def: OpDef, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor]) -> None:
    """Raise DTypeError unless the inputs are those of the signature, in number and dtype."""
    expected = [(argument, dtype) for argument in op_def.inputs for dtype in argument.dtypes(attrs)]
    if len(expected) != len(inputs):
        raise DTypeError(
            "the number of inputs is wrong",
            expected=f"{len(expected)}: {op_def.signature}",
            got=str(len(inputs)),
            hint="an input that stands for a list counts once for each of its tensors",
        )
    for (argument, dtype), tensor in zip(expected, inputs, strict=True):
        if tensor.dtype is not dtype and tensor.dtype is not UNKNOWN_OUTPUT.dtype:
            raise DTypeError(
                f"input '{argument.name}' has the wrong dtype",
                expected=f"{dtype} ({op_def.signature})",
                got=f"'{tensor.name}' {tensor.spec}",
                hint=f"hr.astype(x, hr.{dtype})",
            )


@dataclass(frozen=True, slots=True)
class _Inference:
    """What a shape function sees (see `op_def.InferenceContext`)."""

    name: str
    type: str
    attrs: Mapping[str, AttrValue]
    tensors: Sequence[Tensor]
    op_def: OpDef
    functions: FunctionLibrary

    @property
    def bodies(self) -> Sequence[Body]:
        return bodies_of(self.op_def, self.attrs, self.functions)

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        return [tensor.spec for tensor in self.tensors]

    def attr(self, name: str) -> AttrValue:
        return self.attrs[name]

    def constant(self, index: int) -> Array | None:
        return constant_value(self.tensors[index])

    def constant_shape(self, index: int) -> Shape:
        return constant_value_as_shape(self.tensors[index])

    def variable_spec(self, index: int) -> TensorSpec | None:
        return variable_spec(self.tensors[index])

    def handle_origin(self, index: int) -> Operation | None:
        return origin(self.tensors[index])

    def list_spec(self, index: int) -> TensorSpec | None:
        return list_spec(self.tensors[index])


def sees_the_same(original: Operation, inputs: Sequence[Tensor]) -> bool:
    """True if a shape function would be asked the same question as for `original`: a new constant may tell it more."""
    if len(inputs) != len(original.inputs):
        return False
    for new, old in zip(inputs, original.inputs, strict=True):
        same = new.shape is old.shape or new.shape == old.shape
        if not same or new.dtype is not old.dtype or new.op.type != old.op.type:
            return False
    return True


def infer_specs(
    op_def: OpDef, name: str, attrs: Mapping[str, AttrValue], inputs: Sequence[Tensor], functions: FunctionLibrary
) -> list[TensorSpec]:
    """Run the shape function; an error that does not show what it got gets the inputs' specs."""
    dtypes = [dtype for argument in op_def.outputs for dtype in argument.dtypes(attrs)]
    context = _Inference(name.rstrip("/"), op_def.name, attrs, inputs, op_def, functions)
    shapes: Any
    try:
        shapes = op_def.shape_function(context)
    except HeadraceError as error:
        if error.got is None:
            error.got = ", ".join(f"'{tensor.name}' {tensor.spec}" for tensor in inputs) or "no inputs"
        raise
    if not isinstance(shapes, (list, tuple)) or not all(isinstance(shape, Shape) for shape in shapes):
        raise InternalError(
            f"the shape function of {op_def.name} gave no shapes",
            expected="a list of hr.Shape",
            got=repr(shapes),
            hint=_ONE_SHAPE_EACH,
        )
    if len(shapes) != len(dtypes):
        raise InternalError(
            f"the shape function of {op_def.name} gave {len(shapes)} shapes for {len(dtypes)} outputs",
            expected=f"{len(dtypes)} shapes: {op_def.signature}",
            got=f"{len(shapes)} shapes",
            hint=_ONE_SHAPE_EACH,
        )
    return [TensorSpec(dtype, shape) for dtype, shape in zip(dtypes, shapes, strict=True)]


def open_specs(op_def: OpDef, attrs: Mapping[str, AttrValue]) -> list[TensorSpec]:
    """What is known of the outputs whatever the inputs are: their dtypes."""
    return [TensorSpec(dtype, Shape()) for argument in op_def.outputs for dtype in argument.dtypes(attrs)]
