"""What the array API standard asks of a namespace beside functions: its version, its constants, what it can do.

Source: https://data-apis.org/array-api/2024.12/
"""

from __future__ import annotations

from math import e, inf, nan, pi
from typing import Any

from headrace import types
from headrace.config import current_config
from headrace.ops.dtypes import isdtype
from headrace.plan.devices import device_names
from headrace.plan.plan import backends
from headrace.types import DType

__all__ = ["NamespaceInfo", "__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"]

__array_api_version__ = "2024.12"

newaxis = None
"""As an index it puts in an axis of size 1: `x[hr.newaxis]`."""

_STANDARD_DTYPES = tuple(dtype for dtype in types.COMPUTABLE if dtype not in (types.float16, types.bfloat16))
_MOST_AXES = 64
"""NumPy's limit."""


class NamespaceInfo:
    """What this namespace can do, in the words of the array API standard; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """The features that the standard leaves open: boolean masks, shapes that depend on values, most axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _MOST_AXES}

    def default_device(self) -> str:
        """The device on which operations run that no `hr.device` places elsewhere."""
        return "CPU:0"

    def devices(self) -> list[str]:
        """The devices that the installed backends offer; `hr.device` takes these names."""
        options = current_config()
        return sorted({name for backend in backends().values() for name in device_names(backend, options)})

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of indices; `device` makes no difference."""
        return {
            "real floating": types.float32,
            "complex floating": types.complex64,
            "integral": types.int32,
            "indexing": types.int64,
        }

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The dtypes of the standard by name, of one kind (see `isdtype`) or of all; `device` makes no difference."""
        return {dtype.name: dtype for dtype in _STANDARD_DTYPES if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace can do, for programs that are written for the array API standard.

    Example:
      >>> import headrace as hr
      >>> hr.__array_namespace_info__().default_dtypes()["integral"]
      hr.int32
    """
    return NamespaceInfo()
