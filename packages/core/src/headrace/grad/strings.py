"""Strings have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

__all__: list[str] = []

for _name in ("StringJoin", "StringSplitV2", "StringLength", "StringLower", "StringUpper", "Substr"):
    no_gradient(_name, "strings have no derivative")
for _name in ("RegexReplace", "RegexFullMatch", "StaticRegexReplace", "StaticRegexFullMatch"):
    no_gradient(_name, "strings have no derivative")
for _name in ("StringStrip", "EncodeBase64", "DecodeBase64"):
    no_gradient(_name, "strings have no derivative")
for _name in ("StringToNumber", "DecodeRaw"):
    no_gradient(_name, "its input is a string")
no_gradient("AsString", "its output is a string")
