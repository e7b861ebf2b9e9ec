"""Processors: a thread that was woken on the processor where the first one runs goes to another one.

Linux wakes a thread where it last ran if that processor is idle, and beside the one who woke it if not. In a virtual
machine a processor that sleeps often seems to count as busy: two threads were seen to share one processor for many
steps while the other one slept, and each loop took twice as long. `HEADRACE_PROCESSORS=off` leaves all of it to the
system; so do systems other than Linux.
"""

from __future__ import annotations

import os
import sys

__all__ = ["look_around"]

BYTES = 128
"""Of a set of processors: 1,024 of them."""


def look_around() -> dict[str, str]:
    """Functions by name: what the first thread calls before others run, and what each of these calls first.

    `void say_where(ptr place)` writes down where the first thread is, and which one it is, in 16 bytes;
    `void look_around(ptr place)` lets a thread that finds itself there go elsewhere, to where the first one may run:
    who binds a thread to some processors means what it wakes, too.
    """
    return FUNCTIONS if sys.platform == "linux" and os.environ.get("HEADRACE_PROCESSORS") != "off" else NOTHING


NOTHING = {
    name: f"define internal void @{name}(ptr %place) alwaysinline {{\n  ret void\n}}"
    for name in ("say_where", "look_around")
}

FUNCTIONS = {
    "sched_getcpu": "declare i32 @sched_getcpu()",
    "pthread_self": "declare i64 @pthread_self()",
    "pthread_getaffinity_np": "declare i32 @pthread_getaffinity_np(i64, i64, ptr)",
    "sched_setaffinity": "declare i32 @sched_setaffinity(i32, i64, ptr)",
    "llvm.vector.reduce.or.v16i64": "declare i64 @llvm.vector.reduce.or.v16i64(<16 x i64>)",
    "say_where": """define internal void @say_where(ptr %place) alwaysinline {
  %here = call i32 @sched_getcpu()
  store i32 %here, ptr %place
  %first = call i64 @pthread_self()
  %second = getelementptr i64, ptr %place, i64 1
  store i64 %first, ptr %second
  ret void
}""",
    "look_around": """define internal void @look_around(ptr %place) alwaysinline {
begin:
  %here = call i32 @sched_getcpu()
  %there = load i32, ptr %place
  %same = icmp eq i32 %here, %there
  br i1 %same, label %leave, label %end
leave:
  %second = getelementptr i64, ptr %place, i64 1
  %first = load i64, ptr %second
  call void @leave_processor(i32 %there, i64 %first)
  br label %end
end:
  ret void
}""",
    "leave_processor": f"""define internal void @leave_processor(i32 %number, i64 %first) noinline {{
begin:
  %mask = alloca [{BYTES} x i8], align 64
  %status = call i32 @pthread_getaffinity_np(i64 %first, i64 {BYTES}, ptr %mask)
  %known = icmp eq i32 %status, 0
  %small = icmp ult i32 %number, {8 * BYTES}
  %possible = and i1 %known, %small
  br i1 %possible, label %clear, label %end
clear:
  %wide = zext i32 %number to i64
  %word = lshr i64 %wide, 6
  %bit = and i64 %wide, 63
  %place = getelementptr i64, ptr %mask, i64 %word
  %old = load i64, ptr %place
  %one = shl i64 1, %bit
  %rest = xor i64 %one, -1
  %new = and i64 %old, %rest
  store i64 %new, ptr %place
  %all = load <16 x i64>, ptr %mask, align 64
  %any = call i64 @llvm.vector.reduce.or.v16i64(<16 x i64> %all)
  %some = icmp ne i64 %any, 0
  br i1 %some, label %move, label %end
move:
  %moved = call i32 @sched_setaffinity(i32 0, i64 {BYTES}, ptr %mask)
  br label %end
end:
  ret void
}}""",
}
"""`leave_processor` lets the calling thread run on all processors of the first one but one, if there are others."""
