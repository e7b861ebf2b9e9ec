"""oneDNN by its C API: which operations it computes here, and how. Everything works without it, more slowly."""

from headrace_cpu.onednn import convolutions, normalizations, products, quantized
from headrace_cpu.onednn.calls import LibraryCall, Request, library_call
from headrace_cpu.onednn.capi import OneDnn, onednn
from headrace_cpu.onednn.parts import MULTIPLICATIONS_A_NANOSECOND, parted_call

__all__ = [
    "MULTIPLICATIONS_A_NANOSECOND",
    "LibraryCall",
    "OneDnn",
    "Request",
    "convolutions",
    "library_call",
    "normalizations",
    "onednn",
    "parted_call",
    "products",
    "quantized",
]
