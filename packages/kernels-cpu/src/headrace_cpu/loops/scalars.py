"""Scalars: the operators of the loop IR as LLVM instructions, on as many lanes as the text has now."""

from __future__ import annotations

import math

import numpy as np

from headrace.types import DType, bfloat16, float16, float32
from headrace.types import bool as boolean
from headrace_cpu.llvm.text import Text, as_float, compute_type, from_float
from headrace_cpu.loops.powers import write_power
from headrace_cpu.loops.vector_math import FUNCTIONS, write_function

__all__ = ["cast", "computed", "constant", "extreme", "prints"]

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_DIVISIONS = {"quot": "div", "rem": "rem"}
_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "rint": "rint", "sqrt": "sqrt", "abs": "fabs"}
_FLOAT_UNARY = frozenset({*_ROUNDINGS, "neg", "sign", "isfinite"})


def prints(op: str, dtype: DType) -> bool:
    """True if this printer has an operator for operands of a dtype."""
    if dtype.kind not in ("float", "int", "uint", "bool"):
        return False
    if op in ("const", "index", "load", "local", "philox", "position", "select", "cast", "eq", "ne"):
        return True
    if dtype is boolean:
        return op in ("and", "or", "xor", "not")
    if dtype.is_floating:
        wide = "double" if dtype.name == "float64" else "float"
        return (
            op in _FLOAT_BINARY
            or op in _COMPARISONS
            or op in _FLOAT_UNARY
            or op in ("max", "min", "pow")
            or ((op, wide) in FUNCTIONS)
        )
    return (
        op in _INTEGER_BINARY
        or op in _DIVISIONS
        or op in _COMPARISONS
        or op in ("max", "min", "neg", "abs", "sign", "not")
    )


def computed(t: Text, op: str, args: list[str], source: DType, target: DType) -> str:
    """An operator applied to operands of dtype `source`, with a result of dtype `target`."""
    if not source.is_floating:
        return _integer(t, op, args, source)
    if op in ("max", "min"):
        return extreme(t, op, args[0], args[1], source)
    floats = [as_float(t, arg, source) for arg in args]
    values, element = [value for value, _ in floats], floats[0][1]
    result = _floating(t, op, values, element)
    return result if target is boolean else from_float(t, result, target)


def constant(t: Text, payload: object, dtype: DType) -> str:
    """A number in every lane."""
    number = payload if isinstance(payload, (int, float)) else float(str(payload))
    if dtype is bfloat16:
        (bits,) = np.asarray([number], bfloat16.array_type).view(np.uint16)
        return t.number(int(bits), "i16")
    return t.number(number, compute_type(dtype))


def _floating(t: Text, op: str, args: list[str], element: str) -> str:
    whole = t.type(element)
    if op in _FLOAT_BINARY:
        return t.two(_FLOAT_BINARY[op], args[0], args[1], element)
    if op in _COMPARISONS:
        return t.put(f"fcmp {_COMPARISONS[op]} {whole} {args[0]}, {args[1]}")
    if op in _ROUNDINGS:
        return t.call(_ROUNDINGS[op], element, args[0])
    if op == "neg":
        return t.put(f"fneg {whole} {args[0]}")
    if op == "isfinite":
        return t.put(f"fcmp olt {whole} {t.call('fabs', element, args[0])}, {t.number(math.inf, element)}")
    if op == "sign":
        signed = t.call("copysign", element, t.number(1.0, element), args[0])
        nonzero = t.put(f"fcmp one {whole} {args[0]}, {t.number(0.0, element)}")
        return t.select(nonzero, signed, args[0], element)
    if op == "pow":
        symbol, body, needed = write_power(element, t.lanes, t.width)
    else:
        symbol, body, needed = write_function(op, element, t.lanes, t.width)
    t.functions |= {**needed, symbol: body}
    return t.put(f"call {whole} @{symbol}({', '.join(f'{whole} {arg}' for arg in args)})")


