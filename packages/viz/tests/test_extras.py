"""Optional packages: found, or named with the command that installs them."""

from __future__ import annotations

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
