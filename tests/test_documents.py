"""What the documents show works: their Python runs and their links lead somewhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
EXAMPLES = [document for document in DOCUMENTS if BLOCK.search(document.read_text())]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_in_a_document_runs_from_top_to_bottom(document: Path, tmp_path: Path) -> None:
    code = "\n".join(BLOCK.findall(document.read_text()))
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, f"{code}\n{run.stderr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = [target for target in LINK.findall(CODE.sub("", document.read_text())) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_what_stands_for_tensorflows_names_is_there() -> None:
    section = (ROOT / "docs" / "guide.md").read_text().partition("## Coming from TensorFlow\n")[2].partition("\n## ")[0]
    names = re.findall(r"\b((?:hr|headrace_\w+)\.[A-Za-z_.]*\w)", section)
    assert len(names) > 15
    for name in names:
        module, _, rest = name.partition(".")
        attrgetter(rest)(importlib.import_module("headrace" if module == "hr" else module))


def test_the_readme_shows_the_two_commands_and_a_short_example() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"^python3 tools/dev\.py (\w+)$", text, re.MULTILINE) == ["quickstart", "tests"]
    (example,) = BLOCK.findall(text)
    assert len(example.splitlines()) <= 20
