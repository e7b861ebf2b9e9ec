"""Cases of the sequencing family. Assertions and triggers have tests of their own: they have no outputs."""

from __future__ import annotations

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers

CASES = [
    OpCase(
        "IdentityN/several dtypes",
        "IdentityN",
        [[numbers("float32", 2, 3), numbers("int64", 4), np.True_, np.array([b"a"], object)]],
        expected=lambda inputs: inputs,
    ),
    OpCase("IdentityN/one", "IdentityN", [[numbers("float64", 3)]], expected=lambda inputs: inputs),
    OpCase(
        "IdentityN/scalar, empty and NaN",
        "IdentityN",
        [[np.float32(1), np.zeros((0, 2), np.float32), np.array([np.nan], np.float32)]],
        expected=lambda inputs: inputs,
        differentiate=(),
        exact=True,
    ),
    OpCase(
        "IdentityN/complex",
        "IdentityN",
        [[numbers("complex64", 3), numbers("bfloat16", 2)]],
        differentiate=(),
        expected=lambda inputs: inputs,
    ),
    # A trigger has no outputs; the case shows that it can be built and run.
    OpCase("ControlTrigger/alone", "ControlTrigger", [], expected=()),
]
