"""Primitives: what computes an operation as a whole, where it has no loops: code of our own, or a library."""

from __future__ import annotations

from headrace_cpu.onednn import LibraryCall, Request, library_call, parted_call
from headrace_cpu.primitives.few_rows import FewRows, few_rows_call
from headrace_cpu.primitives.panel_products import PanelProducts, panel_products_call
from headrace_cpu.primitives.pooling import Pooling, pooling_call

__all__ = ["primitive_call"]


def primitive_call(request: Request, threads: int = 1) -> FewRows | LibraryCall | PanelProducts | Pooling | None:
    """What computes an operation, or None where only NumPy does.

    Args:
      request: the operation, with the dtypes that lie in memory.
      threads: how many a library may use.
    """
    own = pooling_call(request) or few_rows_call(request) or panel_products_call(request)
    return own or parted_call(request, threads) or library_call(request)
