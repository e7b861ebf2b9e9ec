"""Gradient rules of the comparison family: there are none, since nothing here changes smoothly."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ApproximateEqual"):
    no_gradient(_name, "its output is a bool")
for _name in ("LogicalAnd", "LogicalOr", "LogicalNot"):
    no_gradient(_name, "it works on bools")
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Invert"):
    no_gradient(_name, "it works on integers")
