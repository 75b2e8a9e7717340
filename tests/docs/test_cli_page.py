"""docs/cli.md describes every verb with exactly the arguments and options that it has."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cyclopts import App

from trimtab.cli.main import VERBS, main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## `trimtab ([a-z-]+)`$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall(PAGE))


class Option(NamedTuple):
    names: tuple[str, ...]  # the usual one, and others that mean the same
    usual: str
    sentence: str


def options(verb: str) -> Iterator[Option]:
    """What the program itself knows of a verb's arguments and options."""
    app = App()
    app.command(VERBS[verb][0], name=verb)
    for argument in app[verb].assemble_argument_collection(parse_docstring=True):
        if not argument.show:  # a group of options, which follow one by one
            continue
        default = argument.field_info.default
        usual = "" if default in (None, "") or default is False else f"`{default}`"
        sentence = " ".join((argument.parameter.help or "").split())
        yield Option(argument.names, "required" if argument.required else usual, sentence)


def table(verb: str) -> str:
    """The table that the page must hold for a verb."""
    lines = ["| option | default | |", "|---|---|---|"]
    for option in options(verb):
        shown = ", ".join(f"`{name}`" for name in option.names)
        lines.append(f"| {shown} | {option.usual} | {option.sentence} |")
    return "\n".join(lines) + "\n"


def test_the_page_describes_the_verbs_there_are() -> None:
    assert list(SECTIONS) == list(VERBS)
    for verb, (_, sentence) in VERBS.items():
        assert f"| [`{verb}`](#trimtab-{verb}) | {sentence} |\n" in PAGE


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_described(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = table(verb)
    assert main([verb, "--help"]) == 0
    helped = capsys.readouterr().out
    assert all(name in helped for option in options(verb) for name in option.names)
    assert "|  |\n" not in expected, f"trimtab {verb} has an option without a sentence:\n{expected}"
    assert expected in SECTIONS[verb], f"put this table under `trimtab {verb}` in docs/cli.md:\n{expected}"


@pytest.mark.parametrize("verb", VERBS)
def test_no_section_speaks_of_options_that_do_not_exist(verb: str) -> None:
    known = {name for option in options(verb) for name in option.names}
    said = re.findall(rf"trimtab {verb}\b[^\n`]*", SECTIONS[verb])
    assert {option for line in said for option in re.findall(r"--[a-z][a-z-]*", line)} <= known
