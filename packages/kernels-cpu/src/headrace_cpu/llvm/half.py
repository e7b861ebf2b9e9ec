"""Conversions of float16 that LLVM's code calls where the processor has no instruction for them.

Without `f16c` all of them, and without `avx512fp16` those from float64, also for what LLVM makes of copied signs. They
are in the library of the compiler that Python was built by, from GCC 12 on, but nothing says that this one is loaded.
"""

from __future__ import annotations

__all__ = ["CONVERSIONS"]

CONVERSIONS = """
define float @__extendhfsf2(half %half) {
  %short = bitcast half %half to i16
  %bits = zext i16 %short to i32
  %size = and i32 %bits, 32767
  %high = shl i32 %bits, 16
  %sign = and i32 %high, -2147483648
  %place = shl i32 %size, 13
  %normal = add i32 %place, 939524096
  %special = add i32 %normal, 939524096
  %nan = or i32 %special, 4194304
  %count = uitofp i32 %size to float
  %denormal = fmul float %count, 0x3E70000000000000
  %small = bitcast float %denormal to i32
  %is_small = icmp ult i32 %size, 1024
  %is_special = icmp uge i32 %size, 31744
  %is_nan = icmp ugt i32 %size, 31744
  %finite = select i1 %is_small, i32 %small, i32 %normal
  %number = select i1 %is_special, i32 %special, i32 %finite
  %any = select i1 %is_nan, i32 %nan, i32 %number
  %whole = or i32 %any, %sign
  %result = bitcast i32 %whole to float
  ret float %result
}

define half @__truncsfhf2(float %exact) {
  %bits = bitcast float %exact to i32
  %size = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %near = sub i32 %size, 939524096
  %place = lshr i32 %near, 13
  %odd = and i32 %place, 1
  %most = add i32 %near, 4095
  %tie = add i32 %most, %odd
  %normal = lshr i32 %tie, 13
  %positive = bitcast i32 %size to float
  %aligned = fadd float %positive, 5.000000e-01
  %counted = bitcast float %aligned to i32
  %denormal = sub i32 %counted, 1056964608
  %is_small = icmp ult i32 %size, 947912704
  %is_large = icmp uge i32 %size, 1199570944
  %is_nan = icmp ugt i32 %size, 2139095040
  %finite = select i1 %is_small, i32 %denormal, i32 %normal
  %number = select i1 %is_large, i32 31744, i32 %finite
  %any = select i1 %is_nan, i32 32256, i32 %number
  %whole = or i32 %any, %sign
  %short = trunc i32 %whole to i16
  %result = bitcast i16 %short to half
  ret half %result
}

define half @__truncdfhf2(double %exact) {
  %near = fptrunc double %exact to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %inexact = fcmp one double %back, %exact
  %last = trunc i32 %bits to i1
  %even = xor i1 %last, true
  %moves = and i1 %inexact, %even
  %size = call double @llvm.fabs.f64(double %exact)
  %reached = call double @llvm.fabs.f64(double %back)
  %beyond = fcmp ogt double %reached, %size
  %way = select i1 %beyond, i32 -1, i32 1
  %step = select i1 %moves, i32 %way, i32 0
  %odd = add i32 %bits, %step
  %sticky = bitcast i32 %odd to float
  %result = fptrunc float %sticky to half
  ret half %result
}

declare double @llvm.fabs.f64(double)
"""
"""LLVM functions, each rounding once, to nearest even. The float32 on the way from float64 ends in an odd bit where it
is not exact, so that a tie is one only if it was one before; denormals are rounded by adding 0.5, whose last bit is
that of the denormals of float16."""
