"""The names of devices for people."""

from __future__ import annotations

import pytest

from headrace_viz.devices import device_scope, short_device


@pytest.mark.parametrize(
    ("name", "short", "scope"),
    [
        ("", "CPU:0", "CPU_0"),
        ("/device:GPU:1", "GPU:1", "GPU_1"),
        ("/job:localhost/replica:0/task:0/device:CPU:1", "CPU:1", "CPU_1"),
        ("/job:worker/replica:0/task:2/device:GPU:1", "job:worker/task:2/GPU:1", "worker_2_GPU_1"),
    ],
)
def test_names_are_short_and_keep_the_task_in_a_cluster(name: str, short: str, scope: str) -> None:
    assert (short_device(name), device_scope(name)) == (short, scope)
