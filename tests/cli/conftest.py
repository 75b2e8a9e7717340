"""Running verbs in this process, and what a user sees of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trimtab.cli.main import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `trimtab WORDS` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def go(*words: str) -> Answer:
        monkeypatch.setattr("sys.argv", ["trimtab", *words])
        code = main(words)
        seen = capsys.readouterr()
        return Answer(code, seen.out, seen.err)

    return go


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """Run a mistake: exit code 2, nothing on stdout, one line on stderr, which is returned."""

    def go(*words: str) -> str:
        answer = run(*words)
        assert (answer.code, answer.out) == (2, ""), answer
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1
        return answer.err

    return go
