"""Applications by name: 1,000 synthetic ones, any chain of functions, a few by hand, or a file.

A synthetic application is an ordered combination of one to three functions, as AWARE's are: all 11 functions
alone, all 121 pairs, and 868 of the 1,331 triples. Its numbers are drawn within the functions' ranges by a
hash of (seed, name), so `synthetic:17` is the same on every machine, and another seed is another service of
the same functions.

How numbers of functions become those of a pod, which holds all of them:

- An idle pod needs what the largest function needs: they share one runtime.
- A request needs what the function needs that it is inside: the mean over the time it spends in each.
- The more of its time a request spends outside, the more of them a pod works on at a time (`workers`): enough
  for two to four busy cores. It holds back half as many more, or as fit into 150 to 400 MiB, and refuses the
  rest: those who run a service give its pods a queue that does not kill them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.randomness import split, uniform
from trimtab.core.registry import Registry
from trimtab.core.settings import load_settings, settings_as_toml
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.workload.profiles import LOCAL, PROFILES, STORAGE, Span, profile_of
from trimtab.rates.parts import Part, split_days

__all__ = [
    "APPLICATIONS",
    "APPLICATION_ENTRY_POINTS",
    "BY_HAND",
    "PREFIX",
    "ApplicationMaker",
    "application_names",
    "described_application",
    "draw_application",
    "load_application",
    "make_application",
    "save_application",
    "synthetic_chains",
]

PREFIX = "pod/"
APPLICATION_ENTRY_POINTS = "trimtab.applications"
BY_HAND = ("textbook", "web", "thumbnails", "inference", "video")
SYNTHETIC, OUTSIDE = 1000, 200
LONGEST_CHAIN = 3

ApplicationMaker = Callable[[str, int], Application]
"""`(variant, seed)`: what follows the colon in the name, and luck for what is drawn."""

_HERE = "trimtab.pod_autoscaling.workload.applications"

APPLICATIONS: Registry[ApplicationMaker] = Registry(
    "application",
    {
        **{f"{PREFIX}{name}": f"{_HERE}:{name}" for name in BY_HAND},
        f"{PREFIX}storage": f"{_HERE}:storage",
        f"{PREFIX}synthetic": f"{_HERE}:synthetic",
    },
    APPLICATION_ENTRY_POINTS,
    prefix=PREFIX,
)

START_S = (3.0, 20.0)
START_SPREAD = (0.15, 0.4)
START_CPU_S = (0.3, 3.0)
SLO_FACTOR = (1.5, 4.0)
VARIATION_SCALE = (0.7, 1.4)
CACHE_CHANCE, CACHE_MIB, CACHE_REQUESTS = 0.3, (20.0, 300.0), (2_000.0, 50_000.0)
LEAK_CHANCE, LEAK_MIB_PER_HOUR = 0.1, (1.0, 20.0)
WORKERS = (8, 512)
BUSY_CORES = 2
ROOM_MIB = (150.0, 400.0)
"""Memory of requests that a pod takes in; with 85 MiB of its own, one of 512 MiB is not killed by it."""
TIMEOUT_S = 30.0


def make_application(name: str, *, seed: int = 0) -> Application:
    """Look an application up: a name, functions joined by plus signs, or the path of a profile (.toml).

    >>> [segment.name for segment in make_application("matMul+sleep").segments]
    ['matMul', 'sleep']
    >>> make_application("synthetic:17") == make_application("synthetic:17", seed=1)
    False
    """
    if _is_path(name):
        return load_application(Path(name))
    base, _, variant = name.removeprefix(PREFIX).partition(":")
    functions = base.split("+")
    if not variant and (len(functions) > 1 or base in PROFILES):
        return draw_application(base, functions, seed=seed)
    try:
        maker = APPLICATIONS.load(PREFIX + base)
    except RegistryError as error:
        raise RegistryError(
            f"{error}, functions such as compress+sleep, or the path of a profile (.toml)"
        ) from None
    return maker(variant, seed)


def draw_application(name: str, functions: Sequence[str], *, seed: int) -> Application:
    """An application of these functions, its numbers drawn by a hash of the seed and the name."""
    if not 1 <= len(functions) <= LONGEST_CHAIN:
        raise WorkloadError(
            f"{name}: {len(functions)} functions; a request passes through 1 to {LONGEST_CHAIN}"
        )
    luck = split(seed, "application", name)
    profiles = [profile_of(function) for function in functions]
    segments = tuple(
        _segment(function, split(luck, "segment", place)) for place, function in enumerate(functions)
    )
    bare = Application(name=name, segments=segments, slo_factor=_drawn(luck, "slo", SLO_FACTOR))
    largest = max(profiles, key=lambda profile: profile.memory_mib[1])
    request_mib = _request_mib(segments, luck)
    wanted = BUSY_CORES * bare.unloaded_s / bare.cpu_s * (1 + float(uniform(split(luck, "workers"), 0)))
    workers = int(np.clip(2 ** round(np.log2(wanted)), *WORKERS))
    inside = max(workers * 3 // 2, int(_drawn(luck, "room", ROOM_MIB) / request_mib))
    has_cache = uniform(split(luck, "has cache"), 0) < CACHE_CHANCE
    has_leak = uniform(split(luck, "has leak"), 0) < LEAK_CHANCE
    drawn = {
        "workers": workers,
        "queue": inside - workers,
        # Nobody waits less for an answer than is still in time.
        "timeout_s": max(TIMEOUT_S, _rounded(2 * bare.slo_s)),
        "memory_mib": _drawn(luck, "memory", largest.memory_mib),
        "memory_per_request_mib": request_mib,
        "cache_mib": _drawn(luck, "cache", CACHE_MIB) if has_cache else 0.0,
        "cache_requests": _drawn(luck, "cache requests", CACHE_REQUESTS),
        "leak_mib_per_hour": _drawn(luck, "leak", LEAK_MIB_PER_HOUR) if has_leak else 0.0,
        "start_s": _drawn(luck, "start", START_S),
        "start_spread": _drawn(luck, "start spread", START_SPREAD),
        "start_cpu_s": _drawn(luck, "start cpu", START_CPU_S),
    }
    return Application(**{**bare.model_dump(), **drawn})


def _request_mib(segments: Sequence[Segment], luck: int) -> float:
    """Memory of a request, on average over its way through an idle pod."""
    time_ms = [segment.cpu_ms + segment.io_ms for segment in segments]
    memory_mib = [
        _drawn(split(luck, "segment", place), "memory", profile_of(segment.name).memory_per_request_mib)
        for place, segment in enumerate(segments)
    ]
    return _rounded(float(np.average(memory_mib, weights=time_ms)))


def _segment(function: str, luck: int) -> Segment:
    profile = profile_of(function)
    return Segment(
        name=function,
        cpu_ms=_drawn(luck, "cpu", profile.cpu_ms),
        cpu_variation=_rounded(profile.cpu_variation * _drawn(luck, "cpu variation", VARIATION_SCALE)),
        io_ms=_drawn(luck, "io", profile.io_ms),
        io_variation=_rounded(profile.io_variation * _drawn(luck, "io variation", VARIATION_SCALE)),
    )


def _drawn(luck: int, what: str, span: Span) -> float:
    """Log-uniform within a range, or uniform where it begins at 0."""
    low, high = span
    draw = float(uniform(split(luck, what), 0))
    return _rounded(low * (high / low) ** draw if low > 0 else high * draw)


def _rounded(value: float) -> float:
    """Four significant digits: short in a file, and not at the mercy of a machine's last bit."""
    return float(f"{value:.4g}")


