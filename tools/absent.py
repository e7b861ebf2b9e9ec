"""Import one module and check that others are not there: `absent.py headrace grpc fastapi`.

Sessions that install a package alone call this, so that "runs without X" is a fact about an environment that has no X.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys


def main(module: str, *absent: str) -> str | None:
    """Return what is wrong, or None."""
    importlib.import_module(module)
    present = [name for name in absent if importlib.util.find_spec(name) is not None]
    if present:
        return f"{module} should be alone here, but {', '.join(present)} can be imported"
    print(f"{module} imports without {', '.join(absent)}")
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
