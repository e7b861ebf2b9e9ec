"""NumPy kernels of the floating family."""

from __future__ import annotations

import numpy as np

from headrace.kernels.registry import register_ufunc

register_ufunc("NextAfter", np.nextafter)
