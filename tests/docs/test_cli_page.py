"""docs/cli.md describes every verb with exactly the arguments and options that it has."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from cyclopts import Parameter

from trimtab.cli.main import VERBS, main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## `trimtab ([a-z-]+)`$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(SECTION.findall(PAGE))
KIND = inspect.Parameter.POSITIONAL_ONLY


def function_of(verb: str) -> Callable[..., Any]:
    module, _, name = VERBS[verb][0].partition(":")
    return getattr(import_module(module), name)


def described(function: Callable[..., Any]) -> dict[str, str]:
    """Names and sentences under `Parameters` in a docstring."""
    _, _, text = (inspect.getdoc(function) or "").partition("----------\n")
    return {
        name: " ".join(lines.split()) for name, lines in re.findall(r"^(\w+):\n((?: +.*\n?)+)", text, re.M)
    }


def annotated_help(annotation: Any) -> str:
    marks = [mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Parameter)]
    return next((mark.help for mark in marks if mark.help), "")


def table(verb: str) -> str:
    """The table that the page must hold for a verb, from its signature and docstring."""
    function = function_of(verb)
    sentences, hints = described(function), get_type_hints(function, include_extras=True)
    lines = ["| option | default | |", "|---|---|---|"]
    for name, parameter in inspect.signature(function).parameters.items():
        shown = name.upper() if parameter.kind is KIND else "--" + name.replace("_", "-")
        usual = (
            "" if parameter.default in (None, "") or parameter.default is False else f"`{parameter.default}`"
        )
        usual = "required" if parameter.default is inspect.Parameter.empty else usual
        lines.append(f"| `{shown}` | {usual} | {sentences.get(name) or annotated_help(hints[name])} |")
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
    assert all(shown in helped for shown in re.findall(r"^\| `(\S+)`", expected, re.MULTILINE))
    assert "|  |\n" not in expected, f"trimtab {verb} has an option without a sentence:\n{expected}"
    assert expected in SECTIONS[verb], f"put this table under `trimtab {verb}` in docs/cli.md:\n{expected}"


@pytest.mark.parametrize("verb", VERBS)
def test_no_section_speaks_of_options_that_do_not_exist(verb: str) -> None:
    known = {"--" + name.replace("_", "-") for name in inspect.signature(function_of(verb)).parameters}
    said = re.findall(rf"trimtab {verb}\b[^\n`]*", SECTIONS[verb])
    assert {option for line in said for option in re.findall(r"--[a-z][a-z-]*", line)} <= known
