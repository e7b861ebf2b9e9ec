"""Saver and CheckpointManager with real sessions and variables of both homes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.checksum import crc32c
from headrace_checkpoint.durable import Disk
from headrace_checkpoint.retention import Best
from headrace_checkpoint.safetensors import save_safetensors
from headrace_checkpoint.saver import CheckpointManager, Saver
from headrace_checkpoint.store import CheckpointWarning, StoredStep, list_steps, read_newest_step, write_step


class Counter:
    """A graph with a weight matrix, a step counter, and an operation that changes both."""

    def __init__(self, rows: int = 2) -> None:
        self.graph = hr.Graph()
        with self.graph.as_default():
            self.w = hr.Variable(np.zeros((rows, 2), np.float32), name="layer/w")
            self.step = hr.Variable(np.array(0), name="step", trainable=False)
            updates: list[Any] = [self.w.assign_add(np.ones((rows, 2), np.float32)), self.step.assign_add(1)]
            self.train = hr.group(updates)


@pytest.fixture
def model() -> Counter:
    return Counter()


def test_save_and_restore(tmp_path: Path, model: Counter) -> None:
    saver = Saver()
    with hr.Session(model.graph) as session:
        session.run(model.train)
        path = saver.save(session, tmp_path, step=1, objects={"epoch": 4}, metrics={"loss": 0.5})
        session.run(model.train)
        report = saver.restore(session, tmp_path)
        np.testing.assert_array_equal(session.run(model.w), np.ones((2, 2)))
        assert session.run(model.step) == 1
    assert (report.path, report.step, report.restored) == (str(path), 1, ("layer/w", "step"))
    assert report.is_complete
    assert report.objects == {"epoch": 4}


def test_another_process_of_the_same_program_goes_on(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        session.run(model.train)
        Saver().save(session, tmp_path, step=1)
    again = Counter()
    with hr.Session(again.graph) as session:
        Saver().restore(session, tmp_path)
        session.run(again.train)
        assert session.run(again.step) == 2
        np.testing.assert_array_equal(session.run(again.w), np.full((2, 2), 2))


def test_uninitialised_variables_are_saved_with_their_initial_value(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        Saver().save(session, tmp_path, step=0)
        assert Saver().restore(session, tmp_path).restored == ("layer/w", "step")


def test_variables_of_the_process_need_no_session(tmp_path: Path) -> None:
    a, b = hr.Variable(np.array([1.5], ml_dtypes.bfloat16), name="saver/a"), hr.Variable(2, name="saver/b")
    saver = Saver([a, b])
    saver.save(None, tmp_path, step=3)
    a.assign(np.array([0], ml_dtypes.bfloat16))
    b.assign(7)
    report = saver.restore(None, tmp_path)
    assert report.restored == ("saver/a", "saver/b")
    assert (a.numpy().tolist(), b.numpy().item()) == ([1.5], 2)


def test_both_homes_at_once(tmp_path: Path, model: Counter) -> None:
    shared = hr.Variable(1.0, name="saver/shared")
    saver = Saver([model.w, shared])
    with hr.Session(model.graph) as session:
        session.run(model.train)
        saver.save(session, tmp_path, step=1)
        session.run(model.train)
        shared.assign(9.0)
        saver.restore(session, tmp_path)
        np.testing.assert_array_equal(session.run(model.w), np.ones((2, 2)))
    assert shared.numpy() == 1.0


def _noisy() -> tuple[hr.Graph, hr.Variable, Any, hr.Tensor]:
    graph = hr.Graph(seed=1)
    with graph.as_default():
        w = hr.Variable(np.zeros(3, np.float32), name="w")
        noise = hr.random.normal([3], name="noise")
        train: Any = w.assign_add(noise)
    return graph, w, train, noise


def test_random_streams_go_on_where_they_stood(tmp_path: Path) -> None:
    graph, w, train, _ = _noisy()
    with hr.Session(graph) as session:
        for step in range(6):
            session.run(train)
            if step == 2:
                Saver().save(session, tmp_path, step=2)
        uninterrupted = session.run(w)
    graph, w, train, _ = _noisy()
    with hr.Session(graph) as session:
        Saver().restore(session, tmp_path)
        for _ in range(3):
            session.run(train)
        assert session.run(w).tobytes() == uninterrupted.tobytes()


def test_streams_of_operations_that_are_gone(tmp_path: Path) -> None:
    graph, w, train, noise = _noisy()
    with hr.Session(graph) as session:
        session.run(train)
        Saver().save(session, tmp_path, step=1)
        Saver([w]).restore(session, tmp_path)
    other = hr.Graph()
    with other.as_default():
        hr.Variable(np.zeros(3, np.float32), name="w")
    with hr.Session(other) as session:
        with pytest.raises(InvalidArgumentError, match=f"unexpected: {noise.op.name}"):
            Saver().restore(session, tmp_path)
        assert Saver().restore(session, tmp_path, strict=False).restored == ("w",)


def test_string_variables(tmp_path: Path) -> None:
    graph = hr.Graph()
    value = np.array([b"", b"\x00\xff", b"x" * 1000], object)
    with graph.as_default():
        words = hr.Variable(value, name="words")
    with hr.Session(graph) as session:
        Saver().save(session, tmp_path, step=1)
        session.write_variables({"words": np.array([b"a", b"b", b"c"], object)})
        Saver().restore(session, tmp_path)
        assert session.run(words).tolist() == value.tolist()


def _stored(tmp_path: Path) -> None:
    write_step(
        tmp_path,
        5,
        {"layer/w": np.ones((3, 2), np.float32), "step": np.array(1.0), "old/bias": np.ones(2), "extra": np.ones(1)},
        time=0.0,
    )


def test_D25_strict_restore_lists_everything_and_changes_nothing(tmp_path: Path, model: Counter) -> None:
    _stored(tmp_path)
    with model.graph.as_default():
        hr.Variable(np.zeros(2), name="bias")
    with hr.Session(model.graph) as session:
        session.run(model.train)
        with pytest.raises(ShapeError, match="does not fit the variables, and nothing was changed") as caught:
            Saver().restore(session, tmp_path)
        text = str(caught.value)
        assert "missing: bias; unexpected: extra, old/bias" in text
        assert "layer/w (float32[3, 2] stored, float32[2, 2] wanted)" in text
        assert "step (float64[] stored, int64[] wanted)" in text
        assert "strict=False" in text
        np.testing.assert_array_equal(session.run(model.w), np.ones((2, 2)))


def test_D25_A95_a_partial_restore_reports_what_it_did(tmp_path: Path, model: Counter) -> None:
    _stored(tmp_path)
    with model.graph.as_default():
        bias = hr.Variable(np.zeros(2), name="bias")
        fresh = hr.Variable(np.zeros(2), name="fresh")
    with hr.Session(model.graph) as session:
        session.run(model.train)
        report = Saver().restore(session, tmp_path, strict=False, names={"bias": "old/bias"})
        assert session.run(bias).tolist() == [1, 1]
        assert session.run(fresh).tolist() == [0, 0]
        assert session.run(model.step) == 1
    assert (report.restored, report.missing, report.unexpected) == (("bias",), ("fresh",), ("extra",))
    assert [item.name for item in report.wrong_shape] == ["layer/w", "step"]
    assert not report.is_complete
    assert "restored:    1  bias" in str(report)
    assert "(step 5)" in str(report)


def test_D25_a_missing_variable_is_named(tmp_path: Path, model: Counter) -> None:
    write_step(tmp_path, 1, {"layer/w": np.zeros((2, 2), np.float32)}, time=0.0)
    with hr.Session(model.graph) as session, pytest.raises(NotFoundError, match="missing: step"):
        Saver().restore(session, tmp_path)
    with hr.Session(model.graph) as session:
        assert Saver([model.w]).restore(session, tmp_path).is_complete


def test_D25_unexpected_names_alone_are_refused_too(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        Saver().save(session, tmp_path, step=1)
        with pytest.raises(InvalidArgumentError, match="unexpected: step"):
            Saver([model.w]).restore(session, tmp_path)


def test_name_maps_that_name_nothing(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        Saver().save(session, tmp_path, step=1)
        with pytest.raises(InvalidArgumentError, match=r"variables that are not there[^$]*got: *v\n?"):
            Saver().restore(session, tmp_path, names={"v": "layer/w"})


def test_two_variables_of_one_name(tmp_path: Path) -> None:
    graphs = [hr.Graph(), hr.Graph()]
    variables = []
    for graph in graphs:
        with graph.as_default():
            variables.append(hr.Variable(0.0, name="same"))
    shared = hr.Variable(0.0, name="saver/same")
    with hr.Session(graphs[0]) as session:
        saver = Saver([shared, shared])
        with pytest.raises(InvalidArgumentError, match="same name"):
            saver.save(session, tmp_path, step=1)
        Saver([shared]).save(session, tmp_path, step=1)
        with pytest.raises(InvalidArgumentError, match="same name"):
            saver.restore(session, tmp_path)


def test_all_variables_of_no_session(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="a saver of all variables needs a session"):
        Saver().save(None, tmp_path, step=1)


def test_A92_restore_falls_back_past_damage_and_says_so(tmp_path: Path, model: Counter) -> None:
    saver = Saver()
    with hr.Session(model.graph) as session:
        for step in (1, 2):
            session.run(model.train)
            path = saver.save(session, tmp_path, step=step)
        shard = next(Path(path).glob("*.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1])
        with pytest.warns(CheckpointWarning, match="step-00000002"):
            assert saver.restore(session, tmp_path).step == 1
        assert session.run(model.step) == 1
        with pytest.raises(DataLossError, match="not a valid safetensors file"):
            saver.restore(session, tmp_path, step=2)
        with pytest.raises(NotFoundError, match=r"step 7 is not saved here[^$]*one of: 1, 2"):
            saver.restore(session, tmp_path, step=7)


def test_what_is_restored_does_not_hang_on_the_file(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        session.run(model.train)
        path = Path(Saver().save(session, tmp_path, step=1))
        Saver().restore(session, tmp_path)
        shard = next(path.glob("*.safetensors"))
        save_safetensors(shard, {"layer/w": np.zeros((2, 2), np.float32)})
        session.run(model.train)
        np.testing.assert_array_equal(session.run(model.w), np.full((2, 2), 2))


# The manager.


def test_A94_the_manager_keeps_the_newest_and_the_best(tmp_path: Path, model: Counter) -> None:
    manager = CheckpointManager(tmp_path, keep_latest=2, keep_best=("loss", 1))
    with hr.Session(model.graph) as session:
        for step, loss in enumerate([0.5, 0.1, 0.4, 0.3, 0.2]):
            manager.save(session, step, metrics={"loss": loss})
        assert (manager.steps, manager.latest_step, manager.best_step) == ((1, 3, 4), 4, 1)
        assert manager.restore(session, step=manager.best_step).step == 1
        assert manager.restore(session).step == 4


def test_A94_retention_survives_a_restart(tmp_path: Path, model: Counter) -> None:
    with hr.Session(model.graph) as session:
        for step in range(3):
            CheckpointManager(tmp_path, 2, keep_best=Best("loss")).save(session, step, metrics={"loss": step})
    assert CheckpointManager(tmp_path).steps == (0, 1, 2)


def test_the_manager_deletes_only_steps(tmp_path: Path, model: Counter) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "step-notes").mkdir()
    manager = CheckpointManager(tmp_path, 1)
    with hr.Session(model.graph) as session:
        for step in range(3):
            manager.save(session, step)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["notes.txt", "step-00000002", "step-notes"]


def test_an_earlier_step_than_the_newest_is_not_deleted_at_once(tmp_path: Path, model: Counter) -> None:
    manager = CheckpointManager(tmp_path, 1)
    with hr.Session(model.graph) as session:
        manager.save(session, 100)
        manager.save(session, 50)
    assert manager.steps == (50, 100)


def test_a_damaged_step_does_not_stop_the_manager(tmp_path: Path, model: Counter) -> None:
    manager = CheckpointManager(tmp_path, 2, keep_best="loss")
    with hr.Session(model.graph) as session:
        path = Path(manager.save(session, 1, metrics={"loss": 0.0}))
        (path / "MANIFEST.json").write_bytes(b"{}")
        for step in (2, 3, 4):
            manager.save(session, step, metrics={"loss": 1.0})
        assert manager.steps == (3, 4)
        assert manager.best_step == 4


def test_an_empty_manager(tmp_path: Path, model: Counter) -> None:
    manager = CheckpointManager(tmp_path / "absent", None, keep_best="loss")
    assert (manager.steps, manager.latest_step, manager.best_step) == ((), None, None)
    assert CheckpointManager(tmp_path).best_step is None
    with hr.Session(model.graph) as session, pytest.raises(NotFoundError, match="no checkpoint yet"):
        manager.restore(session)
    with pytest.raises(InvalidArgumentError, match="keep_latest >= 1"):
        CheckpointManager(tmp_path, 0)


def test_opening_a_directory_sweeps_what_the_dead_left(tmp_path: Path) -> None:
    left = tmp_path / ".tmp-step-00000001~elsewhere~1~abc"
    left.mkdir()
    later = time.time() + 10 * 24 * 3600
    CheckpointManager(tmp_path, clock=lambda: later)
    assert not left.exists()


def test_a_failed_save_leaves_training_and_earlier_steps(tmp_path: Path, model: Counter) -> None:
    class Broken(Disk):
        def sync(self, descriptor: int) -> None:
            raise OSError(5, os.strerror(5))

    with hr.Session(model.graph) as session:
        CheckpointManager(tmp_path).save(session, 1)
        with pytest.raises(OSError, match="Input/output error"):
            CheckpointManager(tmp_path, disk=Broken()).save(session, 2)
        session.run(model.train)
        assert CheckpointManager(tmp_path).restore(session).step == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000001"]


SAVE_FOR_EVER = """
import sys, time
import numpy as np
from headrace_checkpoint.store import write_step
step = int(sys.argv[2])
while True:
    write_step(sys.argv[1], step, {"w": np.random.default_rng(step).normal(size=20_000)}, time=time.time())
    print(step, flush=True)
    step += 1
