"""The examples of docs/clients.md and of the README run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict

import pytest
from conftest import ROOT, Server

PAGES = [ROOT / "docs" / "clients.md", Path(__file__).resolve().parents[1] / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LEASEHOLD_URL", server.url)
    examples = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert examples
    names: Dict[str, Any] = {}
    for example in examples:
        exec(compile(example, str(page), "exec"), names)
    assert "token" in capsys.readouterr().out or page.name == "README.md"
    names["client"].close()
