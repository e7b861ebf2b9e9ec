"""Device names: reading, merging, matching, printing, and the scopes that carry them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.graph.device_name import ANY_DEVICE, DeviceName, canonical_device, parse_device

NAMES = st.builds(
    DeviceName,
    job=st.none() | st.sampled_from(["ps", "worker", "a-b_1"]),
    replica=st.none() | st.integers(0, 3),
    task=st.none() | st.integers(0, 999),
    type=st.none() | st.sampled_from(["CPU", "GPU", "TRACE", "XLA_CPU"]),
    index=st.none() | st.integers(0, 99),
).map(lambda name: name if name.type else DeviceName(name.job, name.replica, name.task))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/job:worker/replica:0/task:1/device:GPU:0", "/job:worker/replica:0/task:1/device:GPU:0"),
        ("/task:1/job:ps", "/job:ps/task:1"),
        ("GPU:0", "/device:GPU:0"),
        ("cpu:0", "/device:CPU:0"),
        ("/cpu:12", "/device:CPU:12"),
        ("gpu", "/device:GPU:*"),
        ("GPU:*", "/device:GPU:*"),
        ("device:trace:3", "/device:TRACE:3"),
        ("/job:ps/gpu:1", "/job:ps/device:GPU:1"),
        ("/job:*/task:2", "/task:2"),
        ("job:ps", "/job:ps"),
        ("", ""),
    ],
)
def test_A50_names_have_one_canonical_form(text: str, canonical: str) -> None:
    assert canonical_device(text) == canonical
    assert canonical_device(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nonsense", "'nonsense'"),
        ("/job:ps;1", "'job:ps;1'"),
        ("/job:1ps", "job '1ps'"),
        ("/task:one", "task 'one'"),
        ("/task:-1", "task '-1'"),
        ("/job:ps/job:worker", "'job' twice"),
        ("GPU:0/CPU:0", "'type' twice"),
        ("GPU:x", "'GPU:x'"),
        ("/", "''"),
        ("/job:ps//task:1", "''"),
        ("trace", "'trace'"),
        ("GPU:0\n", r"'GPU:0\\n'|'GPU:0"),
        ("/task:99999999999", "task '99999999999'"),
    ],
)
def test_A50_nonsense_is_an_error_at_the_call(text: str, fault: str) -> None:
    with (
        pytest.raises(hr.errors.InvalidArgumentError, match=f"no device name(.|\n)*job:worker(.|\n)*{fault}"),
        hr.device(text),
    ):
        pass


@given(NAMES, NAMES)
def test_A50_names_print_and_parse_and_the_inner_one_wins(outer: DeviceName, inner: DeviceName) -> None:
    assert parse_device(str(outer)) == outer
    merged = outer.merge(inner)
    assert inner.matches(merged) or inner.index is None
    assert merged.merge(inner) == merged
    assert outer.merge(ANY_DEVICE) == outer == ANY_DEVICE.merge(outer)


@pytest.mark.parametrize(
    ("constraint", "device", "expected"),
    [
        ("GPU:*", "/job:worker/replica:0/task:1/device:GPU:3", True),
        ("/job:worker", "/job:worker/replica:0/task:1/device:GPU:3", True),
        ("/job:ps", "/job:worker/replica:0/task:1/device:GPU:3", False),
        ("GPU:0", "/job:worker/replica:0/task:1/device:GPU:3", False),
        ("", "/job:worker/replica:0/task:1/device:GPU:3", True),
        ("GPU:3", "GPU:*", False),
    ],
)
def test_A50_a_partial_name_matches_the_devices_that_agree_with_it(
    constraint: str, device: str, expected: bool
) -> None:
    assert parse_device(constraint).matches(parse_device(device)) is expected


def test_A50_a_name_knows_its_task_and_its_short_form() -> None:
    name = parse_device("/job:worker/replica:0/task:1/device:GPU:3")
    assert str(name.task_name) == "/job:worker/replica:0/task:1"
    assert (name.short, name.task_name.short) == ("GPU:3", "")


def test_A53_nested_blocks_merge_field_by_field() -> None:
    with hr.Graph().as_default(), hr.device("/job:ps/task:1/cpu:3"):
        outer = hr.constant(1.0)
        with hr.device("gpu:*"):
            any_gpu = hr.constant(1.0)
        with hr.device("/task:2"), hr.device("/job:worker"):
            worker = hr.constant(1.0)
        with hr.device(None):
            free = hr.constant(1.0)
            with hr.device("CPU:1"):
                again = hr.constant(1.0)
    assert outer.op.device == "/job:ps/task:1/device:CPU:3"
    assert any_gpu.op.device == "/job:ps/task:1/device:GPU:*"
    assert worker.op.device == "/job:worker/task:2/device:CPU:3"
    assert (free.op.device, again.op.device) == ("", "/device:CPU:1")


def test_A53_a_device_function_fills_in_what_inner_blocks_leave_open() -> None:
    seen: list[tuple[str, str]] = []

    def choose(op: hr.Operation) -> str | None:
        seen.append((op.type, op.device))
        return "/job:ps/task:0" if op.type == "VarHandleOp" else None

    with hr.Graph().as_default(), hr.device("/job:worker/cpu:0"), hr.device(choose):
        variable = hr.Variable(1.0)
        with hr.device("/task:7"):
            other = hr.constant(1.0)
    assert variable.handle.op.device == "/job:ps/task:0/device:CPU:0"
    assert other.op.device == "/job:worker/task:7/device:CPU:0"
    assert ("Const", "/task:7") in seen


@pytest.mark.parametrize(
    ("answer", "message"),
    [(3, "device function gave no device name(.|\n)*Const 'c' created at(.|\n)*3"), ("x", "'x' is no device name")],
)
def test_A53_a_device_function_that_gives_nonsense_is_an_error(answer: object, message: str) -> None:
    with (
        hr.Graph().as_default(),
        hr.device(lambda op: answer),  # type: ignore[arg-type,return-value]
        pytest.raises(hr.errors.InvalidArgumentError, match=message) as caught,
    ):
        hr.constant(1.0, name="c")
    assert "Const 'c' created at test_device_name.py" in str(caught.value)


def test_A53_what_is_colocated_forgets_the_device_around() -> None:
    with hr.Graph().as_default(), hr.device("/job:ps"):
        a = hr.constant(1.0, name="a")
        with hr.device("/job:worker"), hr.colocate_with(a):
            b = hr.constant(2.0, name="b")
    assert (b.op.device, b.op.colocation) == ("", ("a",))


def test_A50_canonical_names_round_trip_through_graph_files() -> None:
    with hr.Graph().as_default() as graph, hr.device("/job:ps/cpu:0"):
        hr.constant(1.0, name="c")
    proto = hr.to_graph_def(graph)
    assert proto.node[0].device == "/job:ps/device:CPU:0"
    proto.node[0].device = "/cpu:0"
    assert hr.from_graph_def(proto).operation("c").device == "/device:CPU:0"
    proto.node[0].device = "?"
    with pytest.raises(hr.errors.InvalidArgumentError, match="'\\?' is no device name(.|\n)*"):
        hr.from_graph_def(proto)
