"""SaveV2, RestoreV2 and their kin, run by a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataLossError, DTypeError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.tensor_bundle import TensorBundle, save_bundle


def _run(build: Any) -> Any:
    graph = hr.Graph()
    with graph.as_default():
        fetches = build()
    with hr.Session(graph) as session:
        return session.run(fetches)


def _save(prefix: Any, names: list[str], tensors: list[Any], slices: list[str] | None = None) -> None:
    _run(lambda: hr.apply_op("SaveV2", str(prefix), names, slices or [""] * len(names), tensors))


def _restore(prefix: Any, names: list[str], dtypes: list[Any], slices: list[str] | None = None) -> Any:
    return _run(lambda: hr.apply_op("RestoreV2", str(prefix), names, slices or [""] * len(names), dtypes=dtypes))


VALUES: dict[str, Any] = {
    "f": np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32),
    "i": np.array(2**60, np.int64),
    "e": np.zeros((0, 3)),
    "b": np.array([True, False]),
    "h": np.array([1.5], ml_dtypes.bfloat16),
    "c": np.array([1 + 2j]),
    "s": np.array([[b"", b"\x00\xff"], [b"x" * 1_000_000, b"\xc3\x28"]], object),
}


def test_A90_A20_A21_save_and_restore_every_kind_of_value(tmp_path: Path) -> None:
    _save(tmp_path / "deep" / "m", list(VALUES), list(VALUES.values()))
    restored = _restore(tmp_path / "deep" / "m", list(VALUES), [value.dtype for value in VALUES.values()])
    for value, back in zip(VALUES.values(), restored, strict=True):
        assert (back.dtype, back.shape) == (value.dtype, value.shape)
        assert back.tolist() == value.tolist() if value.dtype == object else back.tobytes() == value.tobytes()
        assert back.flags.writeable


def test_A90_restored_values_are_assigned(tmp_path: Path) -> None:
    _save(tmp_path / "m", ["w"], [np.array([3.0, 4.0], np.float32)])
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([0.0, 0.0], name="w")
        (value,) = hr.apply_op("RestoreV2", str(tmp_path / "m"), ["w"], [""], dtypes=[hr.float32])
        assign = w.assign(value)
    with hr.Session(graph) as session:
        session.run(assign)
        np.testing.assert_array_equal(session.run(w), [3.0, 4.0])


def test_slices_of_a_tensor(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    _save(tmp_path / "m", ["w", "w"], [whole[:2], whole[2:]], ["6 4 0,2:-", "6 4 2,4:0,4"])
    restored = _restore(tmp_path / "m", ["w"] * 3, [np.float32] * 3, ["", "6 4 1,3:-", "6 4 -:2,2"])
    for got, expected in zip(restored, (whole, whole[1:4], whole[:, 2:]), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_static_shapes_follow_from_the_slices() -> None:
    with hr.Graph().as_default():
        a, b = hr.apply_op("RestoreV2", "m", ["a", "b"], ["", "6 4 0,2:-"], dtypes=[hr.float32, hr.float32])
    assert (a.shape.rank, b.shape) == (None, hr.Shape([2, 4]))


def test_slices_that_are_computed_leave_the_shapes_open() -> None:
    with hr.Graph().as_default():
        slices = hr.placeholder(hr.string, [1])
        (value,) = hr.apply_op("RestoreV2", "m", ["w"], slices, dtypes=[hr.float32])
    assert value.shape.rank is None


def test_A91_one_save_per_task_merged_to_one_checkpoint(tmp_path: Path) -> None:
    for task in range(3):
        _save(tmp_path / "parts" / f"task-{task}", [f"w{task}"], [np.full(2, task)])
    prefixes = [str(tmp_path / "parts" / f"task-{task}") for task in range(3)]
    _run(lambda: hr.apply_op("MergeV2Checkpoints", prefixes, str(tmp_path / "m")))
    assert [value.tolist() for value in TensorBundle(tmp_path / "m").read_all().values()] == [[0, 0], [1, 1], [2, 2]]
    assert not (tmp_path / "parts").exists()


def test_merge_may_pass_over_missing_files(tmp_path: Path) -> None:
    _save(tmp_path / "parts" / "a", ["w"], [np.ones(1)])
    prefixes = [str(tmp_path / "parts" / name) for name in ("a", "b")]
    with pytest.raises(NotFoundError, match="no checkpoint of this name"):
        _run(lambda: hr.apply_op("MergeV2Checkpoints", prefixes, str(tmp_path / "m")))
    _run(
        lambda: hr.apply_op(
            "MergeV2Checkpoints", prefixes, str(tmp_path / "m"), allow_missing_files=True, delete_old_dirs=False
        )
    )
    assert list(TensorBundle(tmp_path / "m")) == ["w"]
    assert (tmp_path / "parts").is_dir()


def test_sharded_filename() -> None:
    assert _run(lambda: hr.apply_op("ShardedFilename", "a/m", 2, 13)) == b"a/m-00002-of-00013"


def test_sharded_filespec() -> None:
    assert _run(lambda: hr.apply_op("ShardedFilespec", "a/m", 13)) == b"a/m-?????-of-00013"


def test_slices_are_saved_and_restored_one_by_one(tmp_path: Path) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(6, 4)
    _run(
        lambda: hr.apply_op(
            "SaveSlices",
            str(tmp_path / "m"),
            ["w", "w", "b"],
            ["6 4 0,2:-", "6 4 2,4:-", ""],
            [whole[:2], whole[2:], np.array(b"x", object)],
        )
    )

    def restore(name: str, spec: str, dtype: hr.DType) -> Any:
        return _run(lambda: hr.apply_op("RestoreSlice", str(tmp_path / "m"), name, spec, dt=dtype))

    np.testing.assert_array_equal(restore("w", "6 4 1,3:2,2", hr.float32), whole[1:4, 2:])
    np.testing.assert_array_equal(restore("w", "", hr.float32), whole)
    assert restore("b", "", hr.string) == b"x"
    with pytest.raises(ShapeError, match="'w' in the checkpoint has another shape"):
        restore("w", "4 2 0,2:-", hr.float32)


def test_the_static_shape_of_a_slice_follows_from_its_spelling() -> None:
    with hr.Graph().as_default():
        known = hr.apply_op("RestoreSlice", "m", "w", "6 4 0,2:-", dt=hr.float32)
        whole = hr.apply_op("RestoreSlice", "m", "w", "", dt=hr.float32)
        fed = hr.apply_op("RestoreSlice", "m", "w", hr.placeholder(hr.string, []), dt=hr.float32)
    assert (known.shape, whole.shape.rank, fed.shape.rank) == (hr.Shape([2, 4]), None, None)


def test_saving_slices_needs_a_slice_for_each_tensor(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="'shapes_and_slices' of SaveSlices has the wrong length"):
        _run(lambda: hr.apply_op("SaveSlices", str(tmp_path / "m"), ["w"], ["", ""], [np.ones(2)]))
    with pytest.raises(ShapeError, match="'shape_and_slice' of RestoreSlice must be a scalar"):
        _run(lambda: hr.apply_op("RestoreSlice", "m", "w", [""], dt=hr.float32))


def test_the_papers_save_and_restore(tmp_path: Path) -> None:
    _run(lambda: hr.apply_op("Save", str(tmp_path / "m"), ["a", "b"], [np.arange(3), np.array(b"x", object)]))
    assert _run(lambda: hr.apply_op("Restore", str(tmp_path / "m"), "a", dt=hr.int64)).tolist() == [0, 1, 2]
    assert _run(lambda: hr.apply_op("Restore", str(tmp_path / "m"), "b", dt=hr.string)) == b"x"


def test_K11_a_name_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    save_bundle(tmp_path / "m", {"w/part_0": np.ones(2, np.float32)})
    graph = hr.Graph()
    with graph.as_default():
        first, second = hr.Variable([0.0, 0.0], name="a"), hr.Variable([0.0, 0.0], name="b")
        names = ["w/part_0", "w/part_7"]
        values = hr.apply_op("RestoreV2", str(tmp_path / "m"), names, ["", ""], dtypes=[hr.float32] * 2)
        assigns: list[Any] = [first.assign(values[0]), second.assign(values[1])]
        assign = hr.group(assigns)
    with hr.Session(graph) as session:
        with pytest.raises(NotFoundError, match="no tensor 'w/part_7'"):
            session.run(assign)
        assert [value.tolist() for value in session.run([first, second])] == [[0, 0], [0, 0]]


def test_K09_damage_is_an_error_of_the_step(tmp_path: Path) -> None:
    save_bundle(tmp_path / "m", {"w": np.ones(2, np.float32)})
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(b"\x01" + data.read_bytes()[1:])
    with pytest.raises(DataLossError, match="tensor 'w' is damaged"):
        _restore(tmp_path / "m", ["w"], [np.float32])


def test_what_does_not_fit(tmp_path: Path) -> None:
    save_bundle(tmp_path / "m", {"w": np.ones((2, 2), np.float32)})
    with pytest.raises(DTypeError, match=r"'w' in the checkpoint has another dtype[^$]*float64[^$]*float32"):
        _restore(tmp_path / "m", ["w"], [np.float64])
    with pytest.raises(ShapeError, match="'w' in the checkpoint has another shape"):
        _restore(tmp_path / "m", ["w"], [np.float32], ["4 2 0,2:-"])
    with pytest.raises(ShapeError, match="a slice of 'w' is not as spelt"):
        _save(tmp_path / "n", ["w"], [np.ones((2, 2))], ["4 2 0,3:-"])
    with pytest.raises(InvalidArgumentError, match="'w' is to be saved twice"):
        _save(tmp_path / "n", ["w", "w"], [np.ones(1), np.ones(1)])


@pytest.mark.parametrize(
    "spec", ["6 4", "6 4 0,2", "6 4 0,2:-:-", "6 4 0,7:-", "6 4 -1,2:-", "6 x 0,2:-", "-6 0,2", "6 0;2"]
)
def test_slices_spelt_wrongly_fail_while_the_graph_is_built(spec: str) -> None:
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="a slice of a tensor is spelt wrongly"):
        hr.apply_op("RestoreV2", "m", ["w"], [spec], dtypes=[hr.float32])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((["m"], ["w"], [""]), "'prefix' of RestoreV2 must be a scalar"),
        (("m", "w", [""]), "'tensor_names' of RestoreV2 must be a vector"),
        (("m", ["w", "v"], [""]), "'tensor_names' of RestoreV2 has the wrong length"),
        (("m", ["w"], ["", ""]), "'shape_and_slices' of RestoreV2 has the wrong length"),
    ],
)
def test_wrong_inputs_fail_while_the_graph_is_built(inputs: tuple[Any, ...], message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=message):
        hr.apply_op("RestoreV2", *inputs, dtypes=[hr.float32])
