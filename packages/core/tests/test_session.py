"""Sessions: feeds, fetches, variables, deadlines, traces, concurrency."""

from __future__ import annotations

import collections
import contextlib
import gc
import signal
import sys
import threading
import tracemalloc
import types
import weakref

import numpy as np
import pytest

import headrace as hr
from headrace.testing.threads import Call


def _linear() -> tuple[hr.Graph, hr.Tensor, hr.Variable, hr.Tensor]:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        w = hr.Variable(np.ones(2, np.float32), name="w")
        y = hr.multiply(x, w, name="y")
    return graph, x, w, y


Pair = collections.namedtuple("Pair", "left right")


def test_any_structure_of_fetches_comes_back_in_the_same_structure() -> None:
    graph, _, w, y = _linear()
    session = hr.Session(graph)
    result = session.run({"a": [y, (w, "y:0")], "b": Pair(w.initializer, None), "c": "y"}, feeds={"x:0": [[1, 2]]})
    np.testing.assert_array_equal(result["a"][0], [[1, 2]])
    assert isinstance(result["a"][1], tuple)
    assert result["b"] == Pair(None, None)
    assert result["c"] is None


def test_session_run_returns_arrays_for_scalars_too() -> None:
    with hr.Graph().as_default() as graph:
        y = hr.constant(2.0) + 1.0
    value = hr.Session(graph).run(y)
    assert isinstance(value, np.ndarray)
    assert f"{value:.1f}" == "3.0"


@pytest.mark.parametrize("shape", [(1, 2), (7, 2), (0, 2)])
def test_A25_one_definition_serves_every_batch_size(shape: tuple[int, ...]) -> None:
    graph, x, _, y = _linear()
    assert hr.Session(graph).run(y, feeds={x: np.ones(shape)}).shape == shape


@pytest.mark.parametrize(
    "dtype",
    [hr.bool, hr.int8, hr.int16, hr.int32, hr.int64, hr.uint8, hr.uint16, hr.uint32, hr.uint64, hr.float16, hr.bfloat16,
     hr.float32, hr.float64, hr.complex64, hr.complex128],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_A20_every_dtype_round_trips_bit_for_bit(dtype: hr.DType, shape: tuple[int, ...]) -> None:
    """Feed, Identity, fetch; also 0-D, 0-length and non-contiguous."""
    rng = np.random.default_rng(0)
    value = rng.integers(0, 2, (*shape, 2)).astype(dtype.array_type)[..., 0]
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(dtype, shape)
        y = hr.identity(x)
    result = hr.Session(graph).run(y, feeds={x: value})
    assert result.dtype == dtype.array_type
    assert result.shape == shape
    assert result.tobytes() == np.ascontiguousarray(value).tobytes()


def test_A21_strings_of_any_bytes_round_trip() -> None:
    value = np.array([b"", b"\x00\xff", b"x" * 1_000_000, b"\xff\xfe"], object)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.string, [None])
        y = hr.identity(x)
    session = hr.Session(graph)
    assert session.run(y, feeds={x: value}).tolist() == value.tolist()
    assert session.run(y, feeds={x: ["ü", b"b"]}).tolist() == ["ü".encode(), b"b"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[1, 2]], [[1.0, 2.0]]),
        (np.array([[1.0, 2.0]]), [[1.0, 2.0]]),
        (np.array([[1, 2]], ">f4"), [[1.0, 2.0]]),
        (np.array([[1, 2]], np.float16), [[1.0, 2.0]]),
    ],
)
def test_feeds_of_other_float_types_and_python_values_are_converted(value, expected) -> None:
    graph, x, _, y = _linear()
    np.testing.assert_array_equal(hr.Session(graph).run(y, feeds={x: value}), expected)


