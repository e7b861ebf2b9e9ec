"""Packages that only some features need, loaded when such a feature is used."""

from __future__ import annotations

import importlib
from types import ModuleType

from headrace.errors import NotFoundError


def load_extra(module: str, extra: str) -> ModuleType:
    """Return a module of a package that `headrace-viz[extra]` installs.

    Raises:
      NotFoundError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotFoundError(
            f"package '{module.partition('.')[0]}' is missing",
            expected="it to be installed, for what was asked for",
            got=str(error),
            hint=f"pip install headrace-viz[{extra}]",
        ) from error
