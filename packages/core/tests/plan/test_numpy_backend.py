"""The reference backend: fetched values, buffers, errors, concurrency."""

from __future__ import annotations

import threading
import tracemalloc
import types

import numpy as np
import pytest

import headrace as hr
from headrace.interfaces import Backend
from headrace.plan.numpy_backend import NumpyBackend
from headrace.plan.plan import backends, find_backend


def _session(build, shape=(4,), **config) -> tuple[hr.Session, hr.Tensor, object]:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, shape, name="x")
        fetches = build(x)
    return hr.Session(graph, config=hr.config(**config)), x, fetches


def test_it_is_a_backend() -> None:
    assert isinstance(NumpyBackend(), Backend)
    assert "numpy" in backends()
    assert find_backend("numpy").devices() == ["CPU:0"]


def test_a_backend_that_is_not_installed_is_named_with_its_package() -> None:
    with pytest.raises(hr.errors.NotFoundError, match="'gpu' is not installed(.|\n)*pip install headrace-kernels-gpu"):
        find_backend("gpu")
    with pytest.raises(hr.errors.NotFoundError, match="backend '5' is not installed"):
        find_backend(5)


def test_fetched_values_alias_nothing() -> None:
    """A32: whatever the caller does with them, nothing else changes."""

    def build(x):
        w = hr.Variable(np.ones(4, np.float32), name="w")
        y = x * 2.0
        return [
            x,
            y,
            y,
            hr.reshape(y, [2, 2]),
            hr.identity(y),
            hr.constant([1.0, 2.0, 3.0, 4.0], name="c"),
            w,
            w.read(),
            y + 1.0,
        ]

    session, x, fetches = _session(build)
    value = np.arange(4, dtype=np.float32)
    first = session.run(fetches, feeds={x: value})
    for i, a in enumerate(first):
        for b in first[i + 1 :]:
            assert not np.shares_memory(a, b)
        assert not np.shares_memory(a, value)
        assert a.flags.writeable
        a[...] = -7.0
    second = session.run(fetches, feeds={x: value})
    np.testing.assert_array_equal(second[0], value)
    np.testing.assert_array_equal(second[3], (value * 2).reshape(2, 2))
    np.testing.assert_array_equal(second[5], [1, 2, 3, 4])
    np.testing.assert_array_equal(second[6], np.ones(4))


def test_feeds_are_never_written_to() -> None:
    session, x, y = _session(lambda x: hr.sum((x + 1.0) * 2.0))
    value = np.arange(4, dtype=np.float32)
    value.flags.writeable = False
    assert session.run(y, feeds={x: value}) == 20.0
    assert value.tolist() == [0, 1, 2, 3]


def test_steady_state_allocates_only_what_is_fetched() -> None:
    def build(x):
        for _ in range(50):
            x = hr.tanh(x * 1.5) + 0.5
        return hr.sum(x)

    session, x, y = _session(build, shape=(10_000,))
    step = session.make_callable(y, [x])
    value = np.ones(10_000, np.float32)
    step(value)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(5):
            step(value)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 10_000  # one intermediate value alone has 40,000 bytes


def test_garbage_in_the_arena_does_not_reach_results() -> None:
    session, x, y = _session(lambda x: hr.matmul(hr.reshape(x, [2, 0]), hr.zeros([0, 3])) + hr.sum(x), shape=(0,))
    assert session.run(y, feeds={x: np.zeros(0, np.float32)}).tolist() == [[0] * 3] * 2


def test_an_error_names_the_operation_and_the_line_that_created_it() -> None:
    """D22."""

    def build(x):
        index = hr.astype(x, hr.int32)
        return hr.gather(hr.constant([1.0, 2.0]), index, name="look_up")

    session, x, y = _session(build, shape=(1,))
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"'look_up' created at test_numpy_backend.py"):
        session.run(y, feeds={x: [5.0]})
    assert session.run(y, feeds={x: [1.0]}) == [2.0]


