"""Set up everything in the checkout and run one session of noxfile.py: `python3 tools/dev.py tests`.

Needs only Python 3.11 or later with venv and pip. Everything that is made lies in the checkout: nox in `.venv`, the
sessions' environments in `.nox`, and every cache, temporary files included, in `.cache`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOX = "nox>=2025.2.9"


def environment() -> dict[str, str]:
    """Return the variables that keep pip, virtualenv and every other tool inside the checkout."""
    cache = ROOT / ".cache"
    (cache / "tmp").mkdir(parents=True, exist_ok=True)
    folders = {
        "PIP_CACHE_DIR": "pip",
        "TMPDIR": "tmp",
        "VIRTUALENV_OVERRIDE_APP_DATA": "virtualenv",
        "XDG_CACHE_HOME": "xdg",
    }
    inside = {variable: str(cache / folder) for variable, folder in folders.items()}
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "VIRTUALENV_NO_PERIODIC_UPDATE": "1", "PYTHONNOUSERSITE": "1"}
    return {**os.environ, **inside, **quiet}


def main(arguments: list[str]) -> int:
    """Run `arguments[0]` as a nox session, passing the rest on to it, with or without a `--` before it as nox has one.

    Args:
      arguments: the command line.
    Returns:
      nox's exit code.
    """
    if sys.version_info < (3, 11):
        print(f"Headrace needs Python 3.11 or later; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    if not arguments or arguments[0].startswith("-"):
        print("usage: python3 tools/dev.py SESSION [ARGUMENT ...]   for example: quickstart, tests, lint, types")
        return 2 if not arguments else 0
    folder = ROOT / ".venv"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    variables = environment()
    has_nox = [str(python), "-c", "import nox"]
    if not python.exists() or subprocess.run(has_nox, env=variables, stderr=subprocess.DEVNULL).returncode != 0:
        print(f"making {folder} with {NOX} in it", flush=True)
        try:
            venv.EnvBuilder(clear=True, with_pip=True).create(folder)
        except subprocess.CalledProcessError:
            print(
                "this Python cannot make an environment with pip; on Debian: apt install python3-venv", file=sys.stderr
            )
            return 2
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", NOX], env=variables, check=True)
    session, *rest = arguments
    passed_on = rest[1:] if rest[:1] == ["--"] else rest
    command = [str(python), "-m", "nox", "--session", session, "--", *passed_on]
    return subprocess.run(command, cwd=ROOT, env=variables).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
