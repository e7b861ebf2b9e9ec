"""The file `checkpoint` of TensorFlow's folders: advice that may be out of date."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import DataLossError, NotFoundError
from headrace_checkpoint.bundle_state import newest_bundle, write_bundle_state
from headrace_checkpoint.sources import open_source
from headrace_checkpoint.tensor_bundle import save_bundle


def _folder(path: Path) -> Path:
    path.mkdir()
    for step in (1, 2):
        save_bundle(path / f"model-{step}", {"w": np.array(step)})
    return path


@pytest.mark.parametrize("absolute", [False, True])
def test_K13_a_moved_folder_is_still_read(tmp_path: Path, absolute: bool) -> None:
    old = _folder(tmp_path / "a")
    write_bundle_state(old, [old / "model-1", old / "model-2"])
    if absolute:  # as TensorFlow writes it
        (old / "checkpoint").write_text(f'model_checkpoint_path: "{old}/model-2"\n')
    shutil.move(old, tmp_path / "b")
    assert newest_bundle(tmp_path / "b") == str(tmp_path / "b" / "model-2")
    source = open_source(tmp_path / "b")
    assert source is not None
    assert source.read("w") == 2


def test_K13_a_checkpoint_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    (folder / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model-3"\n')
    with pytest.raises(NotFoundError, match=r"neither|nor beside that file(.|\n)*/elsewhere/model-3\.index"):
        newest_bundle(folder)


def test_what_is_written_is_relative_and_read_again(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    write_bundle_state(folder, [folder / "model-1", folder / "model-2"])
    assert (folder / "checkpoint").read_text() == (
        'model_checkpoint_path: "model-2"\n'
        'all_model_checkpoint_paths: "model-1"\n'
        'all_model_checkpoint_paths: "model-2"\n'
    )
    odd = 'größe "q"\\'
    save_bundle(folder / odd, {"w": np.array(3)})
    write_bundle_state(folder, [folder / odd])
    assert newest_bundle(folder) == str(folder / odd)


def test_names_escaped_as_protobuf_does_are_read(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a")
    save_bundle(folder / "größe", {"w": np.array(3)})
    (folder / "checkpoint").write_text('model_checkpoint_path: "gr\\303\\266\\xc3\\x9fe"\n')
    assert newest_bundle(folder) == str(folder / "größe")


@pytest.mark.parametrize("content", [b"", b"model_checkpoint_path: 5", b"\xff", b'model_checkpoint_path: "a"\n' * 2])
def test_a_damaged_state_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(DataLossError, match="not a valid state file"):
        newest_bundle(tmp_path)


def test_a_folder_without_one(tmp_path: Path) -> None:
    assert newest_bundle(tmp_path) is None


@pytest.mark.parametrize(
    "name", [b"model-\xc3\xa9", b"\xc3\x83\xc2\xa9", b"not utf-8 \xff", b'quotes"\\', b"line\ntab\t", b"a'b"]
)
def test_names_of_any_bytes_are_found_again(tmp_path: Path, name: bytes) -> None:
    """Protobuf's text form is of bytes; names are what the system makes of them."""
    prefix = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
    save_bundle(prefix, {"w": np.array(1)})
    write_bundle_state(tmp_path, [prefix])
    assert (tmp_path / "checkpoint").read_bytes().isascii()
    assert newest_bundle(tmp_path) == prefix


def test_names_that_others_wrote_without_escapes(tmp_path: Path) -> None:
    for name in ("\u00e9", "\u00c3\u00a9"):
        save_bundle(tmp_path / name, {"w": np.array(1)})
        (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n', encoding="utf-8")
        assert newest_bundle(tmp_path) == str(tmp_path / name)
