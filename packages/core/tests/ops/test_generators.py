"""Generators whose state is a variable. The numbers are those of tensorflow-cpu 2.21 for the same state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError

DRAWN: list[tuple[str, dict[str, Any], list[Any], list[float]]] = [
    ("StatefulUniform", {"dtype": "float32"}, [3], [0.16008341312408447, 0.4439568519592285, 0.5784305334091187]),
    (
        "StatefulUniform",
        {"dtype": "float64"},
        [5],
        [0.5334618889732703, 0.2690390006705954, 0.12080753598594018, 0.5212514852483259, 0.8019978501106437],
    ),
    ("StatefulUniform", {"dtype": "float64"}, [0], []),
    (
        "StatefulStandardNormalV2",
        {"dtype": "float32"},
        [5],
        [-1.5922267436981201, 0.4760389029979706, -0.7550915479660034, -0.9055882096290588, -0.7034654021263123],
    ),
    (
        "StatefulTruncatedNormal",
        {"dtype": "float32"},
        [5],
        [1.7489527463912964, -1.107124924659729, -0.08722731471061707, -1.2877755165100098, 0.9840458035469055],
    ),
    ("StatefulUniformInt", {}, [5], [65, 28, 57, 72, 82]),
    ("StatefulUniformFullInt", {"dtype": "uint32"}, [5], [4036238282, 294136912, 1693371443, 122827378, 3151946545]),
]
BOUNDS = [np.int64(-3), np.int64(90)]


def _generator(state: Any = (5, 7, 9), dtype: Any = hr.int64) -> hr.Variable:
    return hr.Variable(list(state), dtype=dtype, name="state")


def test_one_generator_gives_the_numbers_of_tensorflow_one_after_the_other() -> None:
    with hr.Graph().as_default() as graph:
        state = _generator()
        draws: list[hr.Tensor] = []
        for op_type, attrs, shape, _ in DRAWN:
            bounds = BOUNDS if op_type == "StatefulUniformInt" else []
            with hr.control_dependencies([draw.op for draw in draws[-1:]]):
                draws.append(
                    hr.apply_op(op_type, state.handle, np.int64(1), np.array(shape, np.int64), *bounds, **attrs)
                )
        with hr.control_dependencies([draws[-1].op]):
            read = hr.apply_op("RngReadAndSkip", state.handle, 1, np.uint64(4))
        with hr.control_dependencies([read.op]):
            skip = hr.apply_op("RngSkip", state.handle, np.int64(3), np.int64(2))
    with hr.Session(graph) as session:
        values = session.run([*draws, read, skip])[: len(DRAWN) + 1]
        assert session.run(state).tolist() == [8709, 7, 9]
    for (op_type, _, shape, expected), draw, value in zip(DRAWN, draws, values[:-1], strict=True):
        assert draw.shape == hr.Shape(shape)
        bound = 2 * 2.0**-23 if "Normal" in op_type else 0
        np.testing.assert_allclose(value.astype(np.float64), expected, rtol=bound, atol=0)
    assert values[-1].tolist() == [7173, 7, 9]


def test_a_skip_back_ends_where_the_skip_before_it_began() -> None:
    with hr.Graph().as_default() as graph:
        state = _generator()
        by = hr.placeholder(hr.int64, [])
        skip = hr.apply_op("RngSkip", state.handle, np.int64(1), by)
    with hr.Session(graph) as session:
        session.run(skip, feeds={by: 2**56})  # 256 blocks each: the upper half of the counter moves too
        assert session.run(state).tolist() == [5, 8, 9]
        session.run(skip, feeds={by: -(2**56)})
        assert session.run(state).tolist() == [5, 7, 9]


def test_threads_never_draw_the_same_numbers() -> None:
    with hr.Graph().as_default() as graph:
        state = _generator()
        draws = [hr.apply_op("RngReadAndSkip", state.handle, 1, np.uint64(1)) for _ in range(20)]
    with hr.Session(graph) as session:
        counters = sorted(int(value[0]) for value in session.run(draws))
    assert counters == [5 + 256 * number for number in range(20)]


def _draw(state: hr.Variable, algorithm: int = 1, shape: Any = (2,)) -> hr.Tensor:
    drawn: hr.Tensor = hr.apply_op("StatefulUniform", state.handle, np.int64(algorithm), np.array(shape, np.int64))
    return drawn


def test_a_state_of_another_dtype_is_refused_where_it_is_used() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(DTypeError, match=r"variable of another dtype[^$]*int64 \[3\][^$]*int32"),
    ):
        _draw(_generator(dtype=hr.int32))


@pytest.mark.parametrize(
    ("state", "algorithm", "error", "message"),
    [
        ((5, 7), 1, ShapeError, r"the state of the generator of StatefulUniform '\w+' is too short[^$]*got: +\[2\]"),
        ((5, 7, 9), 2, InvalidArgumentError, r"asks for another generator[^$]*1 \(Philox\) or 3[^$]*got: +2"),
    ],
)
def test_what_philox_cannot_go_on_from(state: Any, algorithm: int, error: type[Exception], message: str) -> None:
    with hr.Graph().as_default() as graph:
        variable = _generator(state)
        draw = _draw(variable, algorithm)
    with hr.Session(graph) as session:
        with pytest.raises(error, match=message):
            session.run(draw)
        assert session.run(variable).tolist() == list(state)


def test_bounds_between_which_there_is_no_integer() -> None:
    with hr.Graph().as_default() as graph:
        state = _generator()
        draw = hr.apply_op("StatefulUniformInt", state.handle, np.int64(1), np.array([2]), np.int64(3), np.int64(3))
    with hr.Session(graph) as session, pytest.raises(InvalidArgumentError, match="has no integer to draw"):
        session.run(draw)
