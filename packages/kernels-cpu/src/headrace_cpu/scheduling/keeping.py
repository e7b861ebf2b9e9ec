"""Keeping: values of variables that a program reads but never writes: what is made of one is good for many steps.

So filters of a model that only computes are brought once into the layout that convolutions like. In a step of training,
which changes them, that is done in the step.
"""

from __future__ import annotations

import os

from headrace.plan import Line, Program
from headrace_cpu.scheduling.values import READING

__all__ = ["UNKNOWN", "given_variables", "kept_values"]

UNKNOWN = id(None)
"""What stands for a variable of which it is not known which one it is."""


def given_variables(program: Program, line: Line) -> list[int]:
    """For each handle that a line is given the id of the variable behind it, or UNKNOWN."""
    handles = [number for number in line.inputs if program.tensors[number].dtype.kind == "resource"]
    return [id(program.constants.get(number)) for number in handles]


def kept_values(program: Program) -> frozenset[int]:
    """The values that are read from variables that nothing here writes. `HEADRACE_KEEPING=off` finds none."""
    read: dict[int, int] = {}
    written: set[int] = set()
    for line in program.lines:
        variables = given_variables(program, line)
        if line.op.type == "ReadVariableOp" and UNKNOWN not in variables:
            storage = program.constants[line.inputs[0]]
            if storage.shape.is_fully_defined and storage.shape == line.op.outputs[0].shape:
                read[line.outputs[0]] = variables[0]
        elif line.op.type not in READING:
            written.update(variables)
    if UNKNOWN in written or os.environ.get("HEADRACE_KEEPING") == "off":
        return frozenset()
    return frozenset(number for number, variable in read.items() if variable not in written)
