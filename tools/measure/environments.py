"""Fresh environments and clones, and commands run in them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRATCH = ROOT / ".cache" / "measure"


def fresh_environment(name: str) -> Path:
    """Make an empty environment and return its Python."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    venv.EnvBuilder(with_pip=True).create(folder)
    return folder / "bin" / "python"


def kept_environment(name: str, *requirements: str) -> Path:
    """Return the Python of an environment that holds the requirements, made on first use."""
    folder = SCRATCH / name
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    if not stamp.exists() or stamp.read_text() != repr(requirements):
        fresh_environment(name)
        run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
        stamp.write_text(repr(requirements))
    return python


def clone(name: str) -> Path:
    """Clone the last commit of this checkout and return the clone."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)
    return folder


def run(
    command: Sequence[str], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it printed.

    Args:
      command: the program and its arguments.
      cwd: where to run it.
      env: its whole environment, by default this process's.
      check: whether a failure ends the measurement.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done


def tail(text: str, lines: int = 12) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])