"""


@pytest.mark.slow
def test_D26_kill_9_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    step = 0
    for _ in range(int(os.environ.get("HEADRACE_KILLS", "8"))):
        command = [sys.executable, "-c", SAVE_FOR_EVER, str(tmp_path), str(step)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            acknowledged = int(child.stdout.readline())
            time.sleep(rng.uniform(0, 0.02))  # no wait for anything: it chooses the moment of the kill
            child.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, child.stdout.read().split("\n")[:-1])])
        newest, arrays = read_newest_step(tmp_path, StoredStep.read_all)
        assert newest.manifest.step >= acknowledged
        np.testing.assert_array_equal(arrays["w"], np.random.default_rng(newest.manifest.step).normal(size=20_000))
        step = newest.manifest.step + 1
        CheckpointManager(tmp_path)
        assert len(list_steps(tmp_path)) == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_loop_without_trainer_saves_when_its_machine_is_taken_away(
    tmp_path: Path, model: Counter, asynchronous: bool
) -> None:
    def loop(until: int, preempted_at: int | None) -> int:
        with (
            hr.Session(model.graph) as session,
            CheckpointManager(tmp_path, asynchronous=asynchronous) as manager,
            hr.Interruption() as interruption,
        ):
            if manager.latest_step is not None:
                manager.restore(session)
            for step in range((manager.latest_step or 0) + 1, until + 1):
                session.run(model.train)
                if step == preempted_at:
                    signal.raise_signal(signal.SIGTERM)
                if interruption.requested:
                    manager.save(session, step)
                    break
            reached: int = session.run(model.step).item()
        interruption.pass_on("training")
        return reached

    with pytest.raises(SystemExit, match="143"):
        loop(10, 4)
    assert [name.step for name in list_steps(tmp_path)] == [4]
    assert loop(10, None) == 10


# Saving in the background.


class Gate(Disk):
    """A disk that waits, before it forces the first file, until it is opened."""

    def __init__(self, error: OSError | None = None) -> None:
        self.opened = threading.Event()
        self.reached = threading.Event()
        self._error = error

    def sync(self, descriptor: int) -> None:
        self.reached.set()
        assert self.opened.wait(30)
        if self._error is not None:
            raise self._error
        super().sync(descriptor)


def test_an_asynchronous_save_has_the_values_of_the_moment_of_the_call(tmp_path: Path, model: Counter) -> None:
    gate = Gate()
    with (
        hr.Session(model.graph) as session,
        CheckpointManager(tmp_path, asynchronous=True, disk=gate) as manager,
    ):
        session.run(model.train)
        before = session.read_variables()
        path = Path(manager.save(session, 1, objects=(objects := {"epoch": [1]})))
        assert gate.reached.wait(30)
        objects["epoch"].append(2)
        for _ in range(3):
            session.run(model.train)  # training goes on while the disk is slow
        assert manager.steps == ()
        gate.opened.set()
        manager.wait()
        assert (manager.steps, str(path)) == ((1,), str(tmp_path / "step-00000001"))
        assert any(not np.array_equal(value, before[name]) for name, value in session.read_variables().items())
        assert manager.restore(session).objects == {"epoch": [1]}
        for name, value in session.read_variables().items():
            np.testing.assert_array_equal(value, before[name])


def test_memory_that_is_reserved_is_where_variables_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Counter(rows=1000)
    given: list[Any] = []
    exchange = hr.SpareMemory.exchange

    def watched(self: hr.SpareMemory, left: Any, shape: Any) -> Any:
        known = [id(array) for arrays in self._kept.values() for array in arrays]
        given.append(id(taken := exchange(self, left, shape)) in known)
        return taken

    monkeypatch.setattr(hr.SpareMemory, "exchange", watched)
    with hr.Session(model.graph) as session, CheckpointManager(tmp_path, asynchronous=True, disk=(gate := Gate())) as m:
        m.reserve(session)
        m.wait()
        m.save(session, 1)
        session.run(model.train)
        gate.opened.set()
    assert given == [True, True]
    with CheckpointManager(tmp_path) as synchronous:
        synchronous.reserve(None)  # has nothing to do


def test_an_error_in_the_background_is_raised_by_the_next_call_once(tmp_path: Path, model: Counter) -> None:
    gate = Gate(OSError(28, os.strerror(28)))
    gate.opened.set()
    manager = CheckpointManager(tmp_path, asynchronous=True, disk=gate)
    with hr.Session(model.graph) as session:
        manager.save(session, 1)
        with pytest.raises(OSError, match="No space left"):
            manager.save(session, 2)
        manager.close()
        assert (manager.steps, list(tmp_path.iterdir())) == ((), [])
        session.run(model.train)


def test_waiting_for_a_save_has_a_deadline(tmp_path: Path, model: Counter) -> None:
    gate = Gate()
    manager = CheckpointManager(tmp_path, asynchronous=True, disk=gate)
    with hr.Session(model.graph) as session:
        manager.save(session, 1)
        with pytest.raises(hr.errors.DeadlineExceededError, match="saving to .* is still going on"):
            manager.wait(timeout=0.01)
        gate.opened.set()
        manager.wait()
    assert manager.steps == (1,)


def test_objects_that_are_not_json_are_refused_at_the_call(tmp_path: Path, model: Counter) -> None:
    manager = CheckpointManager(tmp_path, asynchronous=True)
    with hr.Session(model.graph) as session, pytest.raises(InvalidArgumentError, match="must be JSON"):
        manager.save(session, 1, objects={"array": np.zeros(2)})
    assert manager.steps == ()


def test_a_step_that_is_a_link_or_none_at_all_does_not_stop_the_manager(tmp_path: Path, model: Counter) -> None:
    """Deleting them failed, with each save from then on."""
    root = tmp_path / "ckpt"
    with hr.Session(model.graph) as session:
        manager = CheckpointManager(root, 1)
        moved = Path(manager.save(session, 1)).rename(tmp_path / "moved")
        (root / "step-00000001").symlink_to(moved)
        (root / "step-00000002").symlink_to(tmp_path / "nowhere")
        (root / "step-00000003").write_text("a file")
        assert manager.steps == (1,)
        assert manager.restore(session).step == 1
        manager.save(session, 4)
    assert manager.steps == (4,)
    assert sorted(path.name for path in root.iterdir()) == ["step-00000002", "step-00000003", "step-00000004"]
    assert StoredStep(moved).manifest.step == 1


def test_steps_of_a_later_version_are_left_to_it(tmp_path: Path, model: Counter) -> None:
    """A save failed after it had written its step, since the others could not be chosen from."""
    with hr.Session(model.graph) as session:
        manager = CheckpointManager(tmp_path, 1, keep_best="loss")
        path = Path(manager.save(session, 1, metrics={"loss": 0.0})) / "MANIFEST.json"
        body = path.read_bytes().rpartition(b"\ncrc32c ")[0].replace(b'"min_reader": 1', b'"min_reader": 99')
        path.write_bytes(body + f"\ncrc32c {crc32c(body):08x}\n".encode())
        for step in (2, 3, 4):
            manager.save(session, step, metrics={"loss": 1.0 + step})
    assert (manager.steps, manager.best_step) == ((1, 2, 4), 2)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_wrong_with_a_save_is_said_by_its_own_call(tmp_path: Path, model: Counter, asynchronous: bool) -> None:
    wrong: list[dict[str, Any]] = [
        {"step": -1},
        {"step": 1.5},
        {"step": 1, "metrics": {"loss": "low"}},
        {"step": 1, "objects": {"text": "\ud800"}},
        {"step": 1, "objects": {"counts": {1: 2}}},
    ]
    with hr.Session(model.graph) as session, CheckpointManager(tmp_path, asynchronous=asynchronous) as manager:
        for arguments in wrong:
            with pytest.raises(InvalidArgumentError):
                manager.save(session, **arguments)
        assert manager.steps == ()
        manager.save(session, session.run(model.step))
    assert manager.steps == (0,)


@pytest.mark.parametrize("template", [r"\2", r"\g<other>", "\\"])
def test_a_name_map_that_refers_to_no_group(tmp_path: Path, model: Counter, template: str) -> None:
    saver = Saver()
    with hr.Session(model.graph) as session:
        saver.save(session, tmp_path, step=1)
        with pytest.raises(InvalidArgumentError, match="refers to a group that its pattern does not have"):
            saver.restore(session, tmp_path, names={re.compile("layer/(.*)"): template})
