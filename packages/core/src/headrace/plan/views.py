"""Views: the strides that values have where NumPy kernels compute them, before any of them runs. Pure.

What a view costs depends on who reads it: a reshape of one may have to copy, and so does a product. Whether it does
follows from strides alone, so arrays that stand for values, with strides but without memory, are put through what the
kernels do, and NumPy is asked whether it could do without a copy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.plan.program import Line, Program
from headrace.types import Array

__all__ = ["packed_inputs"]


def packed_inputs(program: Program) -> list[tuple[int, ...]]:
    """For each line the positions of inputs that its kernel copies, because they are views with gaps.

    Views whose sizes or strides only show in the step are taken to have none.
    """
    shown: dict[int, Array] = {}  # values that may have gaps
    found: list[tuple[int, ...]] = []
    for line in program.lines:
        packed = [place for place in line.kernel.packs if line.inputs[place] in shown]
        if line.op.type in _RESHAPES and line.inputs[0] in shown:
            view = _reshaped(shown[line.inputs[0]], program.tensors[line.outputs[0]].shape.as_tuple())
            if view is not None:
                packed = []
                _show(shown, line.outputs[0], view)
        else:
            packed = [place for place in packed if not shown[line.inputs[place]].flags.c_contiguous]
            _follow(program, line, shown)
        found.append(tuple(packed))
    return found


def _follow(program: Program, line: Line, shown: dict[int, Array]) -> None:
    """Note the strides of what a line gives if it is a view."""
    view = _VIEWS.get(line.op.type)
    if view is None or not all(program.tensors[n].shape.is_fully_defined for n in (*line.inputs, *line.outputs)):
        return
    source = line.inputs[line.kernel.aliases[0]]
    base = shown.get(source)
    if base is None:
        base = _standing_for(program.tensors[source].shape.as_tuple())
    for number in line.outputs:
        made = view(program, line, base, program.tensors[number].shape.as_tuple())
        if made is not None:
            _show(shown, number, made)


def _show(shown: dict[int, Array], number: int, view: Array) -> None:
    if not view.flags.c_contiguous:
        shown[number] = view


def _standing_for(shape: tuple[int, ...]) -> Array:
    """An array of that shape in one piece, of which no element may be touched."""
    strides = [8] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return np.lib.stride_tricks.as_strided(np.empty(1), shape, strides)


def _reshaped(base: Array, shape: tuple[int, ...]) -> Array | None:
    """The view of another shape, or None where there is none."""
    try:
        return base.reshape(shape, copy=False)
    except ValueError:  # NumPy's answer where it had to copy
        return None


def _transposed(program: Program, line: Line, base: Array, shape: tuple[int, ...]) -> Array | None:
    order = program.constants.get(line.inputs[1])
    return None if order is None else base.transpose([int(axis) for axis in order])


def _part(program: Program, line: Line, base: Array, shape: tuple[int, ...]) -> Array | None:
    """Neighbours along some axes."""
    same_rank = len(shape) == base.ndim
    return np.lib.stride_tricks.as_strided(base, shape, base.strides) if same_rank else None


def _strided(program: Program, line: Line, base: Array, shape: tuple[int, ...]) -> Array | None:
    steps = program.constants.get(line.inputs[3])
    return _part(program, line, base, shape) if steps is not None and np.all(steps == 1) else None


def _same(program: Program, line: Line, base: Array, shape: tuple[int, ...]) -> Array | None:
    return base


def _repeated(program: Program, line: Line, base: Array, shape: tuple[int, ...]) -> Array | None:
    return np.broadcast_to(base, shape)


_RESHAPES = frozenset({"ExpandDims", "Reshape", "Squeeze"})
_VIEWS: dict[str, Callable[[Program, Line, Array, tuple[int, ...]], Array | None]] = {
    "BroadcastTo": _repeated,
    "Identity": _same,
    "PreventGradient": _same,
    "Slice": _part,
    "Split": _part,
    "SplitV": _part,
    "StopGradient": _same,
    "StridedSlice": _strided,
    "Transpose": _transposed,
}
