"""Which models there are, in which versions, and in what state.

A model's folder holds a sub-folder for each version, named by a number, as TensorFlow Serving has it; or it is itself
the folder of one exported model.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from headrace_serving.errors import BadRequestError, ModelFolderError, ServableNotFoundError
from headrace_serving.model import Model

_log = logging.getLogger(__name__)

MAX_VERSION = 2**63 - 1
_MODEL_FILE = "saved_model.pb"
_REMEMBERED_VERSIONS = 16  # how many unloaded versions of a model keep their state


_Key = tuple[str, int, int]


class State(Enum):
    """What a version is at, in TensorFlow Serving's words."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a model, as it is at some time.

    Attributes:
      name: name of the model.
      number: the version.
      model: what answers requests; None unless the version is available or unloading.
      error: why it could not be loaded; empty if it could.
      state: what it is at.
    """

    name: str
    number: int
    model: Model | None
    error: str = ""
    state: State = State.END

    def __post_init__(self) -> None:
        if self.model is not None and self.state is State.END:
            object.__setattr__(self, "state", State.AVAILABLE)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model a request means.

    Attributes:
      name: name of the model.
      version: its version; None for the newest that is loaded.
      label: a name for a version, instead of its number.
    """

    name: str
    version: int | None = None
    label: str | None = None


class Lease:
    """The right to call a version, which stays loaded until it is given back.

    Attributes:
      version: the version.
      model: what answers requests.
    """

    def __init__(self, repository: ModelRepository, version: ModelVersion, model: Model) -> None:
        self._repository: ModelRepository | None = repository
        self.version = version
        self.model = model

    def release(self) -> None:
        """Give it back. A second time does nothing."""
        repository, self._repository = self._repository, None
        if repository is not None:
            repository._give_back(self.version)


