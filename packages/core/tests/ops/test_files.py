"""Files as strings."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import NotFoundError


def test_files_are_written_read_and_found(tmp_path):
    with hr.Graph().as_default() as graph:
        name, contents = hr.placeholder(hr.string, []), hr.placeholder(hr.string, [])
        write, read = hr.files.write(name, contents), hr.files.read(name)
        found = hr.files.matching([str(tmp_path / "*" / "?.bin"), str(tmp_path / "a" / "[12].bin")])
    session = hr.Session(graph)
    for file, data in (("b/2.bin", b"\x00\xff"), ("a/1.bin", b""), ("a/1.bin", b"new"), ("a/22.bin", b"x")):
        session.run(write, feeds={name: str(tmp_path / file), contents: data})
    assert session.run(read, feeds={name: str(tmp_path / "a/1.bin")}).item() == b"new"
    assert session.run(read, feeds={name: str(tmp_path / "b/2.bin")}).item() == b"\x00\xff"
    names = [path.decode() for path in session.run(found)]
    assert names == [str(tmp_path / "a" / "1.bin"), str(tmp_path / "b" / "2.bin")]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["1.bin", "22.bin"]


def test_no_file_matches(tmp_path):
    with hr.Graph().as_default() as graph:
        found = hr.files.matching(str(tmp_path / "*"))
    value = hr.Session(graph).run(found)
    assert value.shape == (0,)
    assert value.dtype == np.dtype(object)


def test_a_constant_path_is_read_in_each_step(tmp_path):
    path = tmp_path / "x"
    with hr.Graph().as_default() as graph:
        contents = hr.files.read(str(path))
    session = hr.Session(graph)
    for data in (b"1", b"2"):
        path.write_bytes(data)
        assert session.run(contents).item() == data


@pytest.mark.parametrize("write", [False, True])
def test_what_cannot_be_opened_is_named(tmp_path, write):
    path = tmp_path / "file" / "x"
    (tmp_path / "file").write_bytes(b"")
    with hr.Graph().as_default() as graph:
        fetch = hr.files.write(str(path), "a") if write else hr.files.read(str(path))
    with pytest.raises(NotFoundError, match="x' cannot be opened"):
        hr.Session(graph).run(fetch)
