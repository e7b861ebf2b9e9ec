"""The native CPU backend of Headrace."""

from headrace_cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
