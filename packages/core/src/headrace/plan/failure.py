"""What an error of a kernel says to the user: which operation it came from, and what that means. Pure.

Backends call this on their error path alone, so it costs a step nothing.
"""

from __future__ import annotations

from headrace.errors import HeadraceError, InvalidArgumentError, ResourceExhaustedError
from headrace.graph.operation import Operation

__all__ = ["exhausted", "explained"]


def explained(error: Exception, op: Operation) -> Exception:
    """The error to raise in the place of what a kernel raised for `op`.

    Errors of Headrace get their place. A lack of memory and a handle of another kind become errors of Headrace, with
    the kernel's as their cause. All others, such as those of users' functions, stay what they are, with a note.
    """
    if isinstance(error, HeadraceError):
        return error.at(op.location)
    if isinstance(error, MemoryError):
        return exhausted(op.location, error)
    if isinstance(error, AttributeError) and _asks_a_handle(error, op):
        wrong = InvalidArgumentError(
            f"{op.type} does not work with the kind of resource that it was given",
            where=op.location,
            expected="the handle of one that has what the operation asks for",
            got=f"a {type(error.obj).__name__}, without '{error.name}'",
            hint="use each kind of handle with its own operations",
        )
        wrong.__cause__ = error
        return wrong
    error.add_note(f"while computing {op.location}")
    return error


def exhausted(where: str, error: MemoryError) -> ResourceExhaustedError:
    """The error that says that there is not enough memory, with NumPy's as its cause."""
    result = ResourceExhaustedError(
        "there is not enough memory",
        where=where,
        expected="shapes that fit into memory",
        got=str(error),
        hint="use smaller batches or shapes",
    )
    result.__cause__ = error
    return result


def _asks_a_handle(error: AttributeError, op: Operation) -> bool:
    """True if a kernel, not a method of the object itself, asked a resource for what only other kinds have."""
    if not any(tensor.dtype.kind in ("resource", "variant") for tensor in op.inputs) or error.obj is None:
        return False
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (
        traceback is not None
        and type(error.obj).__module__.startswith("headrace")
        and traceback.tb_frame.f_locals.get("self") is not error.obj
    )
