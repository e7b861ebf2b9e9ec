"""The text of a region, for people; it is deterministic."""

from __future__ import annotations

from headrace.loops.ir import Access, Expr, Loop, Region

__all__ = ["region_text"]


def region_text(region: Region, name: str = "region") -> str:
    """A region as text, one statement a line, under a name."""
    lines = [f"{name} outer {list(region.outer)}"]
    lines += [f"  buffer b{i}: {b.role} {b.dtype}[{b.size}]" for i, b in enumerate(region.buffers)]
    for loop in region.loops:
        lines += _loop_lines(loop)
    return "\n".join(lines) + "\n"


def _loop_lines(loop: Loop) -> list[str]:
    axes = ", ".join(
        f"i{axis.number} < {axis.extent}" + (f" of {axis.total} by i{axis.outer}" if axis.outer is not None else "")
        for axis in loop.axes
    )
    names: dict[int, str] = {}
    lines = [f"  loop {axes}".rstrip()]
    for item in loop.accumulates:
        kept = " for each of the last axis" if item.keep_last else ""
        value = _named(item.value, names, lines)
        lines.append(f"    local{item.local} = {item.op} {value}{kept}")
    for store in loop.stores:
        value = _named(store.value, names, lines)
        lines.append(f"    b{store.buffer}[{_place(store.access)}] = {value}")
    if loop.after:
        lines.append("  after")
    for store in loop.after:
        value = _named(store.value, names, lines)
        lines.append(f"    b{store.buffer}[{_place(store.access)}] = {value}")
    return lines


def _place(access: Access) -> str:
    parts = [f"{factor} i{axis}" if factor != 1 else f"i{axis}" for axis, factor in access.terms]
    return " + ".join([*parts, *([str(access.constant)] if access.constant or not parts else [])])


def _named(root: Expr, names: dict[int, str], lines: list[str]) -> str:
    """The name of an expression, after lines that compute it; what is used twice is computed once."""
    stack = [root]
    while stack:
        expr = stack[-1]
        missing = [arg for arg in expr.args if id(arg) not in names]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if id(expr) in names:
            continue
        if expr.op == "const":
            names[id(expr)] = f"{expr.dtype}({expr.payload!r})"
        elif expr.op == "index":
            names[id(expr)] = f"i{expr.payload}"
        elif expr.op == "position":
            names[id(expr)] = f"({_place(expr.payload)})"
        elif expr.op == "local":
            names[id(expr)] = f"local{expr.payload}"
        else:
            names[id(expr)] = f"%{len(names)}"
            lines.append(f"    {names[id(expr)]} = {expr.dtype} {_operation(expr, names)}")
    return names[id(root)]


def _operation(expr: Expr, names: dict[int, str]) -> str:
    if expr.op == "load":
        buffer, access = expr.payload
        return f"load b{buffer}[{_place(access)}]"
    return f"{expr.op} {', '.join(names[id(arg)] for arg in expr.args)}"
