"""Readers have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("WholeFile", "Identity", "TextLine", "TFRecord", "FixedLengthRecord"):
    no_gradient(f"{_name}ReaderV2", "a handle has no inputs")
for _name in ("ReaderReadV2", "ReaderReadUpToV2"):
    no_gradient(_name, "records are strings")
no_gradient("ReaderResetV2", "it has no output")
for _name in ("ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompletedV2"):
    no_gradient(_name, "it counts")