def test_integers_are_converted_where_they_fit() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.int32, [None], name="labels")
        y = hr.identity(x)
    session = hr.Session(graph)
    assert session.run(y, feeds={x: np.array([1, 2])}).dtype == np.int32
    assert session.run(y, feeds={x: np.array([], np.int64)}).shape == (0,)
    with pytest.raises(hr.errors.FeedError, match=r"'labels' does not fit(.|\n)*int32\[\?\](.|\n)*int64\[1\]"):
        session.run(y, feeds={x: np.array([2**31])})


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (lambda g, x, w, y: {x: np.ones((2, 3))}, r"'x' does not fit(.|\n)*float32\[\?, 2\](.|\n)*float32\[2, 3\]"),
        (lambda g, x, w, y: {x: np.ones((2, 2), np.int64)}, r"'x' does not fit(.|\n)*int64\[2, 2\](.|\n)*astype"),
        (lambda g, x, w, y: {x: np.ones((2, 2), np.complex64)}, "'x' does not fit"),
        (lambda g, x, w, y: {x: "text"}, "'x' does not fit"),
        (lambda g, x, w, y: {x: y}, "'x' does not fit(.|\n)*symbolic"),
        (lambda g, x, w, y: {}, "placeholder 'x' needs a value"),
        (lambda g, x, w, y: {w.handle: 1, x: [[1, 2]]}, "'w:0' cannot be fed"),
        (lambda g, x, w, y: {3: 1}, "this cannot be fed"),
        (lambda g, x, w, y: {w.initializer: 1}, "this cannot be fed"),
        (lambda g, x, w, y: [(x, 1)], "feeds are not a mapping"),
        (lambda g, x, w, y: {x: [[1, 2]], "x:0": [[3, 4]]}, "'x:0' is fed twice"),
        (lambda g, x, w, y: {_linear()[1]: [[1, 2]]}, "belongs to another graph"),
    ],
)
def test_D20_bad_feeds_are_refused_before_anything_runs(feeds, message: str) -> None:
    graph, x, w, y = _linear()
    with graph.as_default():
        change = w.assign_add([1.0, 1.0])
    session = hr.Session(graph)
    with pytest.raises(hr.errors.FeedError, match=message):
        session.run([y, change], feeds=feeds(graph, x, w, y))
    np.testing.assert_array_equal(session.run(w), [1, 1])


@pytest.mark.parametrize(
    ("fetch", "error", "message"),
    [
        (3, "InvalidArgumentError", "this cannot be fetched"),
        ("nope:0", "NotFoundError", "no operation 'nope'"),
        (_linear()[3], "GraphError", "belongs to another graph"),
    ],
)
def test_bad_fetches_are_refused(fetch, error: str, message: str) -> None:
    with pytest.raises(getattr(hr.errors, error), match=message):
        hr.Session(_linear()[0]).run(fetch)


def test_make_callable_takes_one_value_per_feed() -> None:
    graph, x, w, y = _linear()
    session = hr.Session(graph)
    step = session.make_callable({"y": y, "w": w}, [x])
    np.testing.assert_array_equal(step([[3, 4]])["y"], [[3, 4]])
    with pytest.raises(hr.errors.FeedError, match="number of values differs(.|\n)*1: x:0(.|\n)*2"):
        step(1, 2)
    session.close()
    with pytest.raises(hr.errors.FailedPreconditionError, match="session is closed"):
        step([[3, 4]])
    with pytest.raises(hr.errors.FailedPreconditionError, match="session is closed"):
        session.run(y)


def test_A27_operations_of_no_input_no_output_and_many_outputs_run() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(3, hr.float32, shapes=[[]])
        one = hr.constant(1.0, name="one")
        nothing, put, taken = hr.group([], name="nothing"), queue.enqueue(one), queue.dequeue()
        left, right = hr.split(hr.constant([1.0, 2.0, 3.0, 4.0]), 2)
        first, second, third = hr.unstack(hr.constant([5, 6, 7]))
    operations = (one.op, nothing, put, left.op, first.op)
    assert [(len(op.inputs) > 0, len(op.outputs)) for op in operations] == [
        (False, 1),
        (False, 0),
        (True, 0),
        (True, 2),
        (True, 3),
    ]
    with hr.Session(graph) as session:
        assert session.run([nothing, put]) == [None, None]
        assert session.run(taken) == 1.0
        assert [part.tolist() for part in session.run([left, right])] == [[1, 2], [3, 4]]
        assert session.run([third, second, first]) == [7, 6, 5]


def test_A31_two_sessions_have_two_values_of_a_variable() -> None:
    graph, _, w, _ = _linear()
    with graph.as_default():
        change = w.assign_add([1.0, 2.0])
    first, second = hr.Session(graph), hr.Session(graph)
    first.run(change)
    np.testing.assert_array_equal(first.run(w), [2, 3])
    np.testing.assert_array_equal(second.run(w), [1, 1])


