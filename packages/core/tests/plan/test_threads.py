"""Threads: what the scheduler and the control group give, and the pools of BLAS held to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.plan.threads import available_threads, blas_libraries, blas_pools, cgroup_quota

bounded = pytest.mark.skipif(not blas_libraries(), reason="the BLAS of this NumPy lets nobody set its threads")
counted = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by Linux")


@pytest.fixture(autouse=True)
def own_pools() -> Iterator[None]:
    """Every test starts and ends with what the process has by itself."""
    blas_pools.bound(None)
    yield
    blas_pools.bound(None)


def sizes() -> set[int]:
    return {library.read() for library in blas_libraries()}


def product(size: int, **options: object) -> hr.Session:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [size, size], name="x")
        hr.identity(x @ x, name="y")
    return hr.Session(graph, config=hr.config(**options))


def test_the_processors_of_the_scheduler_are_counted() -> None:
    assert 1 <= available_threads() <= (os.cpu_count() or 1)


def test_fewer_processors_where_the_scheduler_gives_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def three(pid: int) -> set[int]:
        return {0, 4, 5}

    monkeypatch.setattr("os.sched_getaffinity", three, raising=False)
    monkeypatch.setattr("headrace.plan.threads._GROUPS", Path("no such folder"))
    assert available_threads() == 3


def test_a_forked_process_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.plan.threads._process", os.getpid() + 1)
    assert available_threads() == 1


def test_the_quota_of_the_own_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "membership").write_text("0::/\n")
    monkeypatch.setattr("headrace.plan.threads._GROUPS", tmp_path)
    monkeypatch.setattr("headrace.plan.threads._MEMBERSHIP", tmp_path / "membership")
    assert available_threads() == 1


@pytest.mark.parametrize(
    ("files", "membership", "quota"),
    [
        ({}, "0::/", None),
        ({}, "", None),
        ({"cpu.max": "max 100000"}, "0::/", None),
        ({"cpu.max": "150000 100000"}, "0::/", 1.5),
        ({"cpu.max": "150000 100000"}, "0::/of/the/host", 1.5),
        ({"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b", 3.0),
        ({"a/cpu.max": "300000 100000", "a/b/cpu.max": "200000 100000"}, "0::/a/b", 2.0),
        ({"other/cpu.max": "100000 100000"}, "0::/a", None),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/", 2.5),
        ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, "1:cpu:/a", None),
        ({"cpu,cpuacct/a/cpu.cfs_quota_us": "50000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
         "4:memory:/a\n2:cpu,cpuacct:/a", 0.5),
        ({"memory/cpu.max": "50000 100000"}, "4:memory:/", None),
    ],
)  # fmt: skip
def test_quotas_of_both_versions_and_of_groups_around(
    files: dict[str, str], membership: str, quota: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert cgroup_quota(tmp_path, membership) == quota


@bounded
@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_D32_one_setting_bounds_blas(backend: str) -> None:
    before = sizes()
    with product(4, backend=backend, threads=1) as session:
        session.run("y:0", {"x:0": np.eye(4)})
        assert sizes() == {1}
    with product(4, backend=backend, threads=3) as session:
        session.run("y:0", {"x:0": np.eye(4)}, trace=hr.Trace())
        assert sizes() == {3}
    with product(4, backend=backend) as session:
        session.run("y:0", {"x:0": np.eye(4)})
    assert sizes() == before


@bounded
def test_steps_of_two_sessions_get_what_each_asks_for() -> None:
    with product(4, backend="numpy", threads=1) as one, product(4, backend="numpy", threads=2) as two:
        for session, wanted in [(one, 1), (two, 2), (one, 1)]:
            session.run("y:0", {"x:0": np.eye(4)})
            assert sizes() == {wanted}


@bounded
def test_results_that_must_not_depend_on_threads_are_made_by_one() -> None:
    with product(4, backend="numpy", threads=4, deterministic=True) as session:
        session.run("y:0", {"x:0": np.eye(4)})
    assert sizes() == {1}


@bounded
def test_initial_values_are_made_by_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(hr.random.normal([4, 4], seed=1) @ hr.ones([4, 4]), name="w")
    with hr.Session(graph, config=hr.config(backend="numpy", threads=1)) as session:
        session.read_variables(["w"])
        assert sizes() == {1}
        assert w.shape == (4, 4)


BUSY = """
import threading
from pathlib import Path
import numpy as np
import headrace as hr

def processor_time():
    found = {}
    for folder in Path("/proc/self/task").iterdir():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        found[int(folder.name)] = int(fields[11]) + int(fields[12])
    return found

graph = hr.Graph()
with graph.as_default():
    x = hr.placeholder(hr.float32, [900, 900])
    y = x @ x
given = np.random.default_rng(0).standard_normal((900, 900), np.float32)
with hr.Session(graph, config=hr.config(backend="numpy", threads=1)) as session:
    for _ in range(10):  # threads that had work before look for more for some 50 ms
        session.run(y, {x: given})
    before = processor_time()
    for _ in range(10):
        session.run(y, {x: given})
    after = processor_time()
busy = {thread for thread, ticks in after.items() if ticks > before.get(thread, 0)}
print(sorted(busy - {threading.get_native_id()}), sum(after.values()) - sum(before.values()))
"""


@bounded
@counted
def test_D32_no_other_thread_is_busy() -> None:
    """In a process of its own, where no thread of another test starts, ends or works meanwhile."""
    shown = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, check=True, timeout=50).stdout
    others, ticks = shown.rsplit(maxsplit=1)
    assert others == "[]"
    assert int(ticks) > 0  # so the steps were seen