def extreme(t: Text, op: str, a: str, b: str, dtype: DType) -> str:
    """The larger or smaller of two; NaN if one of them is."""
    element = compute_type(dtype)
    relation = "gt" if op == "max" else "lt"
    if not dtype.is_floating:
        sign = "u" if dtype.kind == "uint" else "s"
        return t.select(t.two(f"icmp {sign}{relation}", a, b, element), a, b, element)
    (x, wide), (y, _) = as_float(t, a, dtype), as_float(t, b, dtype)
    beyond = t.put(f"fcmp o{relation} {t.type(wide)} {x}, {y}")
    chosen = t.select(beyond, a, b, element)
    unordered = t.put(f"fcmp uno {t.type(wide)} {x}, {x}")
    return t.select(unordered, a, chosen, element)


def _integer(t: Text, op: str, args: list[str], dtype: DType) -> str:
    element = compute_type(dtype)
    whole = t.type(element)
    if op in _INTEGER_BINARY:
        return t.two(_INTEGER_BINARY[op], args[0], args[1], element)
    if op in ("max", "min"):
        return extreme(t, op, args[0], args[1], dtype)
    signed = dtype.kind == "int"
    if op in _DIVISIONS:
        return t.two(f"{'s' if signed else 'u'}{_DIVISIONS[op]}", args[0], args[1], element)
    if op in _COMPARISONS:
        name = op if op in ("eq", "ne") else ("s" if signed else "u") + op
        return t.put(f"icmp {name} {whole} {args[0]}, {args[1]}")
    zero = t.number(0, element)
    if op == "not":
        return t.two("xor", args[0], t.number(-1 if element != "i1" else 1, element), element)
    if op == "neg":
        return t.two("sub", zero, args[0], element)
    if op == "abs":
        if not signed:
            return args[0]
        negative = t.put(f"icmp slt {whole} {args[0]}, {zero}")
        return t.select(negative, t.two("sub", zero, args[0], element), args[0], element)
    above = t.put(f"icmp {'s' if signed else 'u'}gt {whole} {args[0]}, {zero}")
    result = t.select(above, t.number(1, element), zero, element)
    if not signed:
        return result
    below = t.put(f"icmp slt {whole} {args[0]}, {zero}")
    return t.select(below, t.number(-1, element), result, element)


def cast(t: Text, value: str, source: DType, target: DType) -> str:
    """A value as another dtype has it, as NumPy converts."""
    if source.is_floating:
        if target.is_floating:
            return _float_to_float(t, value, source, target)
        value, element = as_float(t, value, source)
        if target is boolean:
            return t.put(f"fcmp une {t.type(element)} {value}, {t.number(0.0, element)}")
        return _float_to_integer(t, value, element, target)
    if target.is_floating:
        wide = "double" if target.name == "float64" else "float"
        op = "sitofp" if source.kind == "int" else "uitofp"
        return from_float(t, t.convert(op, value, compute_type(source), wide), target)
    if target is boolean:
        return t.put(f"icmp ne {t.type(compute_type(source))} {value}, {t.number(0, compute_type(source))}")
    if source.size == target.size and source is not boolean:
        return value
    narrower = source.size > target.size and source is not boolean
    op = "trunc" if narrower else "sext" if source.kind == "int" else "zext"
    return t.convert(op, value, compute_type(source), compute_type(target))


def _float_to_float(t: Text, value: str, source: DType, target: DType) -> str:
    if source is target:
        return value
    if source.name == "float64":
        if target is float16:
            return t.convert("fptrunc", value, "double", "half")
        return from_float(t, t.convert("fptrunc", value, "double", "float"), target)
    value, _ = as_float(t, value, source)
    if target.name == "float64":
        return t.convert("fpext", value, "float", "double")
    return value if target is float32 else from_float(t, value, target)


def _float_to_integer(t: Text, value: str, element: str, target: DType) -> str:
    """Truncated; the lowest integer for what does not fit, NaN included."""
    whole, integer = t.type(element), compute_type(target)
    bound = 2.0 ** (8 * target.size - 1)
    low = -bound - 1 if element == "double" and target.size == 4 else -bound
    relation = "ogt" if element == "double" and target.size == 4 else "oge"
    above = t.put(f"fcmp {relation} {whole} {value}, {t.number(low, element)}")
    below = t.put(f"fcmp olt {whole} {value}, {t.number(bound, element)}")
    fits = t.two("and", above, below, "i1")
    safe = t.select(fits, value, t.number(0.0, element), element)
    return t.select(fits, t.convert("fptosi", safe, element, integer), t.number(-int(bound), integer), integer)