def test_D18_variables_initialise_on_first_use_in_the_order_of_their_dependencies() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(hr.random.normal([3], seed=1), name="a")
        b = hr.Variable(a.read() * 2.0, name="b")
        c = hr.Variable(lambda: b.read() + a.read(), name="c")
    session = hr.Session(graph)
    c_value = session.run(c)
    a_value, b_value = session.run([a, b])
    np.testing.assert_array_equal(b_value, a_value * 2)
    np.testing.assert_array_equal(c_value, b_value + a_value)


def test_initial_values_that_wait_for_each_other_are_an_error() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(1.0, name="a")
        b = hr.Variable(a.read(), name="b")
        a.initializer = hr.apply_op("AssignVariableOp", a.handle, b.read(), dtype=hr.float32)
    with pytest.raises(hr.errors.GraphError, match="in a circle(.|\n)*a -> b -> a|in a circle(.|\n)*b -> a -> b"):
        hr.Session(graph).run(b)


def test_all_variables_without_a_value_are_named_at_once() -> None:
    with hr.Graph().as_default() as graph:
        a, b = hr.Variable(1.0, name="a"), hr.Variable(2.0, name="b")
        total = a + b
        a.initializer = b.initializer = None
    session = hr.Session(graph)
    with pytest.raises(
        hr.errors.FailedPreconditionError, match="variables without a value: 'a', 'b'(.|\n)*write_variables"
    ):
        session.run(total)
    session.write_variables({"a": np.float32(1) * np.ones((), np.float32), "b": np.full((), 5, np.float32)})
    assert session.run(total) == 6.0


def test_variables_are_read_as_copies_and_written_all_or_none() -> None:
    graph, _, w, _ = _linear()
    with graph.as_default():
        hr.Variable(7, name="step", trainable=False)
    session = hr.Session(graph)
    values = session.read_variables()
    assert sorted(values) == ["step", "w"]
    values["w"][:] = 99
    np.testing.assert_array_equal(session.run(w), [1, 1])
    session.write_variables({"w": np.array([5, 6], np.float32)})
    np.testing.assert_array_equal(session.read_variables(["w"])["w"], [5, 6])
    for wrong, error, message in (
        (
            {"w": np.zeros(2, np.float32), "step": np.zeros(3, np.int32)},
            hr.errors.ShapeError,
            "'step' cannot take the value",
        ),
        (
            {"w": np.zeros(2, np.float32), "step": np.zeros((), np.int64)},
            hr.errors.DTypeError,
            "'step' cannot take the value",
        ),
        (
            {"w": np.zeros(2, np.float32), "stepp": np.zeros(())},
            hr.errors.NotFoundError,
            "no variable 'stepp'(.|\n)*step",
        ),
    ):
        with pytest.raises(error, match=message):
            session.write_variables(wrong)
    np.testing.assert_array_equal(session.run(w), [5, 6])
    with pytest.raises(hr.errors.NotFoundError, match="no variable 'x'"):
        session.read_variables(["x"])


