"""`trimtab VERB`: find the verb, run it, and answer mistakes in one line.

The list of verbs is printed from the table below, so ``trimtab --help`` imports nothing heavy and
takes a few hundredths of a second.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

__all__ = ["VERBS", "main"]

VERBS: dict[str, tuple[str, str]] = {
    "demo": ("trimtab.cli.demo:demo", "Compare every rule on an embedded workload, dag, stream, pod or gpu."),
    "import": (
        "trimtab.cli.import_history:import_history",
        "Turn a history (Spark event logs, ...) into a workload file.",
    ),
    "fit-profile": (
        "trimtab.cli.fit_profile:fit_profile",
        "Fit an application to metrics of your own service.",
    ),
    "record": ("trimtab.cli.record:record", "Record TPC-H on a local Spark."),
    "simulate": ("trimtab.cli.simulate:simulate", "Play one workload under one policy; draw it."),
    "train": ("trimtab.cli.train:train", "Train a policy of your own, for your own workload."),
    "tune": ("trimtab.cli.tune:tune", "Find the best settings of the rules on training seeds."),
    "compare": ("trimtab.cli.compare:compare", "Compare policies on the same unseen workloads."),
    "explain": (
        "trimtab.cli.explain:explain",
        "Say why a policy decided as it did, and what others would do.",
    ),
    "policies": ("trimtab.cli.policies:policies", "List the policies and their settings."),
    "workloads": ("trimtab.cli.workloads:workloads", "List the workloads and the history sources."),
}

USER_ERROR, BUG, INTERRUPTED = 2, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the answer is the exit code: 0, 2 for a mistake of the user, 1 for one of ours."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a star that a terminal lacks must not cost the answer
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    try:
        with _told_to_end():
            code = _answer(words)
            sys.stdout.flush()  # here, where a failure can be told
            return code
    except KeyboardInterrupt:
        if debug:
            raise
        return _fail("stopped", INTERRUPTED)
    except (BrokenPipeError, SystemExit) as end:
        # Tables and help pages of rich end with an exit where the reader has gone.
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _say_no_more()  # the reader (`| head`) has gone
        return 0
    except Exception as error:
        if debug:
            raise
        return _explain(error, words[0])


def _answer(words: Sequence[str]) -> int:
    if words[0] in ("--help", "-h"):
        print(_overview())
        return 0
    if words[0] in ("--version", "-V"):
        from trimtab import __version__

        print(__version__)
        return 0
    if words[0] not in VERBS:
        return _fail(_unknown_verb(words[0]), USER_ERROR)
    return _run(words) or 0


def _say_no_more() -> None:
    """Let nothing more be written, since a second failure at the very end would print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _told_to_end() -> Iterator[None]:
    """Whoever is told to end (by a scheduler of jobs, say) stops as one who is interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(words: Sequence[str]) -> int | None:
    from cyclopts import App, Parameter

    app = App(
        name="trimtab",
        help_flags=["--help", "-h"],
        version_flags=[],
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(converter=_read),
    )
    target, _ = VERBS[words[0]]
    app.command(target, name=words[0])
    answer = app(words, exit_on_error=False, print_error=False)
    return answer if isinstance(answer, int) else None


def _read(kind: Any, tokens: Sequence[Any]) -> Any:
    """Read a flag as cyclopts does, but refuse fractions for whole numbers, which it rounds."""
    from cyclopts import convert

    from trimtab.core.errors import SettingsError

    if int in (kind, *get_args(kind)):
        for token in tokens:
            whole, _, rest = token.value.partition(".")
            if rest.strip("0_"):
                flag = token.keyword or "that"
                raise SettingsError(f"{flag} {token.value}: give a whole number, such as {whole or 0}")
    return convert(kind, tokens)


def _explain(error: Exception, verb: str) -> int:
    from cyclopts.exceptions import CycloptsError, UnusedCliTokensError

    from trimtab.core.errors import TrimtabError

    text = " ".join(str(error).split())
    if isinstance(error, UnusedCliTokensError):
        left = error.unused_tokens or []
        told = shlex.join(left[:3]) + (" ..." if len(left) > 3 else "")
        return _fail(
            f"{verb} has no place for {told}; `trimtab {verb} --help` tells what it takes", USER_ERROR
        )
    if isinstance(error, TrimtabError | CycloptsError):
        return _fail(text, USER_ERROR)
    if isinstance(error, OSError) and error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror}", USER_ERROR)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        _say_no_more()
        return _fail("no space left where the answer is written; make room, or write elsewhere", USER_ERROR)
    return _fail(f"{type(error).__name__}: {text}; --debug shows where, please report it", BUG)


def _fail(text: str, code: int) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code


def _unknown_verb(word: str) -> str:
    close = difflib.get_close_matches(word, VERBS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"no verb {word!r}; {hint}verbs: {', '.join(VERBS)}"


def _overview() -> str:
    lines = [
        "trimtab: learned schedulers for clusters; import your history, train, compare.",
        "",
        "Usage: trimtab VERB [ARGUMENTS]",
        "",
        *(f"  {verb:<11} {sentence}" for verb, (_, sentence) in VERBS.items()),
        "",
        "Every verb has --help and --json; --debug shows where an error comes from.",
        "trimtab --version prints the version.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
