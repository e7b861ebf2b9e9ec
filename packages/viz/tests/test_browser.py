"""TensorBoard's pages in a browser: names of nodes, tags and hyper-parameters are found in what it shows.

Runs only where HEADRACE_BROWSER names a Chromium, as in `nox -s browser-viz`. The browser is driven by its own
protocol, over a WebSocket client of a few lines, so that no driver needs to be installed. The page of profiles needs
TensorBoard's profile plugin.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import os
import re
import secrets
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import headrace_viz
from headrace_viz import SummaryWriter

CHROMIUM = os.environ.get("HEADRACE_BROWSER", "")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="HEADRACE_BROWSER is not set"),
]
SECONDS = 60
ALL_TEXT = """
(() => {
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE && node.data.trim()) found.push(node.data.trim());
    if (node.shadowRoot) walk(node.shadowRoot);
    if (node.localName === "iframe" && node.contentDocument) walk(node.contentDocument.body);
    node.childNodes.forEach(walk);
  };
  walk(document.body);
  return found.join("\\n");
})()
"""

CHOOSE_GRAPH = """
((run, tag) => {
  const find = (node) => {
    if (node.localName === "tf-graph-controls") return node;
    for (const child of [node.shadowRoot, ...node.childNodes]) {
      const found = child && find(child);
      if (found) return found;
    }
  };
  const controls = find(document.body);
  const runs = controls && controls.datasets || [];
  const number = runs.findIndex((known) => known.name === run);
  if (number < 0) return false;
  controls.set("_selectedRunIndex", number);
  controls.set("_selectedTagIndex", runs[number].tags.findIndex((known) => known.tag === tag));
  return true;
})(%s, %s)
"""

CLICK = """
((selector, text) => {
  const find = (root) => {
    const wanted = [...root.querySelectorAll(selector)].find((node) => node.innerText.trim() === text);
    if (wanted) return wanted;
    for (const frame of root.querySelectorAll("iframe")) {
      const found = frame.contentDocument && find(frame.contentDocument);
      if (found) return found;
    }
  };
  const found = find(document);
  if (found) found.click();
  return Boolean(found);
})(%s, %s)
"""


class Page:
    """A page of a browser, driven by the DevTools protocol."""

    def __init__(self, url: str) -> None:
        host, port, path = re.fullmatch(r"ws://([^:/]+):(\d+)(/.*)", url).groups()  # type: ignore[union-attr]
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._file = self._socket.makefile("rb")
        assert b"101" in self._file.readline()
        while self._file.readline().strip():
            pass
        self._number = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events that come meanwhile are passed over."""
        self._number += 1
        data = json.dumps({"id": self._number, "method": method, "params": parameters}).encode()
        mask = secrets.token_bytes(4)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
        self._socket.sendall(b"\x81" + struct.pack(">BQ", 0x80 | 127, len(data)) + mask + masked)
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                return dict(answer["result"])

    def _message(self) -> bytes:
        message = b""
        while True:
            first, length = self._file.read(2)
            if length >= 126:  # the length follows in 2 or 8 bytes
                length = int.from_bytes(self._file.read(2 if length == 126 else 8), "big")
            message += self._file.read(length)
            if first & 0x80:
                return message

    def text(self) -> str:
        """All text of the page, in shadow trees too."""
        return str(self.call("Runtime.evaluate", expression=ALL_TEXT, returnByValue=True)["result"].get("value", ""))

    def shows(self, url: str, *wanted: str) -> None:
        """Go to a page and wait until it has all these lines of text."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.has(*wanted)

    def shows_graph(self, url: str, run: str, tag: str | None, *wanted: str) -> None:
        """Go to the page of graphs, choose one as its menus do, and wait until it has all these lines of text."""
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{url}#graphs")
        self.until(CHOOSE_GRAPH % (json.dumps(run), json.dumps(tag)))
        self.has(*wanted)

    def click(self, selector: str, text: str) -> None:
        """Click on what has this text, in a frame too, as soon as it is there."""
        self.until(CLICK % (json.dumps(selector), json.dumps(text)))

    def until(self, expression: str) -> None:
        """Evaluate until the value is true."""
        deadline = time.monotonic() + SECONDS
        while not self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value"):
            assert time.monotonic() < deadline, self.text()[:3000]
            time.sleep(0.2)

    def points_at(self, *wanted: str) -> None:
        """Move the pointer over the whole page until it has shown the names of all these bars of a timeline."""
        deadline = time.monotonic() + SECONDS
        seen: set[str] = set()
        places = itertools.cycle((x, y) for y in range(240, 520, 12) for x in range(260, 1440, 40))
        while missing := set(wanted) - seen:
            assert time.monotonic() < deadline, (sorted(missing), sorted(seen), self.text()[-3000:])
            x, y = next(places)
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
            seen |= {
                name for line in self.text().split("\n") for name in re.findall(r"(.+) \[[\d.,]+ [mun]?s\]$", line)
            }

    def has(self, *wanted: str) -> None:
        """Wait until the page has all these lines of text."""
        deadline = time.monotonic() + SECONDS
        while missing := set(wanted) - set((text := self.text()).split("\n")):
            assert time.monotonic() < deadline, (sorted(missing), text[:3000])
            time.sleep(0.2)

    def close(self) -> None:
        """Leave the page."""
        self._file.close()
        self._socket.close()


def _first_match(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    return next(found[0] for line in process.stderr if (found := re.search(pattern, line)))


@pytest.fixture(name="page", scope="module")
def _page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,950"]
    profile = [f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--remote-debugging-port=0"]
    with subprocess.Popen([CHROMIUM, *options, *profile], stderr=subprocess.PIPE, text=True) as process:
        try:
            port = re.search(r":(\d+)/", _first_match(process, r"ws://127.0.0.1:\d+/"))[1]  # type: ignore[index]
            request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                page = Page(json.load(answer)["webSocketDebuggerUrl"])
            yield page
            page.close()
        finally:
            process.kill()


@pytest.fixture(name="url", scope="module")
def _url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    logdir = tmp_path_factory.mktemp("logs")
    _write(logdir)
    _write_step(logdir)
    _write_profile(logdir)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = str(_first_match(process, r"http://127.0.0.1:\d+/"))
            _await_graphs(url, {"train", "step"})
            yield url
        finally:
            process.kill()


def _write(logdir: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3], name="pixels")
        with hr.name_scope("classifier"):
            hr.apply_op("MatMul", x, hr.ones([3, 2]), name="product")
    with SummaryWriter(logdir / "train") as writer:
        writer.add_graph(graph)
        for step in range(5):
            writer.add_scalar("loss/total", 1 / (1 + step), step)
            writer.add_histogram("weights/dense", np.linspace(-1, step, 100), step)
        writer.add_text("notes", "a note of **this** run", 0)
        for number, rate in enumerate((0.5, 0.25)):
            writer.add_hparams({"learning rate": rate}, {"accuracy": rate / 2}, run_name=f"session{number}")


def _await_graphs(url: str, runs: set[str]) -> None:
    """Wait until these runs are loaded: the page of graphs asks for them only once."""
    deadline = time.monotonic() + SECONDS
    while True:
        with urllib.request.urlopen(f"{url}data/plugin/graphs/info", timeout=SECONDS) as answer:
            if runs <= set(json.load(answer)):
                return
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _write_step(logdir: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3], name="pixels")
        with hr.device("CPU:0"):
            product = hr.matmul(x, x, transpose_b=True, name="product")
        with hr.device("CPU:1"):
            y = hr.cond(hr.sum(product) > 0, lambda: hr.exp(product), lambda: product, name="chosen")
    feeds = {x: np.ones([2, 3], np.float32)}
    with (
        hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session,
        SummaryWriter(logdir / "step") as writer,
    ):
        writer.add_step_graphs(session, y, feeds)


def _write_profile(logdir: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [1200, 1200])
        with hr.device("CPU:0"):
            raised = hr.exp(x, name="raised")
        with hr.device("CPU:1"):
            y = hr.tanh(raised, name="squashed")
    config = hr.config(virtual_devices={"CPU": 2}, backend="numpy")
    with hr.Session(graph, config=config) as session:
        run = session.make_callable(y, [x])
        value = np.ones((1200, 1200), np.float32)
        run(value)
        with headrace_viz.profile(logdir / "profiled", session="looked at"):
            run(value)


def test_graph(page: Page, url: str) -> None:
    page.shows_graph(url, "train", None, "pixels", "classifier")


def test_functions_of_a_graph(page: Page, url: str) -> None:
    page.shows_graph(url, "step", "step/built", "chosen_true", "chosen_false", "product")


def test_graph_of_two_devices(page: Page, url: str) -> None:
    page.shows_graph(url, "step", "step/divided", "CPU_0", "CPU_1")


def test_scalars(page: Page, url: str) -> None:
    page.shows(f"{url}#scalars", "loss/total", "train")


def test_histograms(page: Page, url: str) -> None:
    page.shows(f"{url}#histograms", "weights/dense", "train")


def test_text(page: Page, url: str) -> None:
    page.shows(f"{url}#text", "notes", "this")


def test_hyperparameters(page: Page, url: str) -> None:
    page.shows(f"{url}#hparams", "learning rate", "accuracy", "0.25000", "0.12500")


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard_plugin_profile") is None, reason="the profile plugin is not installed"
)
def test_profile(page: Page, url: str) -> None:
    page.shows(f"{url}#profile", "profiled/looked at", "Performance Summary", "Overview Page")
    page.click("mat-select .mat-mdc-select-trigger", "Overview Page")
    page.click("mat-option", "Trace Viewer")
    page.has("transfers", "MainThread", "Processes")
    # Bars are painted; the name of the one under the pointer is text.
    page.points_at("raised", "squashed")