def test_a_step_past_its_deadline_ends_before_the_next_operation() -> None:
    @hr.register_op("TestWait", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
    def wait_shape(op):
        """x, when the event of the test is set."""
        return [op.inputs[0].shape]

    release = threading.Event()

    @hr.register_kernel("TestWait")
    def wait(op, x):
        release.wait(10)
        return x + 0

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        y = hr.exp(hr.apply_op("TestWait", x), name="late")
    session = hr.Session(graph)
    timer = threading.Timer(0.1, release.set)
    timer.start()
    with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time(.|\n)*before Exp 'late'"):
        session.run(y, feeds={x: 1.0}, timeout=0.01)
    assert session.run(y, feeds={x: 0.0}, timeout=10.0) == 1.0
    release.clear()
    pending = session.run_async(y, feeds={x: 1.0})
    assert not pending.is_done
    with pytest.raises(hr.errors.DeadlineExceededError, match="still running"):
        pending.result(timeout=0.01)
    pending.cancel()
    release.set()
    with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
        pending.result(timeout=10)
    assert session.run_async(y, feeds={x: 0.0}).result(timeout=10) == 1.0


def test_timeout_of_the_configuration_holds_for_every_step() -> None:
    graph, x, _, y = _linear()
    session = hr.Session(graph, config=hr.config(timeout=1e-9))
    with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
        session.run(y, feeds={x: [[1, 2]]})


def test_trace_records_every_operation_in_order() -> None:
    graph, x, _, y = _linear()
    trace = hr.Trace()
    hr.Session(graph).run(y, feeds={x: [[1, 2]]}, trace=trace)
    assert [record.type for record in trace.records] == ["ReadVariableOp", "Mul"]
    assert all(record.end_ns >= record.start_ns for record in trace.records)
    assert "Mul" in trace.summary()


def test_targets_of_missing_packages_name_them() -> None:
    with pytest.raises(hr.errors.NotFoundError, match=r"grpc://a:1(.|\n)*pip install headrace-distributed"):
        hr.Session(hr.Graph(), "grpc://a:1")
    with pytest.raises(hr.errors.InvalidArgumentError, match="a session runs a graph"):
        hr.Session("grpc://a:1")


def test_A33_A42_eight_threads_step_overlapping_subgraphs() -> None:
    """8 threads x 1,000 atomic additions end at exactly 8,000."""
    with hr.Graph().as_default() as graph:
        count = hr.Variable(0, name="count")
        x = hr.placeholder(hr.float32, [])
        add = count.assign_add(1)
        y = x * 2.0
    session = hr.Session(graph)
    wrong: list[float] = []

    def work(number: int) -> None:
        step = session.make_callable([y, add], [x])
        for _ in range(1000):
            value, _ = step(float(number))
            if value != 2.0 * number:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert session.run(count) == 8000


def test_D19_threads_that_never_saw_the_graph_predict_at_once() -> None:
    """Sixteen threads without a default graph of their own, and some with another one."""
    graph, x, _, y = _linear()
    session = hr.Session(graph)
    start = threading.Barrier(16, timeout=30)

    def predict(number: int) -> list[list[float]]:
        start.wait()
        with hr.Graph().as_default() if number % 2 else contextlib.nullcontext():
            return [session.run(y, feeds={x: [[float(number), 2.0]]}).tolist() for _ in range(50)]

    calls = [Call(lambda number=number: predict(number)) for number in range(16)]
    expected = [session.run(y, feeds={x: [[float(number), 2.0]]}).tolist() for number in range(16)]
    assert [call.result() for call in calls] == [[value] * 50 for value in expected]


def test_a_read_sees_a_whole_value_old_or_new() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.zeros(5000, np.float32), name="w")
        change = w.assign_add(np.ones(5000, np.float32))
    session = hr.Session(graph)
    stop = threading.Event()
    torn: list[np.ndarray] = []

    def read() -> None:
        step = session.make_callable(w)
        while not stop.is_set():
            value = step()
            if value.min() != value.max():
                torn.append(value)

    reader = threading.Thread(target=read)
    session.run(w)
    reader.start()
    for _ in range(500):
        session.run(change)
    stop.set()
    reader.join()
    assert not torn


def test_a_thousand_steps_leave_graph_and_plans_as_they_are() -> None:
    """D01, the quick form."""
    graph, x, w, y = _linear()
    with graph.as_default():
        change = w.assign_add([0.5, 0.5])
    session = hr.Session(graph)
    session.run([y, change], feeds={x: [[1, 2]]})
    before = graph.version, len(session._definitions)
    for _ in range(1000):
        session.run([y, change], feeds={x: [[1, 2]]})
    assert (graph.version, len(session._definitions)) == before


def test_random_streams_are_read_and_written_like_variables() -> None:
    graph = hr.Graph(seed=3)
    with graph.as_default():
        numbers = hr.random.uniform([4], name="numbers")
    with hr.Session(graph) as session:
        assert session.read_streams() == {}
        session.run(numbers)
        streams = session.read_streams()
        expected = session.run(numbers)
    assert list(streams) == [numbers.op.name]
    with hr.Session(graph) as session:
        session.write_streams({name: list(stream) for name, stream in streams.items()})
        assert session.run(numbers).tobytes() == expected.tobytes()
        session.write_streams(streams)
        assert session.run(numbers).tobytes() == expected.tobytes()
        with pytest.raises(hr.errors.NotFoundError, match="no operation 'another'"):
            session.write_streams({**streams, "another": (0, 0)})
        with pytest.raises(hr.errors.InvalidArgumentError, match="has no attr 'seed'"):
            session.write_streams({**streams, numbers.op.inputs[0].op.name: (0, 0)})


