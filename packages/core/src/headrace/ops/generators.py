"""Random numbers from a generator whose state is a variable, as `tf.random.Generator` of TensorFlow 2 keeps it.

The state of Philox is an int64 vector of three: the two halves of the counter, the lower one first, and the key. Each
operation takes its numbers from there and moves the counter on, in one atomic action.
"""

from __future__ import annotations

from headrace.errors import DTypeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.draws import SCALAR, check_input, wanted_shape
from headrace.types import Shape, float32, int32, int64, uint32, uint64

__all__: list[str] = []

_GENERATOR = {"resource": "resource", "algorithm": "int64", "shape": "shape_dtype"}
_SHAPE_TYPE = attr.type(int32, int64, default=int64)
_FLOAT = attr.type(*(attr.floating.allowed or ()), default=float32)


def _check_state(op: InferenceContext, algorithm: str = "algorithm") -> None:
    """Raise unless the variable behind input 0 can hold a state and input 1, the number of the generator, is one."""
    check_input(op, 1, algorithm, SCALAR)
    state = op.variable_spec(0)
    if state is not None and state.dtype is not int64:
        raise DTypeError(
            f"{op.type} '{op.name}' keeps the state of its generator in a variable of another dtype",
            expected="int64 [3]: the counter's lower and upper half, and the key",
            got=str(state),
            hint="make the state with hr.Variable([0, 0, seed], dtype=hr.int64)",
        )


def _drawn(op: InferenceContext) -> list[Shape]:
    _check_state(op)
    return wanted_shape(op, 2)


def _register(name: str, doc: str, dtype: attr.AttrSpec, inputs: dict[str, str] | None = None) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        for index, bound in enumerate(inputs or {}, len(_GENERATOR)):
            check_input(op, index, bound, SCALAR)
        return _drawn(op)

    shape.__doc__ = doc
    register_op(
        name,
        inputs={**_GENERATOR, **(inputs or {})},
        outputs={"output": "dtype"},
        attrs={"dtype": dtype, "shape_dtype": _SHAPE_TYPE},
        stateful=True,
    )(shape)


_register("StatefulUniform", "Uniform numbers in [0, 1) from the generator whose state is a variable.", _FLOAT)
_register("StatefulStandardNormalV2", "Standard normal numbers from the generator whose state is a variable.", _FLOAT)
_register(
    "StatefulTruncatedNormal",
    "Normal numbers within two standard deviations from the generator whose state is a variable.",
    _FLOAT,
)
_register(
    "StatefulUniformInt",
    "Integers in [minval, maxval) from the generator whose state is a variable.",
    attr.type(int32, int64, uint32, uint64, default=int64),
    {"minval": "dtype", "maxval": "dtype"},
)
_register(
    "StatefulUniformFullInt",
    "Integers from the whole range of their dtype from the generator whose state is a variable.",
    attr.type(int32, int64, uint32, uint64, default=uint64),
)


@register_op(
    "RngReadAndSkip",
    inputs={"resource": "resource", "alg": "int32", "delta": "uint64"},
    outputs={"value": "int64"},
    stateful=True,
)
def _read_and_skip_shape(op: InferenceContext) -> list[Shape]:
    """The state of a generator, `[3]`, which moves on past the numbers of `delta` elements."""
    _check_state(op, "alg")
    check_input(op, 2, "delta", SCALAR)
    return [Shape([3])]


@register_op("RngSkip", inputs={"resource": "resource", "algorithm": "int64", "delta": "int64"}, stateful=True)
def _skip_shape(op: InferenceContext) -> list[Shape]:
    """Moves a generator on past the numbers of `delta` elements."""
    _check_state(op)
    check_input(op, 2, "delta", SCALAR)
    return []
