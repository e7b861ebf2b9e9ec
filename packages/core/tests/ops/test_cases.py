"""Every operation case, run in every way; and the completeness of every operation."""

from __future__ import annotations

import pytest

from headrace.grad.registry import gradient_of_type
from headrace.graph.frames import TOKEN_TYPES
from headrace.graph.op_def import op_defs
from headrace.kernels.registry import kernels_of
from headrace.testing import OpCase, all_cases, check_case, check_case_gradient, differentiated_inputs

CASES = list(all_cases())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_is_right_in_every_way_it_can_be_run(case: OpCase) -> None:
    check_case(case)


DIFFERENTIATED = [case for case in CASES if differentiated_inputs(case)]


@pytest.mark.parametrize("case", DIFFERENTIATED, ids=str)
def test_A70_gradient_agrees_with_central_differences(case: OpCase) -> None:
    check_case_gradient(case)


def test_case_ids_are_unique() -> None:
    ids = [case.id for case in CASES]
    assert len(ids) == len(set(ids))


_WITHOUT_KERNEL = {"Const", "Placeholder", "NoOp", "_Arg", "_Retval"} | (TOKEN_TYPES - {"ControlTrigger"})
"""The plan and the executor realise these; those of tokens are tested in test_control_flow.py."""
_CORE = [op_def for op_def in op_defs() if op_def.shape_function.__module__.startswith("headrace.")]


@pytest.mark.parametrize("op_def", _CORE, ids=lambda op_def: op_def.name)
def test_operation_is_complete(op_def) -> None:
    lacks = []
    if not op_def.doc or op_def.doc.startswith("User operation"):
        lacks.append("a docstring on its shape function")
    if gradient_of_type(op_def.name) is None:
        lacks.append("a gradient rule, or no_gradient with the reason")
    if op_def.name not in _WITHOUT_KERNEL and not kernels_of(op_def.name):
        lacks.append("a NumPy kernel")
    if op_def.name not in _WITHOUT_KERNEL | _STATEFUL and not any(case.op == op_def.name for case in CASES):
        lacks.append("a case in testing/cases")
    rule = gradient_of_type(op_def.name)
    differentiable = rule is not None and rule.function is not None and op_def.name not in _GRADIENT_TESTED_ELSEWHERE
    if differentiable and not any(case.op == op_def.name for case in DIFFERENTIATED):
        lacks.append("a case at which its gradient is checked")
    assert not lacks, f"{op_def.name} lacks {', '.join(lacks)}"


_GRADIENT_TESTED_ELSEWHERE = {
    "ReadVariableOp",  # tests/grad/test_backprop.py: its gradient is that of the variable
    "ResourceGather",  # the same
    "ResourceGatherNd",  # tests/grad/test_gather.py: the same
    "PreventGradient",  # the same: its rule is an error
    *("Switch", "Merge", "Enter", "Exit", "NextIteration"),  # their rule is an error: If and While stand for them
    "CheckNumerics",  # tests/ops/test_array.py: it is stateful, since an error is an effect
    "_Arg",
    "_Retval",
    *("Complex", "Real", "Imag", "Conj", "ComplexAbs", "Angle"),  # tests/grad/test_math.py: by real and imaginary parts
    *("FFT", "IFFT", "RFFT", "IRFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D"),  # tests/ops/test_fft.py: the same
    # tests/ops/test_image.py: they take or give float32 only, too little for differences
    *(
        "ResizeBilinear",
        "ResizeBilinearGrad",
        "ResizeBicubic",
        "ResizeBicubicGrad",
        "CropAndResize",
        "AdjustContrastv2",
    ),
    # tests/ops/test_projection.py: their transforms are float32
    *("ImageProjectiveTransformV2", "ImageProjectiveTransformV3", "ImageProjectiveTransformGrad"),
    *("ScaleAndTranslate", "ScaleAndTranslateGrad"),  # tests/ops/test_scaling.py: their results are float32
    # tests/ops/test_quantization.py: they pass rounding over
    *("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs", "QuantizeAndDequantizeV3"),
    "FakeQuantWithMinMaxVarsPerChannel",
    *("BlockLSTM", "BlockLSTMV2"),  # tests/ops/test_recurrent.py: first order only
    "CTCLoss",  # tests/ops/test_alignment.py: the same
    "RandomGamma",  # tests/ops/test_random.py: it is stateful
    *("PyFunc", "PyFuncStateless", "EagerPyFunc"),  # tests/ops/test_python_function.py: the gradient is the user's
    "Cholesky",  # tests/grad/test_reduction.py: of symmetric matrices only
}

_STATEFUL = {op_def.name for op_def in _CORE if op_def.stateful}
"""Their cases are tests of their own, since what they give depends on what went before."""