def test_a_foreign_exception_of_a_users_kernel_is_kept_and_explained() -> None:
    @hr.register_op("TestRaises", inputs=dict(x="T"), outputs=dict(y="T"))
    def raises(op):
        """Raises when it runs."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestRaises")
    def kernel(op, x):
        raise ZeroDivisionError("mine")

    session, x, y = _session(lambda x: hr.apply_op("TestRaises", x, name="faulty"))
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        session.run(y, feeds={x: np.zeros(4)})
    assert any("computing TestRaises 'faulty' created at" in note for note in caught.value.__notes__)


def test_handles_cannot_be_fetched() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(1.0, name="w")
    with pytest.raises(hr.errors.FeedError, match="'w:0' cannot be fetched(.|\n)*read"):
        hr.Session(graph).run(w.handle)


def test_steps_at_the_same_time_do_not_share_buffers() -> None:
    """A42."""
    session, x, y = _session(lambda x: hr.sum(hr.exp(x * 2.0) - hr.exp(x * 2.0) + x), shape=(1000,))
    step = session.make_callable(y, [x])
    failures: list[float] = []

    def work(number: int) -> None:
        value = np.full(1000, number, np.float32)
        for _ in range(200):
            result = step(value)
            if result != 1000.0 * number:
                failures.append(float(result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_operations_without_a_kernel_are_refused_when_the_plan_is_made() -> None:
    @hr.register_op("TestNoKernel", inputs=dict(x="T"), outputs=dict(y="T"))
    def no_kernel(op):
        """No kernel."""
        return [op.inputs[0].shape]

    session, x, y = _session(lambda x: hr.apply_op("TestNoKernel", x, name="lonely"))
    with pytest.raises(hr.errors.NotFoundError, match="TestNoKernel has no kernel here(.|\n)*'lonely' created at"):
        session.run(y, feeds={x: np.zeros(4)})


def test_kernels_are_chosen_by_dtype_and_registering_twice_is_an_error() -> None:
    """A07."""

    @hr.register_op("TestByType", inputs=dict(x="T"), outputs=dict(y="T"))
    def by_type(op):
        """x, times two for int32."""
        return [op.inputs[0].shape]

    hr.register_kernel("TestByType")(lambda op, x: x + 0)
    hr.register_kernel("TestByType", dtypes={"T": [hr.int32]})(lambda op, x: x * 2)
    with pytest.raises(hr.errors.AlreadyExistsError, match="registered already"):
        hr.register_kernel("TestByType")(lambda op, x: x)
    with hr.Graph().as_default() as graph:
        results = hr.Session(graph).run([hr.apply_op("TestByType", v) for v in (hr.constant(3), hr.constant(3.0))])
    assert results == [6, 3.0]


@hr.register_op("TestFaulty", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(how=hr.attr.string()))
def _faulty_shape(op):
    """x, if its kernel did what its shape function says."""
    return [op.inputs[0].shape]


@hr.register_kernel("TestFaulty")
def _faulty(op, x):
    results = {
        "itself": x, "view": x[::-1], "dtype": x.astype(np.float64), "number": 1.0, "nothing": None, "shape": x[:1] + 0,
    }  # fmt: skip
    return results[op.attr("how")]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("itself", r"wrong memory(.|\n)*memory of input 0(.|\n)*aliases="),
        ("view", r"wrong memory(.|\n)*memory of input 0(.|\n)*aliases="),
        ("dtype", r"wrong dtype(.|\n)*float32\[4\](.|\n)*float64"),
        ("number", r"wrong dtype(.|\n)*float32\[4\](.|\n)*got:      float"),
        ("nothing", "wrong dtype(.|\n)*NoneType\n"),
        ("shape", r"wrong shape(.|\n)*float32\[4\](.|\n)*got:      \[1\](.|\n)*set_shape"),
    ],
)
def test_what_a_faulty_kernel_gives_is_refused_in_the_first_step(how: str, message: str) -> None:
    """An undeclared view of the arena would change under the eyes of who reads it; nothing would say so."""
    session, x, y = _session(lambda x: hr.apply_op("TestFaulty", x * 2.0, how=how, name="guilty") + hr.exp(x))
    with pytest.raises(
        hr.errors.InvalidArgumentError, match=f"the kernel of TestFaulty gave an output with the {message}"
    ) as caught:
        session.run(y, feeds={x: np.ones(4)})
    assert "'guilty' created at test_numpy_backend.py" in str(caught.value)


@pytest.mark.parametrize("how", ["dtype", "number", "nothing", "shape"])
def test_a_faulty_kernel_on_constants_is_refused_too_and_not_folded_away(how: str) -> None:
    session, x, y = _session(lambda x: hr.apply_op("TestFaulty", hr.constant([1.0, 2.0]), how=how) + hr.sum(x))
    with pytest.raises(hr.errors.InvalidArgumentError, match="the kernel of TestFaulty gave an output with the wrong"):
        session.run(y, feeds={x: np.ones(4)})


def test_a_kernel_with_the_wrong_number_of_outputs_is_refused() -> None:
    @hr.register_op("TestTwo", inputs=dict(x="T"), outputs=dict(y="T", z="T"))
    def two(op):
        """x, twice."""
        return [op.inputs[0].shape] * 2

    hr.register_kernel("TestTwo")(lambda op, x: (x + 0, x + 0, x + 0))
    session, x, y = _session(lambda x: hr.apply_op("TestTwo", x))
    with pytest.raises(hr.errors.InvalidArgumentError, match="wrong number of outputs(.|\n)*2(.|\n)*3"):
        session.run(y, feeds={x: np.ones(4)})


def test_a_false_static_shape_is_found_in_the_first_step() -> None:
    def build(x):
        kept = hr.apply_op("TestFaulty", x, how="shape")
        return hr.exp(kept) * 2.0

    session, x, y = _session(build)
    with pytest.raises(hr.errors.InvalidArgumentError, match="wrong shape"):
        session.run(y, feeds={x: np.ones(4)})


def test_a_backend_of_another_interface_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(NumpyBackend):
        name = "old"
        interface_version = 0

    entry = types.SimpleNamespace(name="old", load=lambda: Old)
    monkeypatch.setattr("headrace.plan.plan.metadata.entry_points", lambda group: [entry])
    monkeypatch.setattr("headrace.plan.plan._loaded", {})
    with pytest.raises(
        hr.errors.UnavailableError, match="backend 'old' does not fit(.|\n)*interface version 3(.|\n)*upgrade"
    ):
        find_backend("auto")
    Old.interface_version = NumpyBackend.interface_version
    assert sorted(backends()) == ["numpy", "old"]


def test_running_out_of_memory_names_the_operation_and_leaves_the_session_usable() -> None:
    with hr.Graph().as_default() as graph:
        size = hr.placeholder(hr.int64, [])
        huge = hr.zeros([size, 1024], name="huge")
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ResourceExhaustedError, match="not enough memory(.|\n)*'huge' created at"):
        session.run(huge, feeds={size: 2**36})
    assert session.run(huge, feeds={size: 2}).shape == (2, 1024)


def test_an_arena_that_does_not_fit_into_memory_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        total = hr.sum(hr.exp(hr.broadcast_to(x, [2**36, 1024])))
    with pytest.raises(hr.errors.ResourceExhaustedError, match="not enough memory(.|\n)*the values of one step"):
        hr.Session(graph).run(total, feeds={x: 1.0})
