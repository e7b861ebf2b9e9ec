"""Profiles are tested on the backend that computes one operation after the other, whatever else is installed."""

from __future__ import annotations

import pytest

from headrace.plan import plan


@pytest.fixture(autouse=True)
def _numpy_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_PREFERENCE", ("numpy",))
