"""Check what lies in the built wheels and sdists of a folder: `wheel_check.py DIST`."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path


def missing(names: list[str], wanted: tuple[str, ...]) -> list[str]:
    """Return the endings that no name has."""
    return [ending for ending in wanted if not any(name.endswith(ending) for name in names)]


def main(folder: str) -> str | None:
    """Return what is wrong, or None."""
    faults = []
    wheels, sdists = sorted(Path(folder).glob("*.whl")), sorted(Path(folder).glob("*.tar.gz"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        faults += [f"{wheel.name} lacks {name}" for name in missing(names, ("/py.typed", "/LICENSE", "/METADATA"))]
        faults += [f"{wheel.name} has {name}" for name in names if name.startswith("tests/") or name.endswith(".pyc")]
    for sdist in sdists:
        with tarfile.open(sdist) as archive:
            names = archive.getnames()
        wanted = ("/pyproject.toml", "/README.md", "/CHANGELOG.md", "/LICENSE", "/py.typed")
        faults += [f"{sdist.name} lacks {name}" for name in missing(names, wanted)]
    if not wheels or len(wheels) != len(sdists):
        faults.append(f"{len(wheels)} wheels and {len(sdists)} sdists in {folder}")
    for path in (*wheels, *sdists):
        print(f"{path.stat().st_size:9} bytes  {path.name}")
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
