"""What tests of Headrace and of its plug-ins share: cases, the conformance kit, gradient checks, tolerances."""

from headrace.testing.conformance import check_backend, check_case, check_case_gradient, differentiated_inputs
from headrace.testing.device import check_device
from headrace.testing.numerical_gradient import check_gradient
from headrace.testing.op_case import OpCase, all_cases, cases_of
from headrace.testing.placement import check_case_placed, check_gradient_placed, check_graph_placed
from headrace.testing.rendezvous import check_rendezvous
from headrace.testing.tolerance import assert_close, tolerance

__all__ = [
    "OpCase",
    "all_cases",
    "assert_close",
    "cases_of",
    "check_backend",
    "check_case",
    "check_case_gradient",
    "check_case_placed",
    "check_device",
    "check_gradient",
    "check_gradient_placed",
    "check_graph_placed",
    "check_rendezvous",
    "differentiated_inputs",
    "tolerance",
]
