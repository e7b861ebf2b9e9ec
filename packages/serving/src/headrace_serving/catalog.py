"""Which models and versions there should be: folders, policies, labels and the file that names them.

[models.mnist]                       # models.toml
folder = "models/mnist"              # beside the file, if not absolute
versions = "latest:2"                # or "all", or [3, 4]
labels = { canary = 4 }
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import InvalidArgumentError

_NAME = re.compile(r"[^/:\0]+")
_LATEST = re.compile(r"latest(?::([1-9][0-9]{0,8}))?")
_LIST = re.compile(r"[0-9]+(,[0-9]+)*")


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Which of a model's versions are served.

    Attributes:
      latest: how many of the newest; None for all.
      specific: just these, if there are any.
    """

    latest: int | None = 1
    specific: frozenset[int] = frozenset()

    def wanted(self, numbers: Collection[int], broken: Collection[int] = ()) -> list[int]:
        """Return the versions to serve, oldest first.

        Args:
          numbers: versions that there are.
          broken: those that are known not to load; an older one takes the place of the newest.

        Example:
          >>> VersionPolicy(latest=2).wanted([1, 2, 3, 4], broken=[4])
          [2, 3]
        """
        sound = sorted(set(numbers) - set(broken))
        if self.specific:
            return [number for number in sound if number in self.specific]
        return sound if self.latest is None else sound[-self.latest :]


def parse_policy(text: str) -> VersionPolicy:
    """Return the policy that a text names: `latest`, `latest:N`, `all`, or numbers such as `3,4`.

    Raises:
      InvalidArgumentError: it is none of them.

    Example:
      >>> parse_policy("latest:2")
      VersionPolicy(latest=2, specific=frozenset())
    """
    latest = _LATEST.fullmatch(text)
    if latest is not None:
        return VersionPolicy(int(latest[1] or 1))
    if text == "all":
        return VersionPolicy(None)
    if _LIST.fullmatch(text):
        return VersionPolicy(None, frozenset(map(int, text.split(","))))
    raise InvalidArgumentError(
        "no such choice of versions",
        expected="latest, latest:N, all, or numbers such as 3,4",
        got=text,
        hint="leave it out for the newest version alone",
    )


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model that should be served.

    Attributes:
      folder: holds its versions, or is itself an exported model.
      policy: which of them are served.
      labels: versions by label.
    """

    folder: Path
    policy: VersionPolicy = field(default_factory=VersionPolicy)
    labels: Mapping[str, int] = field(default_factory=dict)


def models_in(folder: Path, policy: VersionPolicy) -> dict[str, ModelConfig]:
    """Return the models of a folder: one for each folder in it, except those whose names begin with a dot."""
    return {
        path.name: ModelConfig(path, policy)
        for path in (sorted(folder.iterdir()) if folder.is_dir() else [])
        if path.is_dir() and not path.name.startswith(".") and _NAME.fullmatch(path.name)
    }


def read_models(file: Path) -> dict[str, ModelConfig]:
    """Return the models that a TOML file names.

    Raises:
      InvalidArgumentError: it is no TOML, or names no folder, or other keys than it may.
      OSError: it cannot be read.
    """
    try:
        document = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(file, "TOML", str(error)) from error
    models = document.get("models")
    if document.keys() != {"models"} or not isinstance(models, dict):
        raise _wrong(file, "tables [models.NAME] and nothing else", ", ".join(document) or "nothing")
    return {name: _model(file, name, entry) for name, entry in models.items()}


def _model(file: Path, name: str, entry: object) -> ModelConfig:
    known = {"folder", "versions", "labels"}
    if not isinstance(entry, dict) or not isinstance(entry.get("folder"), str) or entry.keys() - known:
        raise _wrong(file, f"[models.{name}] with 'folder', and at most 'versions' and 'labels'", repr(entry))
    if not _NAME.fullmatch(name):
        raise _wrong(file, "a name with no '/' or ':'", name)
    versions = entry.get("versions", "latest")
    text = ",".join(map(str, versions)) if isinstance(versions, list) else str(versions)
    labels = entry.get("labels", {})
    if not isinstance(labels, dict) or not all(type(number) is int for number in labels.values()):
        raise _wrong(file, f"labels of model '{name}' with a version each", repr(labels))
    return ModelConfig(file.parent / entry["folder"], parse_policy(text), labels)


def _wrong(file: Path, expected: str, got: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the file of models cannot be read",
        where=str(file),
        expected=expected,
        got=got,
        hint='[models.mnist]\n           folder = "models/mnist"',
    )
