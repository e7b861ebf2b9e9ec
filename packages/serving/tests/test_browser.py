"""The server's pages in a browser, without any other host.

Runs only where HEADRACE_BROWSER names a Chromium and Playwright is installed, as in `nox -s browser-serving`.
Screenshots go to the folder HEADRACE_SCREENSHOTS if it is set.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_checkpoint import save_model

CHROMIUM = os.environ.get("HEADRACE_BROWSER", "")
SCREENSHOTS = os.environ.get("HEADRACE_SCREENSHOTS", "")
COMMAND = [sys.executable, "-c", "from headrace_serving.cli import serve; serve()"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Playwright's own
    pytest.mark.skipif(not CHROMIUM, reason="HEADRACE_BROWSER is not set"),
]


@pytest.fixture(name="url", scope="module")
def _url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a model with a signature for numbers, one for strings and one for images."""
    folder = tmp_path_factory.mktemp("models") / "half"
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        text = hr.placeholder(hr.string, [None], name="text")
        image = hr.placeholder(hr.float32, [None, 4, 4, 1], name="image")
        signatures = {
            "serving_default": hr.Signature(inputs={"x": x}, outputs={"y": x * hr.Variable(np.float32(0.5))}),
            "echo": hr.Signature(inputs={"text": text}, outputs={"text": text}),
            "mean": hr.Signature(inputs={"image": image}, outputs={"mean": hr.mean(image, axis=[1, 2, 3])}),
        }
    with hr.Session(graph) as session:
        save_model(folder / "3", session, signatures)
    command = [*COMMAND, "--model", f"half={folder}", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.kill()


@pytest.fixture(name="page")
def _page(url: str) -> Iterator[Any]:
    """A page of a browser that can reach the server and nothing else; errors in it fail the test."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        elsewhere: list[str] = []
        faults: list[str] = []
        page.on("request", lambda request: elsewhere.append(request.url) if not request.url.startswith(url) else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.set_default_timeout(60_000)
        yield page
        browser.close()
        assert [address for address in elsewhere if not address.startswith(("data:", "blob:"))] == []
        assert [fault for fault in faults if "400" not in fault] == []  # what a test sends that is wrong


def shoot(page: Any, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"), full_page=True)


def until(page: Any, condition: str) -> None:
    """Wait until a condition holds; the driver's own way needs `eval`, which the page forbids."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never held: {condition}")


def white_png() -> bytes:
    """Return an image of 8 x 8 white pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * 8) * 8)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def form(page: Any, signature: str) -> Any:
    return page.locator(f'form[data-model="half"][data-signature="{signature}"]')


def test_models_and_a_form_for_each_signature(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("#models td.ready")
    assert page.locator("#models tbody tr").first.inner_text().split("\t")[:3] == ["half", "3", "READY"]
    page.wait_for_selector("#state.ready")
    numbers = form(page, "serving_default")
    numbers.locator("textarea").fill("[[1, 2], [3, 4]]")
    numbers.locator("button", has_text="send").click()
    numbers.locator(".took", has_text="ms").wait_for()
    assert json.loads(numbers.locator("pre.answer").inner_text()) == {"outputs": [[0.5, 1.0], [1.5, 2.0]]}
    command = numbers.locator("pre.curl").inner_text()
    answered = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)  # as a user would
    assert json.loads(answered.stdout) == {"outputs": [[0.5, 1.0], [1.5, 2.0]]}
    numbers.locator("button", has_text="random").click()
    numbers.locator("button", has_text="send").click()
    strings = form(page, "echo")
    strings.locator("textarea").fill('["it\'s", "<b>"]')
    strings.locator("button", has_text="send").click()
    strings.locator(".took", has_text="ms").wait_for()
    assert json.loads(strings.locator("pre.answer").inner_text()) == {"outputs": ["it's", "<b>"]}
    shoot(page, "forms")


def test_what_is_wrong_is_told(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("#models td.ready")
    numbers = form(page, "serving_default")
    numbers.locator("textarea").fill('[["1", 2]]')
    numbers.locator("button", has_text="send").click()
    numbers.locator("pre.error").wait_for()
    assert "400: JSON Value" in numbers.locator("pre.answer").inner_text()


def test_an_image_becomes_numbers(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("#models td.ready")
    images = form(page, "mean")
    images.locator("input[type=file]").set_input_files(
        {"name": "white.png", "mimeType": "image/png", "buffer": white_png()}
    )
    until(page, "document.querySelector('form[data-signature=mean] textarea').value.includes('1')")
    images.locator("button", has_text="send").click()
    images.locator(".took", has_text="ms").wait_for()
    assert json.loads(images.locator("pre.answer").inner_text())["outputs"] == [1.0]


def test_charts_move_while_requests_come(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("#models td.ready")
    page.evaluate(
        """async () => {
          const body = '{"instances": [[1, 2]]}';
          window.sending = true;
          (async () => {
            while (window.sending) await fetch("v1/models/half:predict", {method: "POST", body});
          })();
        }"""
    )
    until(page, "Number(document.getElementById('rate').textContent) > 1")
    until(page, "Number(document.getElementById('median').textContent) > 0")
    until(
        page,
        "[...document.querySelectorAll('svg polyline')].every((line) => line.getAttribute('points').includes(' '))",
    )
    for name in ("rates", "latencies"):
        assert float(page.locator(f"#{name}-top").inner_text()) > 0
    shoot(page, "charts")
    page.evaluate("window.sending = false")


def test_the_description_of_the_api(page: Any, url: str) -> None:
    page.goto(url + "/docs")
    page.wait_for_selector("#infer")
    text = page.inner_text("#operations")
    assert "POST /v1/models/{model}:predict" in text
    assert "GET /v2/health/ready" in text
    shoot(page, "docs")
