"""Optional packages: found, or named with the command that installs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.errors import NotFoundError
from headrace_viz.extras import load_extra


def test_a_package_that_is_there() -> None:
    assert load_extra("json.decoder", "any").JSONDecoder


def test_a_package_that_is_missing() -> None:
    with pytest.raises(
        NotFoundError, match=r"'no_such_package' is missing\n(.*\n)*.*pip install headrace-viz\[remote\]"
    ):
        load_extra("no_such_package.inner", "remote")


def test_what_only_some_features_need_is_not_loaded_before() -> None:
    program = "import sys, headrace_viz, headrace_viz.cli; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"PIL", "fsspec", "matplotlib", "mlflow", "tensorboard", "tensorboardX", "wandb"}
