"""Loads and unloads versions until the repository holds what the catalog asks for.

New versions are loaded and warmed up before they take requests, and old ones leave only after that: a model that
answers goes on answering. A version that cannot be loaded is not tried again until its files change or somebody asks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace_serving.catalog import ModelConfig
from headrace_serving.errors import ModelFolderError, ServableNotFoundError
from headrace_serving.memory import return_memory, returning_memory
from headrace_serving.model import Model
from headrace_serving.repository import (
    ModelRepository,
    ModelSpec,
    ModelVersion,
    State,
    load_version,
    no_version_loads,
    version_folders,
    version_stamp,
)
from headrace_serving.warmup import recorded_requests, replay, warm_up

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int]


class ModelManager:
    """Keeps a repository as a catalog asks for. Mutable; thread-safe.

    Args:
      repository: what it fills.
      catalog: tells the models that should be there, anew at each look.
      load_model: loads one exported model.
      warm_up_sizes: the numbers of rows with which a version is called before it takes requests.
    """

    def __init__(
        self,
        repository: ModelRepository,
        catalog: Callable[[], Mapping[str, ModelConfig]],
        load_model: Callable[[Path], Model],
        warm_up_sizes: Sequence[int] = (1,),
    ) -> None:
        self._repository = repository
        self._catalog = catalog
        self._load_model = load_model
        self._warm_up_sizes = warm_up_sizes
        self._lock = threading.Lock()  # one thread looks and loads at a time
        self._broken: dict[tuple[str, int], _Stamp] = {}
        self._unwanted: set[str] = set()
        self._stopped = threading.Event()
        self._poller: threading.Thread | None = None

    def reload(self) -> None:
        """Look once, load what is new and unload what is gone.

        Raises:
          HeadraceError: the catalog cannot be read; then nothing changes.
          OSError: likewise.
        """
        with self._lock:
            catalog = self._catalog()
            for name, config in catalog.items():
                if name not in self._unwanted:
                    self._reload(name, config)
            for name in self._repository.names:
                if name not in catalog:
                    self._unload(name)
                    self._repository.forget(name)

    def retry(self) -> None:
        """Look as `reload` does, and try versions again that could not be loaded."""
        with self._lock:
            self._broken.clear()
        self.reload()

    def load(self, name: str) -> None:
        """Load a model, also one that was unloaded or whose versions could not be loaded.

        Raises:
          ServableNotFoundError: the catalog has no such model.
          ModelFolderError: none of its versions can be loaded.
        """
        with self._lock:
            catalog = self._catalog()
            if name not in catalog:
                raise ServableNotFoundError(
                    f"failed to load '{name}', no such model",
                    expected=", ".join(sorted(catalog)) or "a model in the server's folder",
                    got=name,
                )
            self._unwanted.discard(name)
            self._broken = {key: stamp for key, stamp in self._broken.items() if key[0] != name}
            self._reload(name, catalog[name])
            versions = self._known(name)
            if all(version.state is not State.AVAILABLE for version in versions):
                raise no_version_loads(name, catalog[name].folder, versions)

    def unload(self, name: str) -> None:
        """Unload all versions of a model, until it is loaded again by its name.

        Raises:
          ServableNotFoundError: there is no such model.
        """
        with self._lock:
            if not self._known(name):
                raise ServableNotFoundError(f"failed to unload '{name}', no such model")
            self._unwanted.add(name)
            self._unload(name)

    def names(self) -> list[str]:
        """Return the names of all models that the catalog has or the repository knows."""
        with self._lock:
            return sorted({*self._catalog(), *self._repository.names})

    def start_polling(self, seconds: float) -> None:
        """Look every so many seconds, on a thread of its own, until `stop`."""
        self._poller = threading.Thread(target=self._poll, args=(seconds,), name="headrace-serving-poll", daemon=True)
        self._poller.start()

    def stop(self) -> None:
        """End the polling; versions stay loaded."""
        self._stopped.set()
        if self._poller is not None:
            self._poller.join()

    def _poll(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            try:
                self.reload()
            except Exception:
                _log.exception("looking for models failed; those that are loaded stay")

    def _reload(self, name: str, config: ModelConfig) -> None:
        try:
            folders = version_folders(config.folder)
        except (ModelFolderError, OSError) as error:
            _log.debug("model '%s': %s", name, error)
            folders = {}
        while True:  # each version that turns out to be broken may call for an older one
            broken = [
                number for number, path in folders.items() if self._broken.get((name, number)) == version_stamp(path)
            ]
            wanted = config.policy.wanted(folders, broken)
            loaded = [version.number for version in self._known(name) if version.state is State.AVAILABLE]
            missing = [number for number in wanted if number not in loaded]
            if not missing:
                break
            self._load(name, missing[-1], folders[missing[-1]])
        if wanted:  # else the last versions go on answering
            for number in loaded:
                if number not in wanted:
                    self._repository.retire(name, number)
                    return_memory()
        self._repository.label(name, config.labels)

    def _load(self, name: str, number: int, path: Path) -> None:
        stamp = version_stamp(path)
        self._repository.publish(ModelVersion(name, number, None, state=State.LOADING))
        with returning_memory():
            version = load_version(name, number, path, self._load_model)
            if version.model is None:
                self._broken[name, number] = stamp
            else:
                warm_up(name, version.model, self._warm_up_sizes)
                replay(name, version.model, recorded_requests(path))
                _log.info("model '%s' version %d is loaded", name, number)
        self._repository.publish(version)

    def _unload(self, name: str) -> None:
        for number in [version.number for version in self._known(name)]:
            self._repository.retire(name, number)
        return_memory()  # now that nothing here holds a version

    def _known(self, name: str) -> list[ModelVersion]:
        try:
            return self._repository.versions(ModelSpec(name))
        except ServableNotFoundError:
            return []
