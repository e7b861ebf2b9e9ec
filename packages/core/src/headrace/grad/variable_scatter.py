"""The variable_scatter family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

for _name in ("Mul", "Div", "Min", "Max", "NdUpdate", "NdAdd", "NdSub"):
    no_gradient(f"ResourceScatter{_name}", "an assignment has no output")
no_gradient("_FirstRows", "its outputs are integers")
no_gradient("_GatherRows", "a pass puts it into graphs whose gradients are there")
no_gradient("_ScatterRows", "an assignment has no output")
no_gradient("ResourceCountUpTo", "its output is an integer")
