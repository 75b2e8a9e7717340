"""Rate traces by name or file, cut into episodes of whole days, split by days into training and tests.

Of a trace of 14 days, days 0 to 8 are for training, 9 and 10 for validation, 11 to 13 for tests, and
proportionally for other lengths: what a policy is judged on, it has not seen. A generated trace gives other
weeks for every seed, and the split holds there too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.registry import WORKLOAD_ENTRY_POINTS, Registry
from trimtab.core.settings import Field, Settings, model_validator
from trimtab.rates import generated
from trimtab.rates.parts import Part, days_of_part, whole_days
from trimtab.rates.traces import RateTrace, load_trace
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.workload.synthetic import INITIAL_PARALLELISM

__all__ = [
    "PREFIX",
    "TRACES",
    "Part",
    "TraceMaker",
    "TraceSettings",
    "days_of_part",
    "described_trace",
    "draw_trace",
    "find_trace",
    "mean_rate_of",
    "separate_episodes",
    "stretch_of",
    "whole_days",
]

PREFIX = "stream/"

TraceMaker = Callable[[str, int], RateTrace]
"""`(variant, seed)`: what follows the colon in the name, and the luck."""

_HERE = "trimtab.stream_autoscaling.workload.presets"

TRACES: Registry[TraceMaker] = Registry(
    "trace",
    {
        "stream/clarknet-like": f"{_HERE}:clarknet_like",
        "stream/flat": f"{_HERE}:flat",
        "stream/mixed": f"{_HERE}:mixed",
        "stream/sine": f"{_HERE}:sine",
        "stream/steps": f"{_HERE}:steps",
        "stream/twitter-like": f"{_HERE}:twitter_like",
        "stream/worldcup-like": f"{_HERE}:worldcup_like",
    },
    WORKLOAD_ENTRY_POINTS,
    prefix=PREFIX,
)


class TraceSettings(Settings):
    """What arrives at a job, and how much of it is one episode.

    The whole trace is scaled, not the episode: a busy day stays busier than others. Without `mean_rate` and
    `load`, a file keeps its own rates, and a trace with a name has the job's `usual_rate` as its mean.

    >>> TraceSettings(name="clarknet-like", load=0.5).days
    1
    """

    name: str = Field(
        default="clarknet-like", min_length=1, description="Name of a trace, or path of a trace file."
    )
    mean_rate: float | None = Field(
        default=None, gt=0, le=1e12, description="Records per second, on average over the whole trace."
    )
    load: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="Subtasks busy at the mean rate, over five for every vertex, if scaling were linear.",
    )
    days: int = Field(default=1, ge=1, le=366, description="Whole days of an episode.")
    part: Part = Field(default="all", description="Which days: all, training, validation or test.")
    rate_spread: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Each episode's rates differ from the trace by up to this share, for training.",
    )

    @model_validator(mode="after")
    def _one_scale(self) -> TraceSettings:
        if self.mean_rate is not None and self.load is not None:
            raise ValueError("both mean_rate and load are given; give one of the two")
        return self


def draw_trace(settings: TraceSettings, job: Job, *, seed: int, part: Part | None = None) -> RateTrace:
    """What arrives in one episode; the same seed gives the same to every policy.

    The episode is a span of whole days within the part, from a day that depends on the seed. With `all` it is
    the beginning of the trace. `part` overrides that of the settings.

    >>> from trimtab.stream_autoscaling.workload.jobs import make_job
    >>> trace = draw_trace(TraceSettings(), make_job("small-1"), seed=5, part="test")
    >>> trace.length_s, trace.start_s // 86_400 in (11, 12, 13)
    (86400.0, True)
    """
    part = part or settings.part
    whole = find_trace(settings.name, seed=seed)
    first, last = days_of_part(whole, part)
    if last - first < settings.days:
        shorter = "lower days, or bring a longer trace"
        raise WorkloadError(
            f"trace {settings.name}: its part {part!r} has {last - first} whole days, an episode needs "
            f"{settings.days}; {shorter if last > first else 'bring a day from midnight to midnight'}"
        )
    places = 1 if part == "all" else last - first - settings.days + 1
    start = first + int(integers(split(seed, "day"), 0, high=places))
    rate = mean_rate_of(settings, job)
    if settings.rate_spread:
        rate *= 1 + settings.rate_spread * (2 * float(uniform(split(seed, "rate"), 0)) - 1)
    return whole.scaled(rate).day(start, settings.days)


def separate_episodes(settings: TraceSettings, part: Part) -> int | None:
    """Episodes that fit into a part of a trace file side by side; None: every seed has days of its own.

    >>> separate_episodes(TraceSettings(), "test") is None
    True
    """
    if not _is_path(settings.name):
        return None
    first, last = days_of_part(find_trace(settings.name), part)
    return (last - first) // settings.days


def stretch_of(trace: RateTrace, span_s: float, interval_s: float, *, seed: int) -> RateTrace:
    """A stretch of a trace that begins at a whole interval which belongs to the seed; all, if it is shorter.

    >>> stretch_of(flat("2"), 3600, 60, seed=1).length_s
    3600.0
    """
    span_s = min(span_s, trace.length_s)
    free = int((trace.length_s - span_s) // interval_s)
    begin_s = trace.start_s + interval_s * int(integers(split(seed, "span"), 0, high=free + 1))
    return trace.between(begin_s, begin_s + span_s)


def mean_rate_of(settings: TraceSettings, job: Job) -> float:
    """Records per second of the whole trace on average, for this job.

    A load of 0.5 keeps half of five subtasks per vertex busy: 0.5 x 5 x vertices = rate x work per record.
    """
    if settings.mean_rate is not None:
        return settings.mean_rate
    if settings.load is not None:
        subtasks = INITIAL_PARALLELISM * len(job.vertices)
        return settings.load * subtasks / (float(job.demand_ms.sum()) / 1000)
    return float(find_trace(settings.name).rates.mean()) if _is_path(settings.name) else job.usual_rate


def find_trace(name: str, *, seed: int = 0) -> RateTrace:
    """Look a trace up: a registered name, with days after a colon, or a file; unscaled, all of it."""
    if _is_path(name):
        return _file(name, Path(name).stat().st_mtime_ns if Path(name).is_file() else 0)
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    return _named(base, variant, seed)


def described_trace(name: str) -> str:
    """Say in one sentence what a trace is: the first line of its docstring."""
    return (TRACES.load(name).__doc__ or "").strip().split("\n")[0]


def clarknet_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A web server of 1995, fitted to ClarkNet-HTTP: busy afternoons, quiet weekends, noisy minutes."""
    return generated.clarknet_like(seed, _days("clarknet-like", variant))


