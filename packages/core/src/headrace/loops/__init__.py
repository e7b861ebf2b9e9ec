"""Loops: how operations become scalar loops. `hr.loops` is what loop rules are written with.

`value` and `functions` are for rules, `registry` finds them, `fusion` groups operations, `lowering` turns a group into
a `nest` of loops and that into regions of the IR in `ir`, once for all groups of a pattern (`patterns`); backends print
them. `interpreter` is the meaning of the IR.
"""

from headrace.loops.functions import (
    abs,
    all,
    any,
    assemble,
    broadcast_to,
    cast,
    ceil,
    cos,
    equal,
    erf,
    exp,
    expand_dims,
    expm1,
    floor,
    index,
    isfinite,
    isnan,
    log,
    log1p,
    max,
    maximum,
    mean,
    min,
    minimum,
    not_equal,
    prod,
    rint,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    squeeze,
    strided,
    sum,
    tanh,
    transpose,
    where,
)
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.rules import elementwise as _elementwise  # noqa: F401  # registers the rules
from headrace.loops.rules import pieces as _pieces  # noqa: F401
from headrace.loops.rules import random as _random  # noqa: F401
from headrace.loops.rules import rows as _rows  # noqa: F401
from headrace.loops.rules import uniform_quantized as _uniform_quantized  # noqa: F401
from headrace.loops.rules import updates as _updates  # noqa: F401
from headrace.loops.rules import windows as _windows  # noqa: F401
from headrace.loops.value import Value

__all__ = [
    "LoopContext",
    "Value",
    "abs",
    "all",
    "any",
    "assemble",
    "broadcast_to",
    "cast",
    "ceil",
    "cos",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "expm1",
    "floor",
    "index",
    "isfinite",
    "isnan",
    "log",
    "log1p",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "not_equal",
    "prod",
    "register_loops",
    "rint",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "squeeze",
    "strided",
    "sum",
    "tanh",
    "transpose",
    "where",
]
