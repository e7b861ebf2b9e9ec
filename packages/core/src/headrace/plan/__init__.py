"""From the graph of one step to its memory and its code. What is listed here is what other backends build on."""

from headrace.kernels.context import current_step, group_inputs
from headrace.plan.failure import exhausted, explained
from headrace.plan.memory import ALIGNMENT, Allocation, Step, last_uses, plan_memory
from headrace.plan.numpy_backend import checked_kernel
from headrace.plan.program import Line, Program, flat_aliases
from headrace.plan.threads import available_threads

__all__ = [
    "ALIGNMENT",
    "Allocation",
    "Line",
    "Program",
    "Step",
    "available_threads",
    "checked_kernel",
    "current_step",
    "exhausted",
    "explained",
    "flat_aliases",
    "group_inputs",
    "last_uses",
    "plan_memory",
]
