"""The run folder: everything one run left behind, in files a person can read.

::

    settings.toml   what was asked for; `load_settings` reads it back
    files.json      files that the settings name, with their digests (`named_files`)
    machine.json    when it began, and on what: platform, cores, device, Python, versions, commit
    metrics.jsonl   one line per measurement, appended as the run goes
    *.json          results, each written whole or not at all
"""

import json
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from trimtab import __version__
from trimtab.core.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.core.settings import Settings

__all__ = ["Clock", "RunFolder", "machine_facts"]

Clock: TypeAlias = Callable[[], datetime]

_SETTINGS = "settings.toml"
_MACHINE = "machine.json"
_METRICS = "metrics.jsonl"
_VERSIONED = ("numpy", "numba", "llvmlite", "polars", "jax", "jaxlib", "optax")


class RunFolder:
    """One run's folder. Made new, never overwritten.

    >>> import tempfile
    >>> from datetime import UTC, datetime
    >>> parent = Path(tempfile.mkdtemp())
    >>> run = RunFolder.create(parent / "first", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    >>> run.append_metrics({"jobs": 3})
    >>> run.read_metrics()
    [{'time': '2025-01-01T00:00:00+00:00', 'jobs': 3}]
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    @classmethod
    def create(
        cls, path: str | Path, *, clock: Clock, settings: "Settings | None" = None, device: str = ""
    ) -> "RunFolder":
        """Make the folder at exactly this path; refuse if something is there.

        `device` is what computes beside the processor or in its place, which only its library can name.
        """
        path = Path(path)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise TrimtabError(
                f"{path}: exists, and a run is never overwritten; choose another folder"
            ) from None
        except OSError as error:
            raise TrimtabError(
                f"{path}: cannot make the run folder: {error.strerror}; choose another"
            ) from None
        run = cls(path, clock)
        with run.kept_with(_MACHINE):
            run._begin(settings, device)
        return run

    @classmethod
    def create_next(
        cls, parent: str | Path, label: str, *, clock: Clock, settings: "Settings | None" = None
    ) -> "RunFolder":
        """Make ``parent/label``, or ``label-2``, ``label-3``, ... if earlier runs took those."""
        number = 1
        while True:
            name = label if number == 1 else f"{label}-{number}"
            if not (Path(parent) / name).exists():
                return cls.create(Path(parent) / name, clock=clock, settings=settings)
            number += 1

    @classmethod
    def open(cls, path: str | Path, *, clock: Clock) -> "RunFolder":
        """Open a run made earlier, to read it or add to it."""
        path = Path(path)
        if not (path / _MACHINE).is_file():
            state = f"not a run folder (no {_MACHINE} in it)" if path.exists() else "no such folder"
            raise TrimtabError(f"{path}: {state}; check the path")
        return cls(path, clock)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only process that adds to the folder, or be refused; whoever only reads need not ask.

        The lock is the operating system's: it goes when its process does, however that ends.
        """
        import fcntl

        with (self.path / _MACHINE).open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TrimtabError(
                    f"{self.path}: another process is at work in this folder; wait until it has ended"
                ) from None
            except OSError as error:
                raise TrimtabError(
                    f"{self.path}: the folder cannot be locked: {error.strerror}; choose another file system"
                ) from None
            yield

    @contextmanager
    def kept_with(self, name: str, *, failing: type[BaseException] = BaseException) -> Iterator[None]:
        """Remove a new folder again if the work inside fails before the file `name` is there.

        Such a folder is of no use, and the next try would find its name taken.
        """
        try:
            yield
        except failing:
            if not (self.path / name).exists():
                shutil.rmtree(self.path, ignore_errors=True)  # what failed is more worth telling
            raise

    def append_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Add one line with the time; a number that is not finite is written as null."""
        line = _as_json({"time": self._clock().isoformat(), **metrics})
        path = self.path / _METRICS
        with _written(path), path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            # Before any checkpoint that speaks of it: a power cut must not leave a state without its lines.
            os.fsync(file.fileno())

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read every whole line; the last one is left out if a crash cut it short."""
        path = self.path / _METRICS
        if not path.exists():
            return []
        with _understood(path):
            whole_lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            return [json.loads(line) for line in whole_lines]

    def write_json(self, name: str, content: Any) -> Path:
        """Write a result so that a reader sees the old file or the new one, never half of one."""
        return self.write_text(name, _as_json(content, indent=2) + "\n")

    def read_json(self, name: str) -> Any:
        """Read a result back."""
        try:
            with _understood(self.path / name):
                return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise TrimtabError(f"{self.path}: this run has no {name}; run it again") from None

    def write_text(self, name: str, text: str) -> Path:
        """Write any text file, whole or not at all."""
        target = self.path / name
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with _written(target):
                part.write_text(text, encoding="utf-8")
                part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    def _begin(self, settings: "Settings | None", device: str) -> None:
        if settings is not None:
            from trimtab.core.named_files import files_as_text
            from trimtab.core.settings import settings_as_toml

            for name, text in {_SETTINGS: settings_as_toml(settings), **files_as_text(settings)}.items():
                self.write_text(name, text)
        computes_on = {"device": device} if device else {}
        self.write_json(_MACHINE, {"began": self._clock().isoformat(), **computes_on, **machine_facts()})


def machine_facts() -> dict[str, Any]:
    """Say on what a number was measured; no names of hosts or users.

    >>> sorted(machine_facts())[:3]
    ['cores', 'git_commit', 'git_dirty']
    """
    commit, dirty = _commit()
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        # Of the running code: a source tree on the path has no metadata, or that of another version.
        "versions": {"trimtab": __version__, **{name: _version(name) for name in _VERSIONED}},
        "git_commit": commit,
        "git_dirty": dirty,
    }


def _processor() -> str:
    """Name the processor: Linux hides the model in a file and answers with nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> tuple[str | None, bool | None]:
    """Find the commit of a trimtab checkout; an installed trimtab has none.

    A wheel in a user's own repository must not answer with the user's commit, so the top of the
    repository has to hold this very package.
    """
    package = Path(__file__).resolve().parents[1]
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "trimtab" != package:
        return None, None
    commit = _git(package, "rev-parse", "--verify", "HEAD")
    changes = _git(package, "status", "--porcelain")
    return commit, None if commit is None or changes is None else changes != ""


def _git(folder: Path, *words: str) -> str | None:
    # Without optional locks, asking never writes to the repository's index.
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Name the file that is not what was written."""
    try:
        yield
    except ValueError as error:
        raise TrimtabError(f"{path}: damaged ({error}); put it back as it was, or run it again") from None


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Name the file that cannot be written; a full disk does not."""
    try:
        yield
    except OSError as error:
        told = error.strerror or error
        raise TrimtabError(f"{path}: cannot be written: {told}; check folder and space") from None


def _as_json(content: Any, indent: int | None = None) -> str:
    return json.dumps(_plain(content), indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Turn numpy values, paths, times and records into what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value
