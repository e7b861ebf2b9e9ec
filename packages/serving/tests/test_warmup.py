"""Calls with zeros before anybody else calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace_serving.warmup import recorded_requests, replay, warm_up


def test_each_signature_and_size_is_called_with_zeros(make_signature: Callable[..., Any], echo: Any) -> None:
    calls: list[dict[str, Any]] = []
    model = echo("float32")
    inputs = {"x": ("float32", [None, 2, None]), "s": ("string", [None]), "n": ("int32", [])}
    model.signatures["serving_default"] = make_signature(inputs, {}, lambda **given: calls.append(given) or {})
    warm_up("m", model, (1, 4))
    assert [(call["x"].shape, call["s"].tolist(), call["n"].shape) for call in calls] == [
        ((1, 2, 1), [b""], ()),
        ((4, 2, 1), [b""] * 4, ()),
    ]
    assert calls[0]["x"].dtype == np.float32


def test_signatures_that_cannot_be_called_with_zeros(
    make_signature: Callable[..., Any], echo: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = echo("float32")  # of an unknown rank

    def fail(x: Any) -> Any:
        raise ValueError("no zeros")

    model.signatures["picky"] = make_signature({"x": ("float32", [None])}, {}, fail)
    with caplog.at_level(logging.INFO):
        warm_up("m", model)
    assert "signature 'picky' of model 'm' does not take zeros: no zeros" in caplog.text
    assert "serving_default" not in caplog.text


def test_recorded_requests_are_sent(
    tmp_path: Path, make_signature: Callable[..., Any], echo: Any, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[Any] = []
    model = echo("float32")
    model.signatures["serving_default"] = make_signature(
        {"x": ("float32", [None])}, {}, lambda x: calls.append(x.tolist()) or {}
    )
    assert recorded_requests(tmp_path) == []
    (tmp_path / "assets.extra").mkdir()
    lines = ['{"instances": [1, 2]}', "", '{"instances": "x"}', '{"inputs": [3]}']
    (tmp_path / "assets.extra" / "warmup_requests.jsonl").write_text("\n".join(lines))
    replay("m", model, recorded_requests(tmp_path))
    assert calls == [[1, 2], [3]]
    assert "recorded request 2 of model 'm' fails" in caplog.text
