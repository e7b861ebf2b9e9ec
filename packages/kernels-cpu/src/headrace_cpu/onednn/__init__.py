"""oneDNN by its C API: which operations it computes here, and how. Everything works without it, more slowly."""

from headrace_cpu.onednn.calls import library_call
from headrace_cpu.onednn.capi import OneDnn, onednn

__all__ = ["OneDnn", "library_call", "onednn"]
