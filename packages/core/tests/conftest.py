"""Core's own tests run on the backend that core brings, whatever else is installed beside it."""

from __future__ import annotations

import pytest

from headrace.plan import plan


@pytest.fixture(autouse=True)
def _numpy_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_PREFERENCE", ("numpy",))