@pytest.mark.parametrize("timeout", ["1", -1.0, float("nan"), object()])
def test_a_time_limit_that_is_none_is_refused(timeout: object) -> None:
    graph, x, _, y = _linear()
    with pytest.raises(hr.errors.InvalidArgumentError, match="the time limit is wrong(.|\n)*at least 0"):
        hr.Session(graph).run(y, feeds={x: [[1, 2]]}, timeout=timeout)


def test_variables_are_written_from_python_values_that_they_can_hold() -> None:
    with hr.Graph().as_default() as graph:
        hr.Variable([1.0, 2.0], name="w")
        hr.Variable(["a"], name="s")
    session = hr.Session(graph)
    session.write_variables({"w": [3, 4], "s": ["b"]})
    values = session.read_variables()
    assert (values["w"].tolist(), values["s"].tolist()) == ([3.0, 4.0], [b"b"])
    for wrong in ({"w": [5, 6], "s": np.array([None])}, {"s": ["c"], "w": "text"}, {"s": ["c"], "w": [[1], [2, 3]]}):
        with pytest.raises(hr.errors.HeadraceError, match="variable '[ws]'"):
            session.write_variables(wrong)
    assert session.read_variables()["s"].tolist() == [b"b"]


def test_variables_may_hold_given_arrays_themselves_if_nobody_can_write_to_them() -> None:
    with hr.Graph().as_default() as graph:
        w, b = hr.Variable([1.0, 2.0], name="w"), hr.Variable([3.0], name="b")
        grown, product = w.assign_add([1.0, 1.0]), w * b
    mapped, writable = np.array([5, 6], np.float32), np.array([7], np.float32)
    mapped.flags.writeable = False
    session = hr.Session(graph)
    with pytest.raises(hr.errors.InvalidArgumentError, match="'b' cannot hold the array itself(.|\\n)*writable"):
        session.write_variables({"w": mapped, "b": writable}, copy=False)
    assert session.read_variables()["w"].tolist() == [1.0, 2.0]
    session.write_variables({"w": mapped}, copy=False)
    assert np.shares_memory(session.read_variables(copy=False)["w"], mapped)
    assert session.run(product).tolist() == [15.0, 18.0]
    session.run(grown)
    assert (session.read_variables()["w"].tolist(), mapped.tolist()) == ([6.0, 7.0], [5.0, 6.0])


