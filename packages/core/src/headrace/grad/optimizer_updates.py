"""The optimizer_updates family has no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

_DENSE = (
    "GradientDescent", "Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp",
    "Adam", "AdaMax", "Ftrl", "FtrlV2", "ProximalGradientDescent", "ProximalAdagrad",
)  # fmt: skip
_SPARSE = (
    "Momentum", "KerasMomentum", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp", "Ftrl", "FtrlV2",
    "ProximalGradientDescent", "ProximalAdagrad",
)  # fmt: skip

for _name in (*(f"Apply{name}" for name in _DENSE), *(f"SparseApply{name}" for name in _SPARSE)):
    no_gradient(f"Resource{_name}", "an update has no output")
