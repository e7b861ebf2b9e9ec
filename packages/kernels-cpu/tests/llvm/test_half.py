"""Conversions of float16 where the processor has no instructions: every number, and what lies between two of them."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest

from headrace.types import Array
from headrace_cpu.llvm.host import Host

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="others convert float16 by instructions")

HALVES = np.arange(0x10000, dtype=np.uint16).view(np.float16)


def close_to_ties() -> Array:
    """All numbers of float16, the middle between each two, and what lies next to it, in float64."""
    with np.errstate(all="ignore"):
        middle = (HALVES.astype(np.float64) + np.nextafter(HALVES, np.float16(np.inf)).astype(np.float64)) / 2
        near = [np.nextafter(middle, side) for side in (-np.inf, np.inf)]
    extremes = np.array([65519.99, 65520.0, 65536.0, 3e38, 1e300, -1e300, 1e-30, 5e-324, np.inf, np.nan])
    return np.concatenate([HALVES.astype(np.float64), middle, *near, extremes])


@pytest.fixture(params=["x86-64", "host"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("HEADRACE_CACHE", "off")
    made = Host()
    if request.param == "x86-64":  # what virtual machines show that hide their processor: no f16c
        made.cpu, made.features = "x86-64", ""
    return made


@pytest.mark.parametrize(("wide", "array_type"), [("double", np.float64), ("float", np.float32)])
def test_numbers_are_rounded_once_to_nearest_even(machine: Host, wide: str, array_type: type) -> None:
    # without the functions a cast ended the process: "Symbol not found: __truncdfhf2", or a fault
    body = f"%h = fptrunc {wide} %x to half\n %b = bitcast half %h to i16\n ret i16 %b"
    text = f"define i16 @f({wide} %x) {{\n {body}\n}}"
    argument = ctypes.c_double if array_type is np.float64 else ctypes.c_float
    convert = ctypes.CFUNCTYPE(ctypes.c_uint16, argument)(*machine.load(text, ["f"]))
    with np.errstate(all="ignore"):
        exact: Array = close_to_ties().astype(array_type)
        wanted = exact.astype(np.float16)
    found = np.array([convert(number) for number in exact.tolist()], np.uint16).view(np.float16)
    np.testing.assert_array_equal(found, wanted)
    finite = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(wanted[finite]))


def test_float16_is_widened_exactly(machine: Host) -> None:
    text = "define float @w(i16 %b) {\n %h = bitcast i16 %b to half\n %x = fpext half %h to float\n ret float %x\n}"
    convert = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_uint16)(*machine.load(text, ["w"]))
    found = np.array([convert(bits) for bits in range(0x10000)], np.float32)
    np.testing.assert_array_equal(found, HALVES.astype(np.float32))
