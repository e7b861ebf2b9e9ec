"""From the graph of one step to its memory and its code. What is listed here is what other backends build on."""

from headrace.kernels.context import current_step, group_inputs
from headrace.kernels.list_value import TensorList
from headrace.plan.alignment import ALIGNMENT, aligned_array
from headrace.plan.failure import exhausted, explained
from headrace.plan.memory import Allocation, Step, last_uses, memory_use, plan_memory
from headrace.plan.needs import (
    LargeValue,
    PlannedMemory,
    Work,
    memory_of,
    outside_bytes,
    planned,
    size_bounds,
    unknown_needs,
    work_of,
    workspace_of,
)
from headrace.plan.numpy_backend import checked_kernel
from headrace.plan.program import Line, Program, flat_aliases
from headrace.plan.threads import available_threads

__all__ = [
    "ALIGNMENT",
    "Allocation",
    "LargeValue",
    "Line",
    "PlannedMemory",
    "Program",
    "Step",
    "TensorList",
    "Work",
    "aligned_array",
    "available_threads",
    "checked_kernel",
    "current_step",
    "exhausted",
    "explained",
    "flat_aliases",
    "group_inputs",
    "last_uses",
    "memory_of",
    "memory_use",
    "outside_bytes",
    "plan_memory",
    "planned",
    "size_bounds",
    "unknown_needs",
    "work_of",
    "workspace_of",
]
