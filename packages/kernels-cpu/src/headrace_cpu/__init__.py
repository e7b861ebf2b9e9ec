"""The native CPU backend of Headrace."""

import os

# Before libgomp is loaded, which reads it then: a thread that has no work looks for some for 20 us, then it sleeps. One
# that slept at once would have to be woken for each loop: 5 us, and 12 on a virtual machine whose processors halt. One
# that never slept would take the processor from BLAS's threads and from other programs.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

from headrace_cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