def worldcup_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A tournament's web site, fitted to WorldCup98: a wave for every match, up to nine times the mean."""
    return generated.worldcup_like(seed, _days("worldcup-like", variant))


def twitter_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A message stream, fitted to Twitter's of 2021: an even level with a dozen sudden rushes a day."""
    return generated.twitter_like(seed, _days("twitter-like", variant))


def steps(variant: str = "", seed: int = 0) -> RateTrace:
    """Levels that last 1 to 4 hours and differ by up to a factor of six."""
    return generated.steps(seed, _days("steps", variant))


def sine(variant: str = "", seed: int = 0) -> RateTrace:
    """One wave a day, from 40 to 160 % of the mean."""
    return generated.sine(seed, _days("sine", variant))


def flat(variant: str = "", seed: int = 0) -> RateTrace:
    """Always the same rate."""
    return generated.flat(seed, _days("flat", variant))


def mixed(variant: str = "", seed: int = 0) -> RateTrace:
    """Another kind for every seed: half clarknet-like, a sixth each worldcup-like, twitter-like, steps."""
    _days("mixed", variant)  # refused by this name
    kinds = (clarknet_like, clarknet_like, clarknet_like, worldcup_like, twitter_like, steps)
    return kinds[int(integers(split(seed, "kind"), 0, high=len(kinds)))](variant, seed)


def _days(name: str, variant: str) -> int:
    if variant and not variant.isdecimal():
        raise WorkloadError(f"{name}:{variant}: the variant is a number of days, such as {name}:28")
    return int(variant or 14)


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".trace") or Path(name).is_file()


# Groups of rollouts ask for the same seed many times in a row; two weeks of minutes take 10 ms and 160 kB.
@lru_cache(maxsize=64)
def _named(base: str, variant: str, seed: int) -> RateTrace:
    try:
        maker = TRACES.load(PREFIX + base)
    except RegistryError as error:
        raise RegistryError(f"{error}, or the path of a .trace file") from None
    return maker(variant, seed)


@lru_cache(maxsize=4)
def _file(path: str, modified_ns: int) -> RateTrace:
    return load_trace(Path(path))