@lru_cache(maxsize=1)
def synthetic_chains() -> tuple[tuple[str, ...], ...]:
    """The functions of `synthetic:0` to `synthetic:999`, shuffled: every part has short and long chains.

    >>> chains = synthetic_chains()
    >>> [sum(len(chain) == length for chain in chains) for length in (1, 2, 3)]
    [11, 121, 868]
    """
    short = [chain for length in (1, 2) for chain in itertools.product(LOCAL, repeat=length)]
    triples = _shuffled(list(itertools.product(LOCAL, repeat=3)), "triples")
    return tuple(_shuffled(short + triples[: SYNTHETIC - len(short)], "applications"))


@lru_cache(maxsize=1)
def _storage_chains() -> tuple[tuple[str, ...], ...]:
    every = [
        chain
        for length in (1, 2, 3)
        for chain in itertools.product((*LOCAL, *STORAGE), repeat=length)
        if set(chain) & set(STORAGE)
    ]
    return tuple(_shuffled(every, "storage")[:OUTSIDE])


def _shuffled(chains: list[tuple[str, ...]], what: str) -> list[tuple[str, ...]]:
    return [chains[place] for place in np.argsort(uniform(split(0, what), np.arange(len(chains))))]


def application_names(part: Part = "all") -> tuple[str, ...]:
    """Names of the synthetic applications of a part: 643 for training, 143 for validation, 214 for tests.

    No combination of functions is in two parts.

    >>> [len(application_names(part)) for part in ("training", "validation", "test")]
    [643, 143, 214]
    """
    first, last = split_days(0, SYNTHETIC, part)
    return tuple(f"synthetic:{number}" for number in range(first, last))


