"""Every policy for DAG scheduling by name, with the settings it may be given.

`make_policy("weighted-fair:alpha=-0.5")` is the door for the command line and for tables. Other
packages add names through the entry point group ``trimtab.policies`` (``"dag/my-rule"``): a `Rule`,
or a class or function whose keyword arguments are the settings.

Trained policies are bundles on disk. Those that come with trimtab have the name of their folder; any
other is named by its path: the folder of the bundle, or the run folder that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle
from trimtab.core.policy import Parameter, Policy
from trimtab.core.policy_book import PolicyBook
from trimtab.dag_scheduling import heuristics
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.problem import Action, Snapshot

__all__ = [
    "POLICIES",
    "PREFIX",
    "DagPolicy",
    "described",
    "find_bundle",
    "make_policy",
    "parse_policy",
    "short_name",
]

DagPolicy = Policy[Snapshot, Action]
PREFIX = "dag/"

_HERE = "trimtab.dag_scheduling.policies"

_ALPHAS = tuple(round(-2.0 + 0.1 * step, 1) for step in range(41))
_KAPPAS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
_POWERS = tuple(round(0.05 * step, 2) for step in range(21))


def fifo() -> Rule:
    """Jobs in order of arrival; each takes every executor it can use."""
    return Rule("fifo", heuristics.fifo)


def fair() -> Rule:
    """Equal shares of the executors for all jobs; executors stay where they are of use."""
    return Rule("fair", heuristics.fair)


def sjf_cp() -> Rule:
    """The job with least total work takes all it can use, its critical path first (SJF-CP)."""
    return Rule("sjf-cp", heuristics.shortest_job_first)


def weighted_fair() -> Rule:
    """Shares go as total work to the power alpha: 0 is fair, below 0 favours small jobs."""
    alpha = Parameter("alpha", -1.0, "power of a job's total work in its share", _ALPHAS, low=-10, high=10)
    return Rule("weighted-fair", heuristics.weighted_fair, (alpha,))


def naive_weighted_fair() -> Rule:
    """Shares in proportion to total work: large jobs get most executors."""
    alpha = Parameter("alpha", 1.0, "power of a job's total work in its share; fixed", low=-10, high=10)
    return Rule("naive-weighted-fair", heuristics.weighted_fair, (alpha,))


def tetris() -> Rule:
    """The stage whose demand fits what is free best; `shortness` prefers short jobs (Tetris)."""
    grid = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
    shortness = Parameter(
        "shortness", 1.0, "weight of remaining work against the fit", grid, low=0, high=1000
    )
    return Rule("tetris", heuristics.tetris, (shortness,))


def graphene() -> Rule:
    """Troublesome stages of a job first, jobs shared as in weighted fair (Graphene*)."""
    parts = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9)
    memories = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0)
    return Rule(
        "graphene",
        heuristics.graphene,
        (
            Parameter("alpha", -1.0, "power of a job's total work in its share", _ALPHAS, low=-10, high=10),
            Parameter("large_part", 0.25, "share of its job's work that makes trouble", parts, low=0, high=1),
            Parameter(
                "much_memory", 0.8, "memory demand that makes a stage trouble", memories, low=0, high=2
            ),
        ),
    )


def capped_srpt() -> Rule:
    """Least remaining work first, each job capped at kappa * work^power executors."""
    return Rule("capped-srpt", heuristics.capped_srpt, _srpt_parameters(stay=1.0))


def capped_srpt_local() -> Rule:
    """Capped SRPT whose executors stay with a job as long as it can use them at all."""
    return Rule("capped-srpt-local", heuristics.capped_srpt, _srpt_parameters(stay=2.0))


def packed_srpt() -> Rule:
    """Capped SRPT for executors of several sizes: small jobs first, and little memory wasted."""
    kappa, power, _ = _srpt_parameters(stay=0.0)
    wastes = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0)
    loyalties = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
    return Rule(
        "packed-srpt",
        heuristics.packed_srpt,
        (
            kappa,
            power,
            Parameter(
                "waste",
                4.0,
                "how much memory left idle weighs against remaining work",
                wastes,
                low=0,
                high=100,
            ),
            Parameter(
                "loyalty", 0.3, "how small a job looks to executors that are there", loyalties, low=0, high=1
            ),
        ),
    )


def random() -> Rule:
    """A random stage and a random limit: the floor that any scheduler must beat."""
    seed = Parameter("seed", 0.0, "number that fixes the choices", low=0, high=1000000000)
    return Rule("random", heuristics.random_choice, (seed,))


def _srpt_parameters(*, stay: float) -> tuple[Parameter, ...]:
    return (
        Parameter(
            "kappa", 0.15, "executors of a job with one executor-second of work", _KAPPAS, low=0, high=1000
        ),
        Parameter("power", 0.67, "how the cap grows with a job's work", _POWERS, low=0, high=3),
        Parameter("stay", stay, "0: executors go anywhere, 1: stay within the cap, 2: stay", low=0, high=2),
    )


def _practised(bundle: Bundle) -> str:
    """What a bundle was trained on."""
    return "; ".join(_courses_in_words(bundle.manifest["trained"].get("courses", [])))


def _courses_in_words(courses: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was practised; courses that differ in their load or their executors alone are one."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for course in courses:
        jobs = course["workload"]
        pace = {"batch": "at once", "poisson": "in streams"}.get(jobs["arrivals"], "as in the trace")
        kinds.setdefault(f"{jobs['jobs']} jobs of {jobs['name']} {pace}", []).append(course)
    said = []
    for kind, alike in kinds.items():
        loads = [course["workload"]["load"] for course in alike if course["workload"].get("load")]
        at = f" at load{'s' if len(set(loads)) > 1 else ''} {_span_in_words(loads)}" if loads else ""
        executors = _span_in_words([course["cluster"]["executors"] for course in alike])
        said.append(f"{kind}{at}, {executors} executors")
    return said


def _span_in_words(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


POLICIES = PolicyBook(
    PREFIX,
    {
        "capped-srpt": f"{_HERE}:capped_srpt",
        "capped-srpt-local": f"{_HERE}:capped_srpt_local",
        "fair": f"{_HERE}:fair",
        "fifo": f"{_HERE}:fifo",
        "graphene": f"{_HERE}:graphene",
        "naive-weighted-fair": f"{_HERE}:naive_weighted_fair",
        "packed-srpt": f"{_HERE}:packed_srpt",
        "random": f"{_HERE}:random",
        "sjf-cp": f"{_HERE}:sjf_cp",
        "tetris": f"{_HERE}:tetris",
        "weighted-fair": f"{_HERE}:weighted_fair",
    },
    kinds={
        "decima": "trimtab.dag_scheduling.decima.policy:DecimaPolicy",
        "decima-compact": "trimtab.dag_scheduling.decima.compact:compact_policy",
    },
    bundles=Path(str(files("trimtab.dag_scheduling").joinpath("decima", "bundles"))),
    deciding="decide",
    example="weighted-fair:alpha=-0.5",
    told=_practised,
)
parse_policy, short_name = POLICIES.parse, POLICIES.short_name
described, find_bundle = POLICIES.described, POLICIES.find_bundle


def make_policy(name: str, values: Mapping[str, float] | None = None) -> DagPolicy:
    """Make the policy of that name; settings may stand in the name or in `values`.

    A policy with settings of its own carries them in its name, so a table can show two of a kind.

    >>> make_policy("fair").name
    'fair'
    >>> make_policy("weighted-fair:alpha=-0.5").name
    'weighted-fair:alpha=-0.5'
    >>> make_policy("weighted-fair", {"alpha": 0.25}).name
    'weighted-fair:alpha=0.25'
    """
    return POLICIES.make(name, values)
