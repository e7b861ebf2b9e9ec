"""Requests: what a library is asked about the lines of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.plan import Line, Program
from headrace_cpu.onednn import Request
from headrace_cpu.scheduling.keeping import kept_values

__all__ = ["Requests"]

FILTERING = frozenset(
    {
        "Conv2D", "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropInputV2", "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
    }
)  # fmt: skip
"""Types of which a library brings the filters, input 1, into a layout of its own each time unless they are kept.

Matrices of products are read where they lie: bringing them elsewhere would cost more if they change after all."""


class Requests:
    """Makes the requests.

    Args:
      program: the lines.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kept = kept_values(program)

    def of(
        self, line: Line, inputs: Sequence[int] | None = None, outputs: Sequence[int] | None = None, **more: Any
    ) -> Request:
        """What a library is asked about a line.

        Args:
          line: the line.
          inputs: the values that are read in place of those of the line.
          outputs: those that are written.
          **more: other attributes of the request.
        """
        inputs, outputs = line.inputs if inputs is None else inputs, line.outputs if outputs is None else outputs
        tensors, constants = self._program.tensors, self._program.constants
        known = (constants.get(number) for number in inputs)
        return Request(
            line.op,
            tuple(tensors[number].dtype for number in (*inputs, *outputs)),
            tuple(value if isinstance(value, np.ndarray) else None for value in known),
            keeps=line.op.type in FILTERING and inputs[1] in self._kept,
            **more,
        )
