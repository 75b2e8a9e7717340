"""What verbs print: JSON on stdout, tables for people, progress and remarks on stderr."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

if TYPE_CHECKING:
    from trimtab.benchmark.suite import Wing

__all__ = [
    "JsonFlag",
    "Processes",
    "Switch",
    "change_of",
    "command_line",
    "cores",
    "now",
    "print_json",
    "progress_bar",
    "refuse_said_twice",
    "remark",
    "say_if_compiling",
    "say_if_other_interval",
    "span",
    "split_policies",
    "table_of",
    "terminal_width",
]

Switch = Annotated[bool, Parameter(negative=())]
"""A flag without a ``--no-`` twin."""

Processes = Annotated[int | None, Parameter(validator=Number(gte=1))]
"""How many of them work at once; None: one per core."""

JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON, nothing else.")]


def print_json(content: Any) -> None:
    """Print plain values as JSON on stdout."""
    speaks_all = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(content, indent=2, ensure_ascii=not speaks_all, allow_nan=False, default=str))


def remark(text: str) -> None:
    """Say something that is not the result."""
    print(text, file=sys.stderr, flush=True)


def terminal_width() -> int | None:
    """Columns to print in; None: a pipe, or a terminal that does not know, where lines may be any length."""
    if not sys.stdout.isatty():
        return None
    return os.get_terminal_size(sys.stdout.fileno()).columns or None


def now() -> datetime:
    """The clock of the command line; below it, time comes in as an argument."""
    return datetime.now(UTC)


def cores() -> int:
    """Processes to use when the user does not say."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def command_line() -> str:
    """The command as typed, for reports; without the path of the program."""
    return shlex.join(["trimtab", *sys.argv[1:]])


def split_policies(text: str) -> list[str]:
    """Split ``a,b:x=1,y=2,c`` into policies: a part with ``=`` goes on with the last that has settings.

    Tuned rules may be named as tables do.

    >>> split_policies("fair,capped-srpt:kappa=0.2,power=0.5,fifo")
    ['fair', 'capped-srpt:kappa=0.2,power=0.5', 'fifo']
    >>> split_policies("fair,runs/rate=0.1")
    ['fair', 'runs/rate=0.1']
    >>> split_policies("fair,capped-srpt (tuned)")
    ['fair', 'capped-srpt:tuned']
    """
    names: list[str] = []
    for part in text.split(","):
        if "=" in part and not {":", "/"} & set(part) and names and ":" in names[-1]:
            names[-1] += f",{part}"
        elif part.strip():
            names.append(part.strip())
    return [re.sub(r" \(tuned\)$", ":tuned", name) for name in names]


def change_of(word: str) -> tuple[str, Any]:
    """Read ``name=value`` of a ``--set``; a value is TOML, or else text.

    >>> change_of("training.iterations=50")
    ('training.iterations', 50)
    """
    from trimtab.core.errors import SettingsError

    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise SettingsError(f"--set {word}: not name=value; write for example training.iterations=50")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def refuse_said_twice(flags: Mapping[str, str], words: Sequence[str]) -> None:
    """Refuse a ``--set`` of a field that has a flag too, which was given: one of them would go unheard.

    `flags` are those that were given, by the field that they set.
    """
    from trimtab.core.errors import SettingsError

    for word in words:
        flag = flags.get(change_of(word)[0])
        if flag is not None:
            raise SettingsError(f"{flag} and --set {word} set the same field; give one of the two")


def say_if_compiling(wing: Wing, policies: Sequence[str]) -> None:
    """Prepare whoever waits for the first run."""
    if wing.uncompiled([wing.make_policy(name.removesuffix(":tuned")) for name in policies]):
        remark("compiling the engine and the rules; this happens once and takes about a minute")


def say_if_other_interval(wing: Wing, policies: Sequence[str], now_s: int) -> None:
    """Tell of trained autoscalers that practised deciding more or less often."""
    for name in policies:
        bundle = getattr(wing.make_policy(name.removesuffix(":tuned")), "bundle", None)
        trained = {} if bundle is None else bundle.manifest["trained"]
        then_s = trained.get("deployment", {}).get("interval_s", now_s)
        if then_s != now_s:
            remark(
                f"{name}: trained to decide every {then_s} s, not every {now_s} s; it may do worse than one "
                f"trained with --set deployment.interval_s={now_s}"
            )


@contextmanager
def progress_bar(task: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show done, rate and time left on stderr, if somebody is looking."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        place = bar.add_task(task, total=None, rate="")

        def show(done: int, total: int) -> None:
            speed = bar.tasks[place].speed
            rate = f"{speed:.1f}/s" if speed else ""
            bar.update(place, completed=done, total=total, rate=rate)

        yield show


def table_of(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, aligned.

    >>> print(table_of(["name", "what"], [["fair", "equal shares"]]))
    name  what
    fair  equal shares
    """
    widths = [max(len(row[k]) for row in [headings, *rows]) for k in range(len(headings))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    ]
    return "\n".join(lines)


def span(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> span(45), span(600), span(8_100), span(200_000)
    ('45 s', '10.0 min', '2.2 h', '2.3 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