class ModelRepository:
    """The models that a server answers for. Mutable; thread-safe.

    Args:
      versions: every version of every model.

    Example:
      >>> repository = ModelRepository([ModelVersion("half", 2, None, "damaged")])
      >>> [version.error for version in repository.versions(ModelSpec("half"))]
      ['damaged']
    """

    def __init__(self, versions: Sequence[ModelVersion] = ()) -> None:
        self._lock = threading.Lock()
        self._versions: dict[str, dict[int, ModelVersion]] = {}
        self._leases: dict[_Key, int] = {}
        self._draining: dict[_Key, ModelVersion] = {}
        self._labels: dict[str, dict[str, int]] = {}
        for version in versions:
            self.publish(version)

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
            loaded = [load_version(name, number, path, load_model) for number, path in version_folders(folder).items()]
            if all(version.model is None for version in loaded):
                raise no_version_loads(name, folder, loaded)
            versions += loaded
        return cls(versions)

    @property
    def names(self) -> list[str]:
        """Names of the models, sorted."""
        with self._lock:
            return sorted(self._versions)

    def __contains__(self, name: str) -> bool:
        return name in self._versions

    def versions(self, spec: ModelSpec) -> list[ModelVersion]:
        """Return the version that is meant, or all versions of the model if none is named, newest first.

        Raises:
          ServableNotFoundError: no such model or version.
        """
        with self._lock:
            versions = dict(self._versions.get(spec.name, {}))
        if not versions:
            raise ServableNotFoundError(f"Could not find any versions of model {spec.name}")
        if spec.version is None:
            return [versions[number] for number in sorted(versions, reverse=True)]
        if spec.version not in versions:
            raise ServableNotFoundError(f"Could not find version {spec.version} of model {spec.name}")
        return [versions[spec.version]]

    def resolve(self, spec: ModelSpec) -> tuple[ModelVersion, Model]:
        """Return the available version that is meant, and its model; the newest if no version is named.

        Raises:
          ServableNotFoundError: no such model or version, or it is not available.
          BadRequestError: an unknown label is named.
        """
        with self._lock:
            return self._resolve(spec)

    def lease(self, spec: ModelSpec) -> Lease:
        """Return the right to call the version that `resolve` returns, and with the same errors."""
        with self._lock:
            version, model = self._resolve(spec)
            key = _key(version)
            self._leases[key] = self._leases.get(key, 0) + 1
        return Lease(self, version, model)

    def _resolve(self, spec: ModelSpec) -> tuple[ModelVersion, Model]:
        versions = self._versions.get(spec.name, {})
        number = spec.version
        if spec.label is not None:
            number = self._labels.get(spec.name, {}).get(spec.label)
            if number is None or number not in versions or versions[number].state is not State.AVAILABLE:
                raise BadRequestError(f"Unrecognized servable version label: {spec.label}")
        for candidate in sorted(versions, reverse=True) if number is None else [number]:
            version = versions.get(candidate)
            if version is not None and version.model is not None and version.state is State.AVAILABLE:
                return version, version.model
        wanted = f"Latest({spec.name})" if number is None else f"Specific({spec.name}, {number})"
        raise ServableNotFoundError(f"Servable not found for request: {wanted}")

    def label(self, name: str, labels: Mapping[str, int]) -> None:
        """Give versions of a model names. They mean something while their version is available.

        Args:
          name: the model.
          labels: versions by label; they replace those that there were.
        """
        with self._lock:
            self._labels[name] = dict(labels)

    def publish(self, version: ModelVersion) -> None:
        """Let a version be known, in whatever state it is."""
        with self._lock:
            self._versions.setdefault(version.name, {})[version.number] = version

    def retire(self, name: str, number: int) -> None:
        """Take no new requests for a version, and free it when those that it has are answered.

        It does nothing if there is no such version or it is not available.
        """
        with self._lock:
            version = self._versions.get(name, {}).get(number)
            if version is None or version.state is not State.AVAILABLE:
                return
            self._versions[name][number] = replace(version, state=State.UNLOADING)
            self._draining[_key(version)] = version
        self._free_if_unused(version)

    def forget(self, name: str) -> None:
        """Let a model of which no version is loaded be unknown."""
        with self._lock:
            if all(version.model is None for version in self._versions.get(name, {}).values()):
                self._versions.pop(name, None)
                self._labels.pop(name, None)

    def _give_back(self, version: ModelVersion) -> None:
        key = _key(version)
        with self._lock:
            self._leases[key] -= 1
            drained = not self._leases[key] and key in self._draining
        if drained:
            self._free_if_unused(version)

    def _free_if_unused(self, version: ModelVersion) -> None:
        key = _key(version)
        with self._lock:
            if self._leases.get(key):
                return
            self._leases.pop(key, None)
            if self._draining.pop(key, None) is None:
                return
            versions = self._versions.get(version.name, {})
            known = versions.get(version.number)
            if known is not None and known.model is version.model:  # it may have been loaded again meanwhile
                versions[version.number] = ModelVersion(version.name, version.number, None)
            ended = sorted(n for n, other in versions.items() if other.state is State.END and not other.error)
            for old in ended[:-_REMEMBERED_VERSIONS]:
                del versions[old]
        close = getattr(version.model, "close", None)
        if close is not None:
            close()
        _log.info("model '%s' version %d is unloaded", version.name, version.number)


def _key(version: ModelVersion) -> _Key:
    return version.name, version.number, id(version.model)


def no_version_loads(name: str, folder: Path, versions: Sequence[ModelVersion]) -> ModelFolderError:
    """Return the error that tells why a model has no version."""
    return ModelFolderError(
        f"no version of model '{name}' can be loaded",
        where=str(folder),
        expected="a folder that headrace_checkpoint.save_model or TensorFlow has made",
        got="; ".join(f"version {version.number}: {version.error}" for version in versions) or "no version",
        hint="export it again with headrace_checkpoint.save_model",
    )


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


def version_stamp(path: Path) -> tuple[int, int]:
    """Return what changes when a model is exported anew: the time and size of its file; zeros if there is none."""
    try:
        status = (path / _MODEL_FILE).stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _version_number(name: str) -> int | None:
    if not (name.isascii() and name.isdigit()) or len(name) > len(str(MAX_VERSION)):
        return None
    number = int(name)
    return number if number <= MAX_VERSION else None


def load_version(name: str, number: int, path: Path, load_model: Callable[[Path], Model]) -> ModelVersion:
    """Load a version; what goes wrong is logged and told by the version."""
    try:
        return ModelVersion(name, number, load_model(path))
    except Exception as error:  # whatever a damaged or foreign model makes of its loader, the others go on
        _log.warning("model '%s' version %d cannot be loaded: %s", name, number, error)
        return ModelVersion(name, number, None, str(error) or type(error).__name__)
