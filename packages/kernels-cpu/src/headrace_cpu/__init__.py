"""The native CPU backend of Headrace."""

import os

# Before libgomp is loaded, which reads it then: a thread that has no work sleeps instead of spinning. A spinning one
# takes the processor from BLAS's threads and from other programs; sleeping costs some 5 us at each call of the pool.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from headrace_cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
