"""Why an autoscaler of services decided as it did: what it saw, what it answered, what moved the answer.

Everything runs on numpy, for one service. To see what moved an answer, one number of the observation is put
to what it usually is in the episode (its median) and the network is asked again: the difference is what that
number did. What the rule measured stays as it is meanwhile, and so does what was read from the service's past
(the context), which has a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError
from trimtab.networks.actor_critic import actor_actions
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import (
    ACTION_PARTS,
    HEADROOM,
    PERCENTILES,
    POD_CPU,
    RATIOS,
    TARGETS,
    actuator_of,
    between,
)
from trimtab.pod_autoscaling.aware.design import Design
from trimtab.pod_autoscaling.aware.features import Observer, Seen, numbers_of
from trimtab.pod_autoscaling.aware.policy import Considered, LearnedPolicy
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.heuristics.measures import known, mean
from trimtab.pod_autoscaling.problem import (
    CPU,
    MEMORY,
    REPLICAS,
    SIZE,
    Floats,
    Services,
    Snapshot,
    allowed,
    nearest_allowed,
)

__all__ = [
    "PAST",
    "Belief",
    "Explanation",
    "Fact",
    "Influence",
    "Opinion",
    "Part",
    "explain",
    "opinion_of",
]

PAST = "what its past told (context)"
"""The name of the context among what moved an answer."""

_DAY_S = 86_400


class Part(NamedTuple):
    """One number of an answer, and what it means here."""

    name: str
    answer: float
    means: str


class Fact(NamedTuple):
    """One number that the network saw."""

    feature: str
    value: float
    usual: float
    """Its median over the episode."""
    behind: str
    """The metrics that it is made of, in words; empty where its name says all."""


class Influence(NamedTuple):
    """What a number being as it is, and not as usual, did to the answer."""

    feature: str
    moved: tuple[float, ...]
    """Of each part: the answer, less the answer with the usual number."""
    cores: float | None
    """Of all pods, likewise; None where sizes cannot be asked for twice (the kind ``knobs2`` remembers)."""


class Belief(NamedTuple):
    """What the context takes the service to be like, against what it is; in the scales of `profile`."""

    what: str
    seems: float
    truly: float
    in_units: str
    """The truth in its own unit."""


class Explanation(NamedTuple):
    """One decision of a trained policy; influences with the strongest first."""

    parts: list[Part]
    wanted: Floats  # [3]
    around: Floats  # [3]: what the rule wants that learning began from
    facts: list[Fact]
    influences: list[Influence]
    beliefs: list[Belief] | None  # None: nothing of the kind was learned


class Opinion(NamedTuple):
    """What a policy wants, and what may be done of it."""

    policy: str
    wanted: Floats  # [3]
    done: Floats  # [3]
    because: tuple[str, ...]
    """Why it is not what was wanted; empty where it is."""


def explain(
    policy: LearnedPolicy,
    thought: Considered,
    snapshot: Snapshot,
    *,
    others: Sequence[Considered],
    application: Application | None = None,
) -> Explanation:
    """Take a decision about one service apart.

    `others` are the decisions of the same episode, from which it is known what is usual; `application` is
    the truth, where there is somebody who knows it.
    """
    if len(snapshot.size) != 1:
        raise ActionError(f"{len(snapshot.size)} services; a decision is explained for one")
    usual = np.median([one.seen.observation[0] for one in others], axis=0)
    return Explanation(
        parts=_parts(policy.design, thought, snapshot),
        wanted=thought.wanted[0],
        around=thought.seen.rule[0],
        facts=_facts(policy.design, thought.seen, snapshot, usual),
        influences=_influences(policy, thought, snapshot, usual, _usual_context(others)),
        beliefs=_beliefs(thought, application),
    )


def opinion_of(policy: str, snapshot: Snapshot, wanted: Floats) -> Opinion:
    """What `problem.allowed` makes of a wish about one service, and why."""
    services, done = snapshot.services, allowed(snapshot, wanted)
    within = nearest_allowed(services, wanted)
    because: list[str] = []
    for column, name in enumerate(SIZE):
        # A wish between two steps of the grid is not refused.
        if abs(within[0, column] - wanted[0, column]) > services.quantum[0, column]:
            least, most = services.least[0, column], services.most[0, column]
            because.append(f"{name} may be {least:g} to {most:g}")
    if (done != within).any():
        because.append("monitoring does not answer, so nothing is made smaller")
    return Opinion(policy, wanted[0], done[0], tuple(because))


# --- what was answered -----------------------------------------------------------------------------


def _parts(design: Design, thought: Considered, snapshot: Snapshot) -> list[Part]:
    answers = [float(one) for one in thought.action[0]]
    means = _MEANINGS[design.actions](answers, design, thought.seen, snapshot.services)
    names = ACTION_PARTS[design.actions]
    return [Part(*one) for one in zip(names, answers, means, strict=True)]


def _around_rule(answers: list[float], design: Design, seen: Seen, services: Services) -> list[str]:
    headroom, rush, pod = answers
    held = f"{max(rush, 0.0):.0%} of the way to the {_told(seen.peak_cores[0])} cores of past rushes"
    cores = min(design.base_cpu * POD_CPU**pod, float(services.most[0, CPU]))
    return [
        f"work to prepare for times {HEADROOM**headroom:.2f}",
        held if rush > 0 else "past rushes are let go",
        f"calm pods of {cores:.2f} cores",
    ]


def _ratios(answers: list[float], design: Design, seen: Seen, services: Services) -> list[str]:
    return [f"times {base**answer:.2f}" for base, answer in zip(RATIOS, answers, strict=True)]


def _steps(answers: list[float], design: Design, seen: Seen, services: Services) -> list[str]:
    return ["done: the largest" if at == np.argmax(answers) else "" for at in range(len(answers))]


def _knobs(answers: list[float], design: Design, seen: Seen, services: Services) -> list[str]:
    target, percentile = (min(max(answer, -1.0), 1.0) for answer in answers)
    return [f"{round(between(TARGETS, target))} %", f"{between(PERCENTILES, percentile):.2f}"]


_MEANINGS: dict[str, Callable[[list[float], Design, Seen, Services], list[str]]] = {
    "around3": _around_rule,
    "logratio3": _ratios,
    "discrete7": _steps,
    "knobs2": _knobs,
}


# --- what was seen ---------------------------------------------------------------------------------


def _names(design: Design) -> tuple[str, ...]:
    """What each number of an observation is."""
    return (*numbers_of(design), *(f"{part}, answered before" for part in ACTION_PARTS[design.actions]))


def _facts(design: Design, seen: Seen, snapshot: Snapshot, usual: Floats) -> list[Fact]:
    behind = _behind(seen, snapshot)
    values = seen.observation[0]
    return [
        Fact(name, float(value), float(ordinary), behind.get(name, ""))
        for name, value, ordinary in zip(_names(design), values, usual, strict=True)
    ]


def _behind(seen: Seen, snapshot: Snapshot) -> dict[str, str]:
    """The metrics behind the features, by name."""
    return {**_load(snapshot), **_latencies(snapshot), **_sizes(seen, snapshot), **_foreseen(seen, snapshot)}


def _load(snapshot: Snapshot) -> dict[str, str]:
    samples = snapshot.samples
    rate, counts = samples.rate[0], known(snapshot, samples.rate)[0]
    now = f"{_told(rate[-1])} now"
    some = rate[counts] if counts.any() else np.array([np.nan])
    inside = f"{_told(samples.in_flight[0, -1])} requests inside"
    held = samples.ready[0, -1] * samples.cpu_limit[0, -1]
    return {
        "cpu utilisation": f"{_told(samples.cpu[0, -1])} of {_told(held)} cores used",
        "throttled": f"{samples.throttled[0, -1]:.0%} of the time",
        "load over usual": f"{_told(rate[-1])} requests/s",
        "load change": f"{_told(rate[-2])} requests/s, {now}",
        "load change of a minute": f"{_told(rate[-5] if len(rate) >= 5 else rate[0])} requests/s, {now}",
        "highest load over present": f"{_told(some.max())} requests/s, {now}",
        "lowest load over present": f"{_told(some.min())} requests/s, {now}",
        "mean load over present": f"{_told(some.mean())} requests/s, {now}",
        "requests inside per core": f"{inside}, {_told(held)} cores",
        "requests inside per pod": f"{inside}, {_told(samples.ready[0, -1])} pods",
        "metrics missing": "no" if counts[-1] else "yes",
    }


def _latencies(snapshot: Snapshot) -> dict[str, str]:
    samples, services = snapshot.samples, snapshot.services
    limit = f"limit {_told(1000 * services.slo_s[0])} ms"
    budget = f"budget {100 * services.budget[0]:g} %"
    counts = known(snapshot, samples.rate)
    tail = known(snapshot, samples.latency_p99_s) & (samples.latency_p99_s > 0)
    lately = mean(samples.latency_p99_s, tail)[0]
    return {
        "tail latency over limit": f"p99 {_told(1000 * samples.latency_p99_s[0, -1])} ms, {limit}",
        "median latency over limit": f"median {_told(1000 * samples.latency_p50_s[0, -1])} ms, {limit}",
        "tail latency lately over limit": f"p99 {_told(1000 * lately)} ms, {limit}",
        "failed": f"{_share(samples.failed[0, -1])} of the requests",
        "late": f"{_share(samples.late[0, -1])} of the requests, {budget}",
        "late lately": f"{_share(mean(samples.late, counts)[0])} of the requests, {budget}",
    }


def _sizes(seen: Seen, snapshot: Snapshot) -> dict[str, str]:
    samples, size, rule = snapshot.samples, snapshot.size[0], seen.rule[0]
    seconds = int(snapshot.now_s[0] % _DAY_S)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    kills = np.where(samples.present[0], samples.kills[0], 0.0).sum()
    span_s = snapshot.interval_s * samples.present.shape[1]
    return {
        "memory utilisation": f"{_told(samples.memory[0, -1])} of {_told(samples.memory_limit[0, -1])} MiB",
        "replicas": f"{size[REPLICAS]:.0f}",
        "ready over replicas": f"{snapshot.ready[0]} of {size[REPLICAS]:.0f}",
        "pod cpu": f"{_told(size[CPU])} cores",
        "pod memory": f"{_told(size[MEMORY])} MiB",
        "out of memory lately": f"{kills:.0f} kills in {span_s / 60:g} min",
        "time of day, sine": clock,
        "time of day, cosine": clock,
        "reward": f"{seen.reward[0]:.2f}",
        "rule's replicas over present": f"{rule[REPLICAS]:.0f}, now {size[REPLICAS]:.0f}",
        "rule's cpu over present": f"{_told(rule[CPU])} cores of a pod, now {_told(size[CPU])}",
        "rule's memory over present": f"{_told(rule[MEMORY])} MiB, now {_told(size[MEMORY])}",
        "rule's cores over present": f"{_told(_cores(rule))} cores, now {_told(_cores(size))}",
        "resizing": "yes" if snapshot.resizing[0] else "no",
        "refused by nodes": "yes" if snapshot.infeasible[0] else "no",
    }


def _foreseen(seen: Seen, snapshot: Snapshot) -> dict[str, str]:
    measured, behaviour = seen.measured, seen.measured.behaviour
    foreseen = f"{_told(measured.cores[0])} cores foreseen"
    limit = f"limit {_told(1000 * snapshot.services.slo_s[0])} ms"
    return {
        "forecast over use": f"{foreseen}, {_told(snapshot.samples.cpu[0, -1])} used",
        "highest load over forecast": f"{foreseen}, {_told(measured.cores_lately[0])} needed lately",
        "forecast over cores": f"{foreseen}, {_told(_cores(snapshot.size[0]))} held",
        "work over limit": f"{_told(1000 * behaviour.work_s[0])} ms of CPU for a request, {limit}",
        "time outside over limit": f"{_told(1000 * behaviour.outside_s[0])} ms, {limit}",
        "tail over mean latency": f"{_told(behaviour.tail[0])} times",
        "memory peak over usual": f"{_told(measured.memory[0])} MiB, {_told(measured.memory_usual[0])} usual",
        "usual cores": f"{_told(seen.usual_cores[0])} cores",
        "peak of an hour over present": f"{_told(seen.peak_cores[0])} cores needed then",
    }


def _cores(size: Floats) -> float:
    return float(size[REPLICAS] * size[CPU])


def _told(value: float) -> str:
    """Three digits, or so many as there are before the point.

    >>> _told(0.2468), _told(24.68), _told(2468.0), _told(float("nan"))
    ('0.247', '24.7', '2,468', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{100 * value:.2f} %" if math.isfinite(value) else "unknown"


# --- what moved the answer -------------------------------------------------------------------------


def _usual_context(others: Sequence[Considered]) -> NDArray[np.float32] | None:
    found = [one.context[0] for one in others if one.context is not None]
    return np.median(found, axis=0).astype(np.float32) if found else None


def _influences(
    policy: LearnedPolicy,
    thought: Considered,
    snapshot: Snapshot,
    usual: Floats,
    usual_context: NDArray[np.float32] | None,
) -> list[Influence]:
    """Ask the network about all changed observations at once; the context comes last."""
    design, names = policy.design, list(_names(policy.design))
    numbers = len(names)
    rows = numbers + (usual_context is not None)
    observations = np.repeat(thought.seen.observation, rows, axis=0)
    places = np.arange(numbers)
    observations[places, places] = usual
    contexts = None
    if thought.context is not None and usual_context is not None:
        contexts = np.repeat(thought.context, rows, axis=0)
        contexts[-1] = usual_context
        names.append(PAST)
    answers = actor_actions(policy.parameters["actor"], observations, contexts, design.networks, np)
    moved = thought.answer[0].astype(np.float64) - answers
    # What is done goes towards an answer only so far.
    share = float(thought.share[0])
    done = (thought.action + share * (answers - thought.answer)).astype(np.float32)
    cores = _cores_moved(design, thought, snapshot, answers if share == 1 else done)
    told = [
        Influence(name, tuple(float(one) for one in row), None if cores is None else float(cores[at]))
        for at, (name, row) in enumerate(zip(names, moved, strict=True))
    ]
    return sorted(told, key=lambda one: -sum(abs(part) for part in one.moved))


def _cores_moved(
    design: Design, thought: Considered, snapshot: Snapshot, answers: NDArray[np.float32]
) -> Floats | None:
    """Cores of all pods that are wanted, less those that each of these answers would want, [rows]."""
    if design.actions == "knobs2":
        return None
    services = snapshot.services
    actuator = actuator_of(services, design, Observer(services, design))
    wanted = [actuator.sized(one[None], snapshot, thought.seen)[0] for one in answers]
    return _cores(thought.wanted[0]) - np.array([_cores(one) for one in wanted])


# --- what the service seems to be like -------------------------------------------------------------


def _beliefs(thought: Considered, application: Application | None) -> list[Belief] | None:
    if thought.profile is None or application is None:
        return None
    truth, units = profile_of(application), _in_units(application)
    return [
        Belief(what, float(seems), float(truly), unit)
        for what, seems, truly, unit in zip(PROFILE, thought.profile[0], truth, units, strict=True)
    ]


def _in_units(one: Application) -> tuple[str, ...]:
    """The numbers of `PROFILE`, as people write them."""
    return (
        f"{_told(1000 * one.cpu_s)} ms of CPU",
        f"{_told(one.cpu_variation)} (squared coefficient)",
        f"{_told(1000 * one.io_s)} ms",
        f"{_told(one.slo_s / one.unloaded_p99_s)} times",
        f"{_told(one.memory_mib)} MiB",
        f"{_told(one.memory_per_request_mib)} MiB",
        f"{_told(one.start_s)} s",
    )
