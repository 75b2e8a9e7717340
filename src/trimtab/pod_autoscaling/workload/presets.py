"""Rates by name or file, cut into episodes of some hours, split by time into training and tests.

A generated rate has 14 days, of which days 0 to 8 are for training, 9 and 10 for validation, 11 to 13 for
tests; every seed is another world, and the split holds there too. A trace of your own is split by whole days
if it has three or more, otherwise in the same proportion by time.

How much arrives is told by the cores that its work needs (`mean_cores`), so that one setting fits a service
of a millisecond and one of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from trimtab.core.errors import RegistryError, WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.registry import WORKLOAD_ENTRY_POINTS, Registry
from trimtab.core.settings import Field, Settings, model_validator
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.workload import generated
from trimtab.rates import generated as whole
from trimtab.rates.parts import LEAST_DAYS, Part, days_of_part, split_days, whole_days
from trimtab.rates.traces import DAY_S, Floats, Provenance, RateTrace, load_trace

__all__ = [
    "PREFIX",
    "TRACES",
    "Part",
    "Shape",
    "TraceMaker",
    "TraceSettings",
    "described_trace",
    "draw_trace",
    "find_trace",
    "mean_rate_of",
    "own_rate_of",
    "separate_episodes",
    "span_of_part",
]

PREFIX = "pod/"
SHAPE_DAYS = 14
START_EVERY_S = 60
"""Episodes begin at whole minutes."""


@dataclass(frozen=True)
class Shape:
    """A rate of mean 1 for every second of 14 days, made when it is asked for."""

    name: str
    rates: Callable[[int, int], Floats]
    """`(first second, how many)`."""
    settings: Mapping[str, object] = field(default_factory=dict)


TraceMaker = Callable[[str, int], Shape | RateTrace]
"""`(variant, seed)`: what follows the colon in the name, and the luck."""

_HERE = "trimtab.pod_autoscaling.workload.presets"

TRACES: Registry[TraceMaker] = Registry(
    "trace",
    {
        "pod/azure-like": f"{_HERE}:azure_like",
        "pod/bursty": f"{_HERE}:bursty",
        "pod/clarknet-like": f"{_HERE}:clarknet_like",
        "pod/constant": f"{_HERE}:constant",
        "pod/diurnal": f"{_HERE}:diurnal",
        "pod/flash-crowd": f"{_HERE}:flash_crowd",
        "pod/noisy": f"{_HERE}:noisy",
        "pod/steps": f"{_HERE}:steps",
        "pod/twitter-like": f"{_HERE}:twitter_like",
        "pod/worldcup-like": f"{_HERE}:worldcup_like",
    },
    WORKLOAD_ENTRY_POINTS,
    prefix=PREFIX,
)


class TraceSettings(Settings):
    """What arrives at a service, and how much of it is one episode.

    The whole trace is scaled, not the episode: a busy hour stays busier than others.

    >>> TraceSettings(name="bursty", mean_cores=2).hours
    1.0
    """

    name: str = Field(
        default="diurnal", min_length=1, description="Name of a trace, or path of a trace file."
    )
    mean_cores: float = Field(
        default=4.0, gt=0, le=100_000, description="Cores that the work of the requests needs, on average."
    )
    most_rate: float = Field(
        default=400.0,
        gt=0,
        le=1e9,
        description="But no more requests per second than this on average; they are simulated one by one.",
    )
    mean_rate: float | None = Field(
        default=None, gt=0, le=1e9, description="Requests per second on average, instead of both."
    )
    hours: float = Field(default=1.0, gt=0, le=8784, description="Length of an episode.")
    part: Part = Field(default="all", description="Which time: all, training, validation or test.")
    rate_spread: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Each episode's rates differ from the trace by up to this share, for training.",
    )

    @model_validator(mode="after")
    def _whole_seconds(self) -> TraceSettings:
        if self.hours * 3600 < 1:
            raise ValueError(f"hours = {self.hours:g} is less than a second; raise it")
        return self


def draw_trace(
    settings: TraceSettings, application: Application, *, seed: int, part: Part | None = None
) -> RateTrace:
    """What arrives in one episode; the same seed gives the same to every policy.

    The episode lies within the part and begins at a minute that depends on the seed. With `all` it is the
    beginning of the trace. `part` overrides that of the settings.

    >>> from trimtab.pod_autoscaling.workload.applications import make_application
    >>> trace = draw_trace(TraceSettings(), make_application("textbook"), seed=5, part="test")
    >>> len(trace.rates), trace.step_s, trace.start_s // 86_400 in (11, 12, 13)
    (3600, 1.0, True)
    """
    part = part or settings.part
    found = find_trace(settings.name, seed=seed)
    begin_s, end_s = span_of_part(found, part)
    length_s = round(settings.hours * 3600)
    step_s = found.step_s if isinstance(found, RateTrace) else 1.0
    has_s = end_s - begin_s
    if length_s > has_s + 0.5 * step_s:
        raise WorkloadError(
            f"trace {settings.name}: its part {part!r} has {has_s / 3600:.3g} h, an episode needs "
            f"{settings.hours:g} h; lower hours (of train: --set ground.hours), or bring a longer trace"
        )
    if abs(length_s / step_s - round(length_s / step_s)) > 1e-6:
        raise WorkloadError(
            f"trace {settings.name}: an episode of {length_s} s is not a whole number of its steps of "
            f"{step_s:g} s; change hours"
        )
    if part != "all":
        every_s = max(START_EVERY_S, step_s)
        places = int((has_s - length_s + 1e-6) // every_s) + 1
        begin_s += every_s * int(integers(split(seed, "start"), 0, high=places))
    rate = mean_rate_of(settings, application)
    if settings.rate_spread:
        rate *= 1 + settings.rate_spread * (2 * float(uniform(split(seed, "rate"), 0)) - 1)
    if isinstance(found, RateTrace):
        return found.scaled(rate).between(begin_s, begin_s + length_s)
    rates = rate * found.rates(round(begin_s), length_s)
    provenance = Provenance(found.name, {**found.settings, "seed": seed, "mean_rate": rate})
    return RateTrace(rates, 1.0, provenance, start_s=begin_s, is_part=True)


def mean_rate_of(settings: TraceSettings, application: Application) -> float:
    """Requests per second of the whole trace on average, for this application.

    >>> app = Application()
    >>> (
    ...     app.cpu_s,
    ...     mean_rate_of(TraceSettings(mean_cores=4), app),
    ...     mean_rate_of(TraceSettings(mean_rate=7), app),
    ... )
    (0.02, 200.0, 7.0)
    """
    if settings.mean_rate is not None:
        return settings.mean_rate
    return min(settings.mean_cores / application.cpu_s, settings.most_rate)


def own_rate_of(name: str) -> float | None:
    """Requests per second of a trace file on average; a named trace is a shape and has none of its own.

    >>> own_rate_of("diurnal") is None
    True
    """
    if not _is_path(name):
        return None
    found = find_trace(name)
    return float(found.rates.mean()) if isinstance(found, RateTrace) else None


def separate_episodes(settings: TraceSettings, part: Part) -> int | None:
    """Episodes that fit into a part of a trace file side by side; None: every seed has hours of its own.

    >>> separate_episodes(TraceSettings(), "test") is None
    True
    """
    if not _is_path(settings.name):
        return None
    begin_s, end_s = span_of_part(find_trace(settings.name), part)
    return int((end_s - begin_s) / (settings.hours * 3600) + 1e-6)


def find_trace(name: str, *, seed: int = 0) -> Shape | RateTrace:
    """Look a trace up: a registered name, with a variant after a colon, or a file; unscaled."""
    if _is_path(name):
        return _file(name, Path(name).stat().st_mtime_ns if Path(name).is_file() else 0)
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    return _named(base, variant, seed)


def span_of_part(trace: Shape | RateTrace, part: Part) -> tuple[float, float]:
    """When a part begins and ends, in seconds from midnight of the first day.

    >>> import numpy as np
    >>> day = RateTrace(np.ones(14), 3600.0, Provenance("hours"))
    >>> [span_of_part(day, part)[1] / 3600 for part in ("training", "validation", "test")]
    [9.0, 11.0, 14.0]
    """
    if not isinstance(trace, RateTrace):
        first, last = split_days(0, SHAPE_DAYS, part)
        return first * DAY_S, last * DAY_S
    steps = len(trace.rates)
    if part == "all":
        return trace.start_s, trace.start_s + trace.length_s
    first_day, last_day = whole_days(trace)
    if last_day - first_day >= LEAST_DAYS:
        first, last = days_of_part(trace, part)
        return first * DAY_S, last * DAY_S
    if steps < LEAST_DAYS:
        raise WorkloadError(
            f"{trace.provenance.source}: {steps} steps cannot be split into training, validation and test; "
            "bring a longer trace, or use part = all"
        )
    first, last = split_days(0, steps, part)
    return trace.start_s + first * trace.step_s, trace.start_s + last * trace.step_s


def described_trace(name: str) -> str:
    """Say in one sentence what a trace is: the first line of its docstring."""
    return (TRACES.load(name).__doc__ or "").strip().split("\n")[0]


def diurnal(variant: str = "", seed: int = 0) -> Shape:
    """A wave per hour, as if a day were squeezed into it (Autothrottle's); `diurnal:24` takes 24 hours."""
    if variant and not (variant.isdigit() and int(variant) > 0):
        raise WorkloadError(f"diurnal:{variant}: the variant is the hours of a wave, such as diurnal:24")
    cycle_s = 3600 * int(variant or 1)
    return Shape(
        "diurnal",
        lambda first, count: generated.diurnal(seed, first, count, cycle_s=cycle_s),
        {"cycle_s": cycle_s},
    )


def noisy(variant: str = "", seed: int = 0) -> Shape:
    """A level that drifts and seconds that jump, fitted to Autothrottle's noisy hour."""
    return _shape("noisy", generated.noisy, variant, seed)


def bursty(variant: str = "", seed: int = 0) -> Shape:
    """Once an hour a burst of three times the level, fitted to Autothrottle's bursty hour."""
    return _shape("bursty", generated.bursty, variant, seed)


def azure_like(variant: str = "", seed: int = 0) -> Shape:
    """A function of Azure's trace of 2019, every seed another: clockworks, restless ones, timers, rushes."""
    return _shape("azure-like", generated.azure_like, variant, seed)


def flash_crowd(variant: str = "", seed: int = 0) -> Shape:
    """An even level; in most hours, within half a minute, four to six times as much."""
    return _shape("flash-crowd", generated.flash_crowd, variant, seed)


def steps(variant: str = "", seed: int = 0) -> Shape:
    """Levels that last 5 to 25 minutes and differ by up to a factor of four."""
    return _shape("steps", generated.steps, variant, seed)


def constant(variant: str = "", seed: int = 0) -> Shape:
    """Always the same rate."""
    return _shape("constant", generated.constant, variant, seed)


def clarknet_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A web server of 1995 minute by minute, fitted to ClarkNet-HTTP: busy afternoons, quiet weekends."""
    _refuse_variant("clarknet-like", variant)
    return whole.clarknet_like(seed, SHAPE_DAYS)


def worldcup_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A tournament's web site minute by minute, fitted to WorldCup98: up to nine times the mean."""
    _refuse_variant("worldcup-like", variant)
    return whole.worldcup_like(seed, SHAPE_DAYS)


def twitter_like(variant: str = "", seed: int = 0) -> RateTrace:
    """A message stream every ten seconds, fitted to Twitter's of 2021: a dozen sudden rushes a day."""
    _refuse_variant("twitter-like", variant)
    return whole.twitter_like(seed, SHAPE_DAYS)


def _shape(name: str, rates: Callable[[int, int, int], Floats], variant: str, seed: int) -> Shape:
    _refuse_variant(name, variant)
    return Shape(name, lambda first, count: rates(seed, first, count))


def _refuse_variant(name: str, variant: str) -> None:
    if variant:
        raise WorkloadError(f"trace {name!r} has no variants, but {variant!r} was asked for")


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".trace") or Path(name).is_file()


# Groups of rollouts ask for the same seed many times in a row; two weeks of minutes take 10 ms and 160 kB.
@lru_cache(maxsize=64)
def _named(base: str, variant: str, seed: int) -> Shape | RateTrace:
    try:
        maker = TRACES.load(PREFIX + base)
    except RegistryError as error:
        raise RegistryError(f"{error}, or the path of a .trace file") from None
    return maker(variant, seed)


@lru_cache(maxsize=4)
def _file(path: str, modified_ns: int) -> RateTrace:
    return load_trace(Path(path))
