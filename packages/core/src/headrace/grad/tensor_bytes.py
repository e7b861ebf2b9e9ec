"""The tensor_bytes family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("SerializeTensor", "its output is a string")
no_gradient("ParseTensor", "its input is a string")
for _name in ("SerializeSparse", "SerializeManySparse"):
    no_gradient(_name, "its output is a string")
for _name in ("DeserializeSparse", "DeserializeManySparse"):
    no_gradient(_name, "its input is a string")