def test_a_long_chain_of_initial_values_needs_no_recursion() -> None:
    with hr.Graph().as_default() as graph:
        last = hr.Variable(0.0)
        for _ in range(sys.getrecursionlimit() // 2):
            last = hr.Variable(last.read() + 1.0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        assert hr.Session(graph).run(last) == limit // 2
    finally:
        sys.setrecursionlimit(limit)


_started, _go_on = threading.Event(), threading.Event()


@hr.register_op("TestPause", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
def _pause_shape(op):
    """x, when the test says so."""
    return [op.inputs[0].shape]


@hr.register_kernel("TestPause")
def _pause(op, x):
    _started.set()
    assert _go_on.wait(10)
    return x + 0


def test_closing_lets_running_steps_end_and_refuses_new_ones() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(2.0)
        x = hr.placeholder(hr.float32, [])
        y = hr.apply_op("TestPause", x) * w
    session = hr.Session(graph)
    _started.clear()
    _go_on.clear()
    pending = session.run_async(y, feeds={x: 3.0})
    assert _started.wait(10)
    session.close()
    _go_on.set()
    assert pending.result(timeout=10) == 6.0
    for call in (lambda: session.run(y, feeds={x: 1.0}), lambda: session.run_async(y), session.read_variables):
        with pytest.raises(hr.errors.FailedPreconditionError, match="session is closed"):
            call()
    session.close()


@pytest.fixture
def ctrl_c():
    """Ctrl-C as on a terminal; a shell starts what it runs in the background deaf to it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_step_leaves_variables_whole_and_the_session_usable() -> None:
    @hr.register_op("TestInterrupt", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
    def interrupt_shape(op):
        """x; the first time Ctrl-C is pressed meanwhile."""
        return [op.inputs[0].shape]

    presses = [signal.SIGINT]

    @hr.register_kernel("TestInterrupt")
    def interrupt(op, x):
        if presses:
            signal.raise_signal(presses.pop())
        return x + 0

    with hr.Graph().as_default() as graph:
        w = hr.Variable([1.0, 2.0], name="w")
        x = hr.placeholder(hr.float32, [2])
        first = w.assign_add(x)
        with hr.control_dependencies([first]):
            y = hr.apply_op("TestInterrupt", hr.exp(x) * 0.0 + x)
            second = w.assign_add(y)
    session = hr.Session(graph)
    step = session.make_callable([y, second], [x])
    with pytest.raises(KeyboardInterrupt, match="^$"):
        step([1.0, 1.0])
    assert session.run(w).tolist() == [2.0, 3.0]
    assert step([1.0, 1.0])[0].tolist() == [1.0, 1.0]
    assert session.run(w).tolist() == [4.0, 5.0]


def test_an_error_that_is_kept_keeps_no_value_of_its_step() -> None:
    made: list[weakref.ref[np.ndarray]] = []

    @hr.register_op("TestRemembered", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
    def shape(op):
        """x; the test knows the array."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestRemembered")
    def remembered(op, x):
        y = x + 1
        made.append(weakref.ref(y))
        return y

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [3])
        y = hr.apply_op("TestRemembered", x)
        with hr.control_dependencies([hr.check_numerics(x * 0.0, "bad"), y]):
            z = hr.identity(y)
    with pytest.raises(hr.errors.InvalidArgumentError, match="bad") as caught:
        hr.Session(graph).run(z, feeds={x: [1.0, np.inf, 2.0]})
    assert caught.value.__traceback__ is not None
    assert [each() for each in made] in ([], [None])


def test_a_step_that_fails_gives_its_arena_back() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [1000])
        y = hr.check_numerics(hr.exp(x * 2.0), "not finite") + 1.0
    session = hr.Session(graph)
    step = session.make_callable(y, [x])
    bad, good = np.full(1000, 1e5), np.zeros(1000)
    step(good)
    (plan,) = next(iter(session._definitions.values()))._plans.values()
    for _ in range(50):
        with pytest.raises(hr.errors.InvalidArgumentError, match="not finite"):
            step(bad)
    assert len(plan.compiled._arenas) == 1
    np.testing.assert_array_equal(step(good), np.full(1000, 2.0))


def test_a_storm_of_steps_in_the_background_each_gets_its_own_feeds() -> None:
    """Also where the caller fills the next batch into the array that is being read."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [100])
        y = hr.sum(hr.apply_op("TestPause", x) * 2.0)
    session = hr.Session(graph)
    _go_on.clear()
    batch = np.zeros(100, np.float32)
    pending = []
    for number in range(40):
        batch[:] = number
        pending.append(session.run_async(y, feeds={x: batch}))
    _go_on.set()
    assert [float(item.result(timeout=10)) for item in pending] == [200.0 * number for number in range(40)]


def test_a_bad_feed_of_a_step_in_the_background_is_refused_at_once() -> None:
    graph, x, _, y = _linear()
    with pytest.raises(hr.errors.FeedError, match="'x' does not fit"):
        hr.Session(graph).run_async(y, feeds={x: "text"})


def test_a_kernel_may_run_a_session_of_its_own() -> None:
    inner_graph, inner_x, _, inner_y = _linear()
    inner = hr.Session(inner_graph)

    @hr.register_op("TestNested", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
    def nested_shape(op):
        """x, computed by another session."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestNested")
    def nested(op, x):
        return inner.run(inner_y, feeds={inner_x: x})

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [1, 2])
        y = hr.apply_op("TestNested", x + 1.0) * 2.0
    session = hr.Session(graph)
    assert session.run(y, feeds={x: [[1, 2]]}).tolist() == [[4, 6]]
    inner.close()
    with pytest.raises(hr.errors.FailedPreconditionError, match="session is closed(.|\n)*TestNested"):
        session.run(y, feeds={x: [[1, 2]]})


