"""The tables family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

no_gradient("HashTableV2", "a handle has no inputs")
no_gradient("MutableHashTableV2", "a handle has no inputs")
for _name in ("LookupTableImportV2", "InitializeTableV2", "InitializeTableFromTextFileV2"):
    no_gradient(_name, "it has no output")
for _name in ("LookupTableInsertV2", "LookupTableRemoveV2"):
    no_gradient(_name, "it has no output")
no_gradient("LookupTableFindV2", "keys are discrete")
no_gradient("LookupTableSizeV2", "its output is an integer")
no_gradient("LookupTableExportV2", "a table is a constant")
