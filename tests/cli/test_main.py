import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from trimtab import __version__
from trimtab.cli import main as main_module
from trimtab.cli.main import VERBS, main
from trimtab.cli.terminal import print_json, terminal_width

PROGRAM = Path(sys.executable).parent / "trimtab"
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
HEAVY = ("cyclopts", "matplotlib", "numba", "numpy", "polars", "pydantic", "rich")


def test_help_lists_every_verb_and_is_quick() -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - began)
    assert min(times) <= 0.6
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom trimtab.cli.main import main\nmain(['--help'])\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(run: Callable, verb: str) -> None:
    answer = run(verb, "--help")
    assert answer.code == 0
    assert "Usage: trimtab" in answer.out
    assert "--json" in answer.out


def test_version_and_no_words(run: Callable) -> None:
    assert run("--version").out.strip() == __version__
    assert run().out == run("--help").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulat"], "no verb 'simulat'; did you mean 'simulate'?"),
        (["zzz"], "no verb 'zzz'; verbs: demo, import"),
        (["simulate", "dag"], "--policy"),
        (["simulate", "cloud", "--policy", "fair"], 'Choose from: "dag"'),
        (["simulate", "dag", "--polcy", "fair"], "--polcy"),
        (["compare"], "SUITE"),
        (["compare", "dag/batch", "--policies", ","], "flags: policies = []: give at least 1"),
        (["policies", "dag", "more"], "policies has no place for more; `trimtab policies --help` tells"),
        (["import", "spark", *"abcde", "--out", "x"], "import has no place for b c d ...; `trimtab import"),
        (
            ["simulate", "stream", "--policy", "ds2", "--days", "1.5"],
            "--days 1.5: give a whole number, such as 1",
        ),
        (
            ["simulate", "dag", "--policy", "fair", "--seed", "1.5"],
            "--seed 1.5: give a whole number, such as 1",
        ),
        (["compare", "dag/batch", "--seeds", "2.5"], "--seeds 2.5: give a whole number, such as 2"),
        (["compare", "dag/batch", "--processes", "-2"], 'Invalid value "-2" for --processes. Must be >= 1.'),
        (["tune", "dag", "--processes", "0"], 'Invalid value "0" for --processes. Must be >= 1.'),
        (["explain", "fair", "--decision", ".5"], "--decision .5: give a whole number, such as 0"),
    ],
)
def test_mistakes_in_words(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused(*words)


@pytest.mark.parametrize(
    "wing", ["dag_scheduling", "stream_autoscaling", "pod_autoscaling", "gpu_scheduling"]
)
@pytest.mark.parametrize(
    "words",
    [
        ["policies", "WING"],
        ["train", "WING", "--presets"],
        ["simulate", "WING", "--policy", "none"],
        ["tune", "WING", "--suite", "WING/none"],
        ["compare", "WING/none"],
        ["demo", "WING", "--workload", "none"],
        ["explain", "--wing", "WING", "--policy", "none", "--decision", "1"],
    ],
    ids=lambda words: words[0],
)
def test_a_wing_may_be_named_by_its_package(run: Callable, words: list[str], wing: str) -> None:
    short = wing.partition("_")[0]
    expected = run(*(word.replace("WING", short) for word in words))
    assert "Choose from" not in expected.err
    assert run(*(word.replace("WING", wing) for word in words)) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate", "pod", "--policy", "hpa", "--hours", "0.002"], "less than one interval"),
        (["simulate", "pod", "--policy", "hpa", "--hours", "999"], "an episode needs 999 h"),
        (["simulate", "gpu", "--policy", "srtf"], "needs durations"),
        (["simulate", "gpu", "--policy", "fifo", "--cluster", "1x4"], "has room for 4"),
        (["explain", "--wing", "pod", "--policy", "hpa", "--decision", "241"], "has 240 decisions"),
        (["explain", "--wing", "stream", "--policy", "hpa", "--decision", "1441"], "has 1440 decisions"),
    ],
)
def test_bad_input_is_refused_before_compiling_is_told_of(
    refused: Callable, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    for place in (
        "stream_autoscaling.simulator.stepping",
        "pod_autoscaling.simulator.stepping",
        "benchmark.gpu_scheduling.wing",
    ):
        monkeypatch.setattr(f"trimtab.{place}.is_compiled", lambda *rules: False)
    assert said in refused(*words)


def boom() -> None:
    """Break."""
    raise ZeroDivisionError("a bug\nin two lines")


def no_entry() -> None:
    """Open what may not be opened."""
    raise PermissionError(13, "Permission denied", "/somewhere")


def stop() -> None:
    """Be interrupted."""
    raise KeyboardInterrupt


def deaf() -> None:
    """Print to nobody."""
    raise BrokenPipeError


def plant(monkeypatch: pytest.MonkeyPatch, function: Callable[[], None]) -> None:
    target = (f"{__name__}:{function.__name__}", "")
    monkeypatch.setattr(main_module, "VERBS", {"verb": target})
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


def test_our_own_bugs_are_one_line_too(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, boom)
    answer = run("verb")
    assert answer.code == 1
    assert answer.err.startswith("error: ZeroDivisionError: a bug in two lines; --debug shows where")
    with pytest.raises(ZeroDivisionError):
        main(["verb", "--debug"])


def test_files_that_cannot_be_opened(refused: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, no_entry)
    assert refused("verb") == "error: /somewhere: Permission denied\n"


def test_an_interrupt_is_quiet(run: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, stop)
    answer = run("verb")
    assert (answer.code, answer.err) == (130, "error: stopped\n")
    with pytest.raises(KeyboardInterrupt):
        main(["verb", "--debug"])


def test_debug_shows_the_traceback_of_a_mistake() -> None:
    done = subprocess.run([PROGRAM, "compare", "dag/bach", "--debug"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "RegistryError" in done.stderr


# Ctrl-C reaches the whole group of processes, a scheduler of jobs tells the first alone.
@pytest.mark.parametrize(("send", "what"), [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)])
def test_whoever_is_stopped_ends_a_long_run_in_one_line(
    tmp_path: Path, send: Callable, what: signal.Signals
) -> None:
    # Without compiling, and with an empty cache, so that the first remark comes before the work.
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "HOME": str(tmp_path)}
    words = ["compare", "dag/batch", "--workload", "synthetic", "--processes", "2"]
    process = subprocess.Popen(
        [PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert "compiling" in process.stderr.readline()
    time.sleep(1.0)
    send(process.pid, what)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "error: stopped\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"'{PROGRAM}' policies --json | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""
    read, write = os.pipe()
    os.close(read)
    for words in (["simulate", "--help"], ["--help"], ["workloads"]):
        left = subprocess.run(
            [PROGRAM, *words], stdout=write, stderr=subprocess.PIPE, text=True, env=BUFFERED
        )
        assert (left.returncode, left.stderr) == (0, ""), words
    os.close(write)


def test_the_command_line_is_there_without_its_script() -> None:
    words = [sys.executable, "-m", "trimtab"]
    done = subprocess.run([*words, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, __version__)
    done = subprocess.run([*words, "fly"], capture_output=True, text=True)
    assert done.returncode == 2 and "fly" in done.stderr


def test_letters_that_a_terminal_lacks_do_not_cost_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    words = ["compare", "dag/batch", "--policies", "fifo,fair", "--workload", "tiny:diamond", "--seeds", "2"]
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=ascii_only)
    # On a machine where nothing was played yet, the first run says that it compiles.
    remarks = [line for line in done.stderr.splitlines() if not line.startswith("compiling")]
    assert (done.returncode, remarks) == (0, [])
    assert "| ? fair |" in done.stdout
    shown = BytesIO()
    terminal = TextIOWrapper(shown, encoding="ascii", errors="replace", write_through=True)
    monkeypatch.setattr("sys.stdout", terminal)
    print_json({"workload": "mein öl"})
    assert json.loads(shown.getvalue()) == {"workload": "mein öl"}


class OfUnknownWidth(TextIOWrapper):
    """A terminal that tells zero columns, as those of containers and of serial lines do."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_a_terminal_that_does_not_know_its_width_gets_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", OfUnknownWidth(BytesIO()))
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((0, 0)))
    assert terminal_width() is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_disk_is_no_bug_of_ours() -> None:
    for words in (["simulate", "--help"], ["--help"], ["workloads"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=BUFFERED
            )
        assert done.returncode == 2, words
        assert done.stderr.startswith("error: no space left where the answer is written"), done.stderr
        assert done.stderr.count("\n") == 1