def described_application(name: str) -> str:
    """Say in one sentence what an application is: the first line of its maker's docstring."""
    return (APPLICATIONS.load(name).__doc__ or "").strip().split("\n")[0]


def synthetic(variant: str = "", seed: int = 0) -> Application:
    """One of the 1,000 chains of one to three functions; `synthetic:17` is the eighteenth."""
    return _numbered("synthetic", variant, synthetic_chains(), seed)


def storage(variant: str = "", seed: int = 0) -> Application:
    """One of 200 chains that also use storage over the network, like none of the 1,000; `storage:3`."""
    return _numbered("storage", variant, _storage_chains(), seed)


def textbook(variant: str = "", seed: int = 0) -> Application:
    """One function: 20 ms of work and 30 ms of waiting, as varied as exponentials; for docs and tests."""
    _refuse_variant("textbook", variant)
    segment = Segment(cpu_ms=20, cpu_variation=1, io_ms=30, io_variation=1)
    return Application(name="textbook", segments=(segment,), start_s=20, start_spread=0.2, memory_mib=120)


def web(variant: str = "", seed: int = 0) -> Application:
    """A page of a shop: 5 ms of work, a database behind it, a cache that fills."""
    _refuse_variant("web", variant)
    segments = (
        Segment(name="page", cpu_ms=3.5, cpu_variation=0.5, io_ms=0),
        Segment(name="database", cpu_ms=1.5, cpu_variation=0.5, io_ms=12, io_variation=1.5),
    )
    return Application(
        name="web", segments=segments, workers=128, queue=1024, memory_mib=150, memory_per_request_mib=0.7,
        cache_mib=200, start_s=6, slo_factor=3,
    )  # fmt: skip


def thumbnails(variant: str = "", seed: int = 0) -> Application:
    """Real pictures, read from storage and made small: 300 ms of work, much memory for each."""
    _refuse_variant("thumbnails", variant)
    segments = (
        Segment(name="read", cpu_ms=6, cpu_variation=1, io_ms=50, io_variation=1),
        Segment(name="resize", cpu_ms=280, cpu_variation=0.6),
        Segment(name="write", cpu_ms=6, cpu_variation=1, io_ms=80, io_variation=1),
    )
    return Application(
        name="thumbnails", segments=segments, workers=12, queue=8, memory_mib=90, memory_per_request_mib=20,
        start_s=5,
    )  # fmt: skip


def inference(variant: str = "", seed: int = 0) -> Application:
    """A small neural network: 150 ms of even work on up to two cores, a slow start that burns CPU."""
    _refuse_variant("inference", variant)
    segment = Segment(name="forward", cpu_ms=150, cpu_variation=0.1)
    return Application(
        name="inference", segments=(segment,), cores_per_request=2, workers=8, queue=12, memory_mib=300,
        memory_per_request_mib=10, start_s=15, start_cpu_s=12, slo_factor=2.5,
    )  # fmt: skip


def video(variant: str = "", seed: int = 0) -> Application:
    """Frames of a film: 700 ms of even work, 25 MiB for each, and memory that leaks."""
    _refuse_variant("video", variant)
    segment = Segment(name="decode", cpu_ms=700, cpu_variation=0.1, io_ms=5)
    return Application(
        name="video", segments=(segment,), workers=8, queue=4, memory_mib=200, memory_per_request_mib=25,
        leak_mib_per_hour=10, start_s=10, timeout_s=60,
    )  # fmt: skip


def _numbered(name: str, variant: str, chains: Sequence[Sequence[str]], seed: int) -> Application:
    if not variant.isdigit() or int(variant) >= len(chains):
        raise WorkloadError(f"{name}:{variant}: give a number from 0 to {len(chains) - 1}, such as {name}:17")
    return draw_application(f"{name}:{int(variant)}", chains[int(variant)], seed=seed)


def _refuse_variant(name: str, variant: str) -> None:
    if variant:
        raise WorkloadError(f"application {name!r} has no variants, but {variant!r} was asked for")


def save_application(application: Application, path: str | Path) -> None:
    """Write a profile as TOML that people can read and edit."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(settings_as_toml(application), encoding="utf-8")
    partial.replace(path)


def load_application(path: str | Path) -> Application:
    """Read a profile, or say in one line why it cannot be read."""
    try:
        application = load_settings(Application, path)
    except SettingsError as error:
        raise WorkloadError(f"{error}; `trimtab fit-profile` writes such files") from None
    if not application.model_fields_set:
        raise WorkloadError(f"{path}: says nothing of a service; `trimtab fit-profile` writes such files")
    return application


def _is_path(name: str) -> bool:
    return "/" in name.removeprefix(PREFIX) or name.endswith(".toml") or Path(name).is_file()
