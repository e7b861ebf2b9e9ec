"""Which models there are, in which versions, and in what state.

A model's folder holds a sub-folder for each version, named by a number, as TensorFlow Serving has it; or it is itself
the folder of one exported model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace_serving.errors import BadRequestError, ModelFolderError, ServableNotFoundError
from headrace_serving.model import Model

_log = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1
_MODEL_FILE = "saved_model.pb"


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a model: loaded, or the reason why it could not be.

    Attributes:
      name: name of the model.
      number: the version.
      model: what answers requests; None if it did not load.
      error: why it did not load; empty if it did.
    """

    name: str
    number: int
    model: Model | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model a request means.

    Attributes:
      name: name of the model.
      version: its version; None for the newest that is loaded.
      label: a name for a version. There are none yet, so any is an error where a version is needed.
    """

    name: str
    version: int | None = None
    label: str | None = None


class ModelRepository:
    """The models that a server answers for. Immutable once made, hence thread-safe.

    Args:
      versions: every version of every model.

    Example:
      >>> repository = ModelRepository([ModelVersion("half", 2, None, "damaged")])
      >>> [version.error for version in repository.versions(ModelSpec("half"))]
      ['damaged']
    """

    def __init__(self, versions: Sequence[ModelVersion]) -> None:
        self._versions: dict[str, dict[int, ModelVersion]] = {}
        for version in sorted(versions, key=lambda version: (version.name, version.number)):
            self._versions.setdefault(version.name, {})[version.number] = version

    @classmethod
    def load(cls, folders: Mapping[str, Path], load_model: Callable[[Path], Model]) -> ModelRepository:
        """Load every version of every model.

        A version that cannot be loaded is logged and leaves the others serving.

        Args:
          folders: folder by name of the model.
          load_model: loads one exported model.
        Raises:
          ModelFolderError: a folder holds no exported model, or none of its versions loads.
        """
        versions: list[ModelVersion] = []
        for name, folder in folders.items():
            loaded = [_load(name, number, path, load_model) for number, path in version_folders(folder).items()]
            if all(version.model is None for version in loaded):
                raise ModelFolderError(
                    f"no version of model '{name}' can be loaded",
                    where=str(folder),
                    expected="a folder that headrace_checkpoint.save_model or TensorFlow has made",
                    got="; ".join(f"version {version.number}: {version.error}" for version in loaded),
                    hint="export it again with headrace_checkpoint.save_model",
                )
            versions += loaded
        return cls(versions)

    @property
    def names(self) -> list[str]:
        """Names of the models, sorted."""
        return list(self._versions)

    def versions(self, spec: ModelSpec) -> list[ModelVersion]:
        """Return the version that is meant, or all versions of the model if none is named, newest first.

        Raises:
          ServableNotFoundError: no such model or version.
        """
        versions = self._versions.get(spec.name)
        if versions is None:
            raise ServableNotFoundError(f"Could not find any versions of model {spec.name}")
        if spec.version is None:
            return [versions[number] for number in sorted(versions, reverse=True)]
        if spec.version not in versions:
            raise ServableNotFoundError(f"Could not find version {spec.version} of model {spec.name}")
        return [versions[spec.version]]

    def resolve(self, spec: ModelSpec) -> tuple[ModelVersion, Model]:
        """Return the loaded version that is meant, and its model; the newest if no version is named.

        Raises:
          ServableNotFoundError: no such model or version, or it did not load.
          BadRequestError: a label is named.
        """
        if spec.label is not None:
            raise BadRequestError(f"Unrecognized servable version label: {spec.label}")
        versions = self._versions.get(spec.name, {})
        numbers = sorted(versions, reverse=True) if spec.version is None else [spec.version]
        for number in numbers:
            version = versions.get(number)
            if version is not None and version.model is not None:
                return version, version.model
        wanted = f"Latest({spec.name})" if spec.version is None else f"Specific({spec.name}, {spec.version})"
        raise ServableNotFoundError(f"Servable not found for request: {wanted}")


def version_folders(folder: Path) -> dict[int, Path]:
    """Return the folders of exported models by version, oldest first.

    Sub-folders whose names are no numbers, or that hold no exported model (yet), are passed over. A folder that is
    itself an exported model has the version that its own name states, or 1.

    Raises:
      ModelFolderError: there is no exported model.
    """
    if (folder / _MODEL_FILE).is_file():
        number = _version_number(folder.resolve().name)
        return {1 if number is None else number: folder}
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        number = _version_number(path.name)
        if number is not None and (path / _MODEL_FILE).is_file():
            found[number] = path
    if not found:
        raise ModelFolderError(
            "no exported model to serve",
            where=str(folder),
            expected=f"{folder}/1/{_MODEL_FILE}, or another version number",
            got="a folder without one" if folder.is_dir() else "no such folder",
            hint=f"headrace_checkpoint.save_model('{folder}/1', ...)",
        )
    return dict(sorted(found.items()))


def _version_number(name: str) -> int | None:
    if not (name.isascii() and name.isdigit()) or len(name) > len(str(MAX_VERSION)):
        return None
    number = int(name)
    return number if number <= MAX_VERSION else None


def _load(name: str, number: int, path: Path, load_model: Callable[[Path], Model]) -> ModelVersion:
    try:
        return ModelVersion(name, number, load_model(path))
    except (HeadraceError, OSError) as error:
        _log.warning("model '%s' version %d cannot be loaded: %s", name, number, error)
        return ModelVersion(name, number, None, str(error))
