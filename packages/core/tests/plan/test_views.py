"""Views: which inputs NumPy kernels copy follows from strides, before any kernel runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.context import NO_FUNCTIONS
from headrace.passes.prune import prune
from headrace.plan.program import Program
from headrace.plan.views import packed_inputs
from headrace.runtime.resources import ResourceManager

Build = Callable[[hr.Tensor], hr.Tensor]


def _packed(build: Build) -> tuple[int, ...]:
    """What the kernel of the last operation copies."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [8, 6, 4])
        result = build(x)
    program = Program.of(prune(graph, [result], (), [x]), ResourceManager(), NO_FUNCTIONS)
    return packed_inputs(program)[-1]


def _turned(x: hr.Tensor) -> hr.Tensor:
    return hr.permute_dims(x, (0, 2, 1))


@pytest.mark.parametrize(
    ("build", "view"),
    [
        (lambda x: hr.reshape(x, [48, 4]), lambda x: x.reshape(48, 4)),
        (lambda x: hr.reshape(_turned(x), [32, 6]), lambda x: x.transpose(0, 2, 1).reshape(32, 6)),
        (lambda x: hr.reshape(_turned(x), [2, 4, 4, 6]), lambda x: x.transpose(0, 2, 1).reshape(2, 4, 4, 6)),
        (lambda x: hr.reshape(hr.split(x, 2, axis=2)[1], [48, 2]), lambda x: np.split(x, 2, 2)[1].reshape(48, 2)),
        (lambda x: hr.reshape(hr.split(x, 2, axis=2)[1], [96]), lambda x: np.split(x, 2, 2)[1].reshape(96)),
        (lambda x: hr.reshape(hr.split(x, 2, axis=0)[1], [96]), lambda x: np.split(x, 2, 0)[1].reshape(96)),
        (lambda x: hr.reshape(hr.broadcast_to(x, [3, 8, 6, 4]), [24, 24]), lambda x: np.tile(x, (3, 1, 1, 1))),
    ],
)
def test_a_reshape_copies_where_numpy_does(build: Build, view: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.zeros((8, 6, 4), np.float32)
    assert _packed(build) == (() if np.shares_memory(view(x), x) else (0,))


def test_a_product_copies_what_has_gaps() -> None:
    assert _packed(lambda x: hr.matmul(_turned(x), x)) == (0,)
    assert _packed(lambda x: hr.matmul(x, x, transpose_a=True)) == ()
    assert _packed(lambda x: hr.matmul(hr.reshape(_turned(x), [8, 4, 6]), x)) == (0,)
    assert _packed(lambda x: hr.matmul(hr.reshape(_turned(x), [16, 6, 2])[:8], hr.exp(x)[:, :2])) == (1,)
