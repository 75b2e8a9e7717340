"""Documents run as printed: Python blocks, `$ trimtab` lines, docstring examples.

Blocks of one file share a namespace and an empty working folder, top to bottom. A block that
cannot run is preceded by ``<!-- not run: the reason -->``.
"""

import doctest
import pkgutil
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import trimtab
from trimtab.cli.main import main

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in [CHECKOUT / "README.md"] if path.exists()]
DOCUMENTS += sorted((CHECKOUT / "docs").glob("**/*.md"))
MODULES = [
    *(module.name for module in pkgutil.walk_packages(trimtab.__path__, "trimtab.")),
    *(
        f"benchmarks.{one.stem}"
        for one in sorted((CHECKOUT / "benchmarks").glob("*.py"))
        if ">>>" in one.read_text()
    ),
]
# The script of the interpreter that runs the tests, whatever PATH says.
SCRIPTS = Path(sys.executable).parent

FENCE = re.compile(
    r"(?:^<!--\s*not run:\s*(?P<reason>\S.*?)\s*-->\s*\n)?"
    r"^(?P<ticks>```+)(?P<language>[a-z]*)[^\n]*\n(?P<body>.*?)^(?P=ticks)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is the document's line of its first line of code."""

    language: str
    body: str
    line: int
    reason_not_run: str | None = None


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        yield Block(match["language"], match["body"], line, match["reason"])


def trimtab_commands(body: str) -> list[str]:
    """Find the `$ trimtab ...` lines, joining those that end in a backslash."""
    joined = body.replace("\\\n", " ")
    lines = [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]
    return [line for line in lines if shlex.split(line, comments=True)[:1] == ["trimtab"]]


def run_python(block: Block, document: Path, namespace: dict[str, Any]) -> None:
    # Leading newlines make tracebacks point into the document.
    source = "\n" * (block.line - 1) + block.body
    exec(compile(source, str(document), "exec"), namespace)


def starts_as_program(command: str, document: Path) -> bool:
    """Every verb of every wing starts once; README.md has no `explain` and no dag, so cli.md starts those."""
    missing = ("trimtab explain ", "trimtab simulate dag ", "trimtab compare dag/")
    return document.name == "README.md" or (document.name == "cli.md" and command.startswith(missing))


def run_command(command: str, block: Block, document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command, comments=True)
    where = f"{document.name}, block at line {block.line}: {command}"
    if starts_as_program(command, document):
        program = [str(SCRIPTS / words[0]), *words[1:]]
        done = subprocess.run(program, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"
    else:
        monkeypatch.setattr("sys.argv", words)
        assert main(words[1:]) == 0, f"{where}; what it said is below"


def commands_of(document: Path) -> list[str]:
    """Find the commands that a document runs."""
    text = document.read_text(encoding="utf-8")
    run = [block for block in blocks(text) if block.language == "console" and not block.reason_not_run]
    return [command for block in run for command in trimtab_commands(block.body)]


def marked(document: Path) -> Any:
    """Keep documents that simulate services out of the run without compiling, where hours take minutes."""
    commands = commands_of(document)
    services = any("--app " in command or "simulate pod" in command for command in commands)
    return pytest.param(document, marks=[pytest.mark.pods] if services else [], id=document.name)


@pytest.mark.parametrize("document", [marked(document) for document in DOCUMENTS])
def test_document_runs_as_printed(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("NO_COLOR", "1")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document.read_text(encoding="utf-8")):
        if block.reason_not_run:
            continue
        if block.language == "python":
            run_python(block, document, namespace)
        elif block.language == "console":
            for command in trimtab_commands(block.body):
                run_command(command, block, document, monkeypatch)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, f"{result.failed} examples of {name} failed; their output is above"


def test_blocks_are_found_with_their_place_and_reason() -> None:
    text = (
        "# T\n\n```python\nx = 1\n```\n\n<!-- not run: needs a cluster -->\n```console\n"
        "$ trimtab control\n```\n\n````markdown\n```python\nno\n```\n````\n"
    )
    assert list(blocks(text)) == [
        Block("python", "x = 1\n", 4),
        Block("console", "$ trimtab control\n", 9, "needs a cluster"),
        Block("markdown", "```python\nno\n```\n", 13),
    ]


def test_a_note_without_a_reason_does_not_skip() -> None:
    (block,) = blocks("<!-- not run: -->\n```python\n1\n```\n")
    assert block.reason_not_run is None


def test_only_trimtab_lines_are_commands() -> None:
    body = (
        "$ trimtab demo --seed 1  # half a minute\noutput\n$ pip install trimtab\n"
        "$ trimtab compare \\\n    dag/tiny\n$ trimtabs\ntrimtab demo\n"
    )
    commands = [shlex.split(command, comments=True) for command in trimtab_commands(body)]
    assert commands == [["trimtab", "demo", "--seed", "1"], ["trimtab", "compare", "dag/tiny"]]


def test_every_verb_of_every_wing_starts_as_a_program() -> None:
    started = [
        command
        for document in DOCUMENTS
        for command in commands_of(document)
        if starts_as_program(command, document)
    ]
    for verb in ("simulate", "compare"):
        for wing in ("dag", "stream", "pod", "gpu"):
            assert any(command.startswith(f"trimtab {verb} {wing}") for command in started), (verb, wing)
    assert sum(command.startswith("trimtab explain ") for command in started) == 4


def test_a_failing_block_fails_at_its_line_in_the_document() -> None:
    block = Block("python", "raise KeyError('here')\n", 7)
    with pytest.raises(KeyError) as caught:
        run_python(block, Path("guide.md"), {})
    frame = traceback.extract_tb(caught.tb)[-1]
    assert (frame.filename, frame.lineno) == ("guide.md", 7)
