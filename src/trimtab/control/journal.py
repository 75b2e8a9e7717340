"""The journal: one decision, one line of JSON, appended and never changed. Later it is what training reads.

A line holds what was seen (values and their digest), what policy and heuristic asked for, what was done, by
whom and why, and the `outcome`: what the tick before this decision came to, which is what followed the
decision before it. So nothing is ever rewritten, and a crash costs one line at most, with the outcome in it;
`with_outcomes` puts every decision beside what followed it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from trimtab.control.decision import Guarded
from trimtab.core.errors import HistoryError

__all__ = ["Decision", "Journal", "decision_of", "digest_of", "read_journal", "with_outcomes"]

VERSION = 1

Amounts: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Decision:
    """One decision about one environment. Values that are not known are NaN; in the file, null."""

    time: str
    """When, ISO 8601."""
    environment: str
    """About what: a service, a job."""
    observation: tuple[float, ...]
    """What the policy saw; may be empty where only the digest is kept."""
    digest: str
    """Of the observation."""
    policy: Amounts
    """What the policy asked for."""
    heuristic: Amounts
    """What the heuristic asked for."""
    action: Amounts
    """What was done."""
    acting: str
    """Whose action it is: policy, heuristic, larger, hold."""
    reasons: tuple[str, ...] = ()
    """Sentences, step by step."""
    outcome: Amounts = field(default_factory=dict[str, float])
    """What followed the decision before this one: reward, latency, violations, as the wing names them."""
    after: str | None = None
    """Time of that decision, as the journal fills in; empty for the first of a run. None in lines of old."""


def digest_of(observation: ArrayLike) -> str:
    """Sixteen hexadecimal digits that tell observations apart; the same on every machine.

    >>> digest_of([0.5, 1.0])
    '79eefa853821e579'
    """
    values = np.array(observation, dtype="<f8").ravel()
    # One NaN for all that is not finite, and one zero: what a journal gives back has the same digest.
    octets = np.where(np.isfinite(values), values + 0.0, np.nan).astype("<f8").tobytes()
    return hashlib.sha256(octets).hexdigest()[:16]


def decision_of(
    guarded: Guarded,
    environment: int,
    *,
    time: str,
    name: str,
    observation: ArrayLike = (),
    outcome: Amounts | None = None,
) -> Decision:
    """The line for one environment of a guarded decision."""
    names = guarded.moment.settings.names
    seen = np.asarray(observation, np.float64).ravel()

    def amounts(row: Sequence[float]) -> dict[str, float]:
        return dict(zip(names, row, strict=True))

    return Decision(
        time=time,
        environment=name,
        observation=tuple(seen.tolist()),
        digest=digest_of(seen),
        policy=amounts(guarded.trail[0, environment].tolist()),
        heuristic=amounts(guarded.heuristic[environment].tolist()),
        action=amounts(guarded.action[environment].tolist()),
        acting=guarded.who(environment).name.lower(),
        reasons=guarded.explain(environment),
        outcome=dict(outcome or {}),
    )


class Journal:
    """Appends decisions to a file, each flushed as it is written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "shop.jsonl"
    >>> seen = (0.7, 0.2)
    >>> with Journal(path) as journal:
    ...     journal.write(
    ...         Decision(
    ...             "2026-01-01T00:00:00Z",
    ...             "shop",
    ...             seen,
    ...             digest_of(seen),
    ...             {"replicas": 3},
    ...             {"replicas": 4},
    ...             {"replicas": 4},
    ...             acting="heuristic",
    ...             reasons=("choose: the heuristic acts: the policy is a shadow",),
    ...         )
    ...     )
    >>> [decision.action for decision in read_journal(path)]
    [{'replicas': 4.0}]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._before: dict[str, str] = {}
        try:
            torn = _is_torn(self.path)
            # A name may hold bytes that are no text: JSON has a way to write them, and reads them back.
            self._file: IO[str] = self.path.open(
                "a", encoding="utf-8", errors="backslashreplace", newline="\n"
            )
        except OSError as error:
            raise self._refusal(error, "choose another file") from None
        if torn:
            # A crash tore the last line: it stays, alone in its line, and readers name it.
            self._file.write("\n")

    def write(self, decision: Decision) -> None:
        """Append one line."""
        content = {"version": VERSION, **asdict(decision)}
        if decision.after is None:
            content["after"] = self._before.get(decision.environment, "")
        self._before[decision.environment] = decision.time
        line = json.dumps(_plain(content), ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._refusal(error, "make room for it") from None

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            raise self._refusal(error, "its last lines may be lost") from None

    def _refusal(self, error: OSError, way_out: str) -> HistoryError:
        return HistoryError(f"{self.path}: cannot write the journal: {error.strerror}; {way_out}")

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: str | Path, *, on_broken: Callable[[str], None] | None = None) -> Iterator[Decision]:
    """The decisions of a journal, in order.

    A broken line is refused with file and line; with `on_broken` it is left out and that is told the reason.
    """
    path = Path(path)
    try:
        file = path.open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HistoryError(f"{path}: cannot read the journal: {error.strerror}; check the path") from None
    with file:
        for number, line in enumerate(file, start=1):
            try:
                yield _decision(line)
            except _Broken as reason:
                complaint = f"{path}, line {number}: {reason}"
                if on_broken is None:
                    raise HistoryError(f"{complaint}; remove the line, or read with on_broken") from None
                on_broken(complaint)


def with_outcomes(decisions: Iterable[Decision]) -> Iterator[tuple[Decision, Amounts | None]]:
    """Every decision with what followed it: the outcome in the next line of the same environment.

    Where that line is about a later decision, as one was torn or a new run began, it is None. The last
    decision of each environment comes at the end, with None.
    """
    waiting: dict[str, Decision] = {}
    for decision in decisions:
        before = waiting.pop(decision.environment, None)
        if before is not None:
            yield before, decision.outcome if decision.after in (None, before.time) else None
        waiting[decision.environment] = decision
    for decision in waiting.values():
        yield decision, None


class _Broken(Exception):
    """Why a line is no decision."""


def _decision(line: str) -> Decision:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise _Broken(f"not JSON ({error.msg} at column {error.colno})") from None
    except ValueError:
        raise _Broken("a number has too many digits") from None
    except RecursionError:
        raise _Broken("nested too deeply") from None
    if not isinstance(content, dict):
        raise _Broken("not an object")
    if content.pop("version", None) != VERSION:
        raise _Broken(f"not of version {VERSION}")
    names = {one.name for one in fields(Decision)}
    odd = sorted((names ^ set(content)) - {"after"})
    if odd:
        raise _Broken(f"{odd[0]} is {'missing' if odd[0] in names else 'unknown'}")
    try:
        decision = Decision(
            *(str(content[name]) for name in ("time", "environment")),
            observation=tuple(_number(one) for one in content["observation"]),
            digest=str(content["digest"]),
            **{
                name: {key: _number(one) for key, one in content[name].items()}
                for name in ("policy", "heuristic", "action", "outcome")
            },
            acting=str(content["acting"]),
            reasons=tuple(str(one) for one in content["reasons"]),
            after=None if content.get("after") is None else str(content["after"]),
        )
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise _Broken(f"a field is of the wrong kind ({error})") from None
    if decision.observation and digest_of(decision.observation) != decision.digest:
        raise _Broken("the digest does not fit the observation")
    return decision


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _plain(value: Any) -> Any:
    """For JSON, which knows neither NaN nor infinity nor numpy: null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _is_torn(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