def test_three_hundred_shapes_are_served_and_the_oldest_plans_go() -> None:
    graph, x, _, y = _linear()
    step = hr.Session(graph).make_callable(y, [x])
    for _ in range(2):
        for size in range(300):
            assert step(np.ones((size, 2))).shape == (size, 2)


@pytest.mark.parametrize("feed_value", [True, False])
def test_reads_of_variables_can_be_fed(feed_value: bool) -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable([1.0, 2.0])
        read = w.value if feed_value else w.read()
        y = read * 2.0
    session = hr.Session(graph)
    assert session.run(y, feeds={w if feed_value else read: [5.0, 6.0]}).tolist() == [10.0, 12.0]
    assert session.run(w).tolist() == [1.0, 2.0]


@pytest.mark.slow
@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer (coverage) keeps memory of its own")
def test_ten_thousand_steps_leave_the_memory_as_it_is() -> None:
    """D01."""
    graph, x, w, y = _linear()
    with graph.as_default():
        change = w.assign_add([0.5, 0.5])
    session = hr.Session(graph)
    process = hr.Variable(0.0)

    def steps(count: int) -> None:
        for number in range(count):
            session.run([y, change], feeds={x: np.ones((1 + number % 5, 2))})
            if number % 50 == 0:
                process.assign_add(1.0)
                session.run_async(y, feeds={x: [[1, 2]]}).result()

    steps(500)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        steps(10_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000  # bytes, most of them tracemalloc's own; a graph kept per update would be 500,000


def test_a_target_that_this_version_does_not_support_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = types.SimpleNamespace(name="grpc")
    monkeypatch.setattr("headrace.session.metadata.entry_points", lambda group: [entry])
    with pytest.raises(hr.errors.NotFoundError, match="'grpc://a:1' is not supported by this version"):
        hr.Session(hr.Graph(), "grpc://a:1")


def test_an_initial_value_that_reads_a_variable_without_one_names_it() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.Variable(1.0, name="a")
        b = hr.Variable(a.read(), name="b")
        a.initializer = None
    with pytest.raises(hr.errors.FailedPreconditionError, match="variables without a value: 'a'"):
        hr.Session(graph).run(b)


def test_tensors_fed_as_one_need_a_value_each_and_no_second_one() -> None:
    with hr.Graph().as_default() as graph:
        a, b = hr.placeholder(hr.float32, [], name="a"), hr.placeholder(hr.float32, [], name="b")
        y = a - b
    session = hr.Session(graph)
    assert session.run(y, feeds={(a, b): (5.0, 2.0)}) == 3.0
    for wrong in ([1.0], 3.0, (1.0, 2.0, 3.0)):
        with pytest.raises(hr.errors.FeedError, match=r"parts that are fed(.|\n)*2 values(.|\n)*'a:0'(.|\n)*'b:0'"):
            session.run(y, feeds={(a, b): wrong})
    for twice in ({(a, b): (1.0, 2.0), a: 3.0}, {a: 3.0, (a, b): (1.0, 2.0)}):
        with pytest.raises(hr.errors.FeedError, match="'a:0'.* is fed twice"):
            session.run(y, feeds=twice)


def test_the_optimized_graph_of_a_step_can_be_looked_at() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        y = hr.add(x, hr.constant(2.0) * hr.constant(3.0), name="y")
        hr.exp(x, name="beside")
    with hr.Session(graph) as session:
        optimized = session.optimized_graph(y, {x: np.zeros(2, np.float32)})
        assert np.array_equal(session.run(y, {x: [1.0]}), [7.0])
    types = sorted(operation.type for operation in optimized.operations)
    assert "Exp" not in types
    assert "Mul" not in types  # folded
    assert "Mul" in {operation.type for operation in graph.operations}


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("feed_dict", "write feeds={tensor: value}"),
        ("options", "write timeout=seconds"),
        ("fetch", "help(hr.Session.run)"),
    ],
)
def test_an_argument_that_run_does_not_have_is_refused_with_the_one_that_it_has(name: str, cure: str) -> None:
    with hr.Graph().as_default() as graph:
        y = hr.constant(1.0)
    with pytest.raises(hr.errors.InvalidArgumentError, match=rf"session.run takes no argument '{name}'") as caught:
        hr.Session(graph).run(y, **{name: {}})
    assert cure in str(caught.value)
