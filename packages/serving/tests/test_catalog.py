"""Which models and versions there should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import InvalidArgumentError
from headrace_serving.catalog import ModelConfig, VersionPolicy, models_in, parse_policy, read_models


@pytest.mark.parametrize(
    ("text", "numbers", "broken", "wanted"),
    [
        ("latest", [1, 3, 2], [], [3]),
        ("latest", [1, 3, 2], [3], [2]),
        ("latest:2", [1, 3, 2], [], [2, 3]),
        ("latest:9", [1, 3, 2], [2], [1, 3]),
        ("all", [1, 3, 2], [1], [2, 3]),
        ("1,9", [1, 3, 2], [], [1]),
        ("latest", [], [], []),
    ],
)
def test_policies(text: str, numbers: list[int], broken: list[int], wanted: list[int]) -> None:
    assert parse_policy(text).wanted(numbers, broken) == wanted


@pytest.mark.parametrize("text", ["", "newest", "latest:0", "latest:", "1,,2", "-1", "1.5"])
def test_what_is_no_policy(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"no such choice of versions\n.*latest:N.*\n.*got: +{text}\n"):
        parse_policy(text)


def test_the_models_of_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b", ".hidden", "c:d"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    policy = VersionPolicy(2)
    assert models_in(tmp_path, policy) == {name: ModelConfig(tmp_path / name, policy) for name in ("a", "b")}
    assert models_in(tmp_path / "absent", policy) == {}


def test_the_models_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        '[models.a]\nfolder = "x/a"\n[models.b]\nfolder = "/b"\nversions = [3, 4]\nlabels = { canary = 4 }\n'
        '[models."c d"]\nfolder = "c"\nversions = "all"\n'
    )
    assert read_models(file) == {
        "a": ModelConfig(tmp_path / "x/a"),
        "b": ModelConfig(Path("/b"), VersionPolicy(None, frozenset({3, 4})), {"canary": 4}),
        "c d": ModelConfig(tmp_path / "c", VersionPolicy(None)),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models", r"expected: TOML"),
        ("", r"expected: tables \[models.NAME\] and nothing else\n.*nothing"),
        ("a = 1\n[models.a]\nfolder = 'a'", r"nothing else\n.*a, models"),
        ("models = 3", r"tables \[models.NAME\]"),
        ("[models.a]", r"expected: \[models.a\] with 'folder'"),
        ("[models.a]\nfolder = 'a'\nlabel = 3", r"expected: \[models.a\] with 'folder', and at most"),
        ("[models.'a/b']\nfolder = 'a'", r"a name with no '/' or ':'\n.*a/b"),
        ("[models.a]\nfolder = 'a'\nlabels = { x = 'y' }", r"labels of model 'a' with a version each"),
        ("[models.a]\nfolder = 'a'\nversions = 'new'", "no such choice of versions"),
    ],
)
def test_files_that_name_no_models(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        read_models(file)
