"""Keeping: values of variables that a program reads but never writes: what is made of one is good for many steps.

So weights of a model that only computes are brought once into the layout that products like. In a step of training,
which changes them, that is done in the step.
"""

from __future__ import annotations

import os

from headrace.plan import Program
from headrace_cpu.scheduling.values import READING

__all__ = ["kept_values"]


def kept_values(program: Program) -> frozenset[int]:
    """The values that are read from variables that nothing here writes. `HEADRACE_KEEPING=off` finds none."""
    read: dict[int, int] = {}
    written: set[int] = set()  # variables, by id
    for line in program.lines:
        handles = [number for number in line.inputs if program.tensors[number].dtype.kind == "resource"]
        known = [id(program.constants.get(number)) for number in handles]
        if line.op.type == "ReadVariableOp" and handles[0] in program.constants:
            storage = program.constants[handles[0]]
            if storage.shape.is_fully_defined and storage.shape == line.op.outputs[0].shape:
                read[line.outputs[0]] = known[0]
        elif line.op.type not in READING:
            written.update(known)
    if id(None) in written or os.environ.get("HEADRACE_KEEPING") == "off":  # of all variables, if one is not known
        return frozenset()
    return frozenset(number for number, variable in read.items() if variable not in written)
