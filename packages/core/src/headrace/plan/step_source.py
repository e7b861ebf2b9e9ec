"""The Python source of the function that runs a step of a program: numbers only, one line per operation.

So the line number in a traceback says which operation failed, at no cost to steps that succeed.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.kernels.context import group_inputs
from headrace.plan.program import Line, Program

__all__ = ["FIRST_LINE", "step_source"]

FIRST_LINE = 4
"""The line of the generated function on which the first operation stands."""


def step_source(program: Program, *, instrumented: bool) -> str:
    """The source of the step function: `v` values, `b` buffers, `c` constants, `f` kernels, one line per operation."""
    buffers = {number: f"b{position}" for position, number in enumerate(program.allocation.offsets)}
    text = [
        f"def step(buffers, arguments{', hook' if instrumented else ''}):",
        f"    {_unpack(list(buffers.values()), 'buffers')}",
        f"    {_unpack([f'v{number}' for number in program.arguments], 'arguments')}",
    ]
    dying = _dying(program, buffers)
    for index, line in enumerate(program.lines):
        call = f"f{index}({', '.join(_arguments(line, program, buffers))})"
        outputs = [f"v{number}" for number in line.outputs]
        listed = bool(outputs) and line.op.op_def.outputs[0].is_list
        target = ", ".join(outputs) + ("," if len(outputs) > 1 or listed else "")
        statement = f"{target} = {call}" if outputs else call
        dead = [f"v{number}" for number in dying.get(index, ())]
        forget = f"; {' = '.join(dead)} = None" if dead else ""
        text.append(f"    {f'hook({index}); ' if instrumented else ''}{statement}{forget}")
    results = [_result(position, number, program) for position, number in enumerate(program.results)]
    text.append(f"    return [{', '.join(results)}]")
    return "\n".join(text) + "\n"


def _result(position: int, number: int, program: Program) -> str:
    value = _value(number, program)
    if position in program.handles:
        return value
    return f"{'copy' if position in program.shared else 'array'}({value})"


def _unpack(names: Sequence[str], source: str) -> str:
    return f"{', '.join(names)}, = {source}" if names else "pass"


def _value(number: int, program: Program) -> str:
    return f"c{number}" if number in program.constants else f"v{number}"


def _arguments(line: Line, program: Program, buffers: dict[int, str]) -> list[str]:
    grouped = group_inputs(line.op, [_value(number, program) for number in line.inputs])
    texts = [f"[{', '.join(item)}]" if isinstance(item, list) else str(item) for item in grouped]
    planned = [buffers[number] for number in line.outputs if number in buffers]
    if planned:
        out = planned[0] if len(planned) == 1 else f"({', '.join(planned)})"
        texts.append(f"out={out}" if line.kernel.direct else out)
    return texts


def _dying(program: Program, buffers: dict[int, str]) -> dict[int, list[int]]:
    """For each line the values outside the arena that nothing after it needs.

    Forgetting them frees memory early, and lets a variable be updated in place once nobody holds the value that was
    read from it.
    """
    dying: dict[int, list[int]] = {}
    for number, index in program.last.items():
        if number not in buffers and number not in program.constants:
            dying.setdefault(index, []).append(number)
    return dying
