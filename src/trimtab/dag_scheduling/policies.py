"""Every policy for DAG scheduling by name, with the settings it may be given.

`make_policy("weighted-fair:alpha=-0.5")` is the door for the command line and for tables. Other
packages add names through the entry point group ``trimtab.policies`` (``"dag/my-rule"``): a `Rule`,
or a class or function whose keyword arguments are the settings.

Trained policies are bundles on disk. Those that come with trimtab have the name of their folder; any
other is named by its path: the folder of the bundle, or the run folder that holds it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import BundleError, RegistryError, SettingsError
from trimtab.core.policy import Policy
from trimtab.core.registry import POLICY_ENTRY_POINTS, Registry
from trimtab.dag_scheduling import heuristics
from trimtab.dag_scheduling.heuristics import Parameter, Rule
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
    "tunable_parameters",
]

DagPolicy = Policy[Snapshot, Action]
PREFIX = "dag/"

_HERE = "trimtab.dag_scheduling.policies"
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class _Trained:
    """A bundle on disk that is loaded when called."""

    folder: Path
    name: str

    def __call__(self) -> Any:
        bundle = load_bundle(self.folder)
        policy = _KINDS.load(bundle.kind)(bundle)
        # What a user writes to get it, so that two runs of one preset are told apart in a table.
        policy.name = self.name
        return policy

    def sentence(self) -> str:
        """Say what it was trained on."""
        bundle = load_bundle(self.folder)
        told = "; ".join(_courses_in_words(bundle.manifest["trained"].get("courses", [])))
        return f"Learned ({bundle.kind}){': ' if told else ''}{told}."


class _Policies(Registry[Any]):
    """Names of rules, and of the trained policies in the package; the latter are found when asked for."""

    def _targets(self) -> dict[str, str]:
        trained = {PREFIX + folder.name: str(folder) for folder in _shipped_folders()}
        return {**trained, **super()._targets()}

    def _import(self, name: str, target: str) -> Any:
        if (Path(target) / _MANIFEST).is_file():
            return _Trained(Path(target), short_name(name))
        return super()._import(name, target)


# Named, not imported: a rule needs nothing of what trained policies are made of.
_KINDS: Registry[Any] = Registry(
    "kind of trained policy", {"decima": "trimtab.dag_scheduling.decima.policy:DecimaPolicy"}
)

POLICIES: Registry[Any] = _Policies(
    "policy",
    {
        "dag/capped-srpt": f"{_HERE}:capped_srpt",
        "dag/capped-srpt-local": f"{_HERE}:capped_srpt_local",
        "dag/fair": f"{_HERE}:fair",
        "dag/fifo": f"{_HERE}:fifo",
        "dag/graphene": f"{_HERE}:graphene",
        "dag/naive-weighted-fair": f"{_HERE}:naive_weighted_fair",
        "dag/packed-srpt": f"{_HERE}:packed_srpt",
        "dag/random": f"{_HERE}:random",
        "dag/sjf-cp": f"{_HERE}:sjf_cp",
        "dag/tetris": f"{_HERE}:tetris",
        "dag/weighted-fair": f"{_HERE}:weighted_fair",
    },
    POLICY_ENTRY_POINTS,
    prefix=PREFIX,
)

# Beyond these a share or a cap is no longer a number (work to the power 100) or means nothing.
_RANGES: Mapping[str, tuple[float, float]] = {
    "alpha": (-10.0, 10.0),
    "kappa": (0.0, 1000.0),
    "power": (0.0, 3.0),
    "stay": (0.0, 2.0),
    "waste": (0.0, 100.0),
    "loyalty": (0.0, 1.0),
    "shortness": (0.0, 1000.0),
    "large_part": (0.0, 1.0),
    "much_memory": (0.0, 2.0),
    "seed": (0.0, 1e9),
}
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
    alpha = Parameter("alpha", -1.0, "power of a job's total work in its share", _ALPHAS)
    return Rule("weighted-fair", heuristics.weighted_fair, (alpha,))


def naive_weighted_fair() -> Rule:
    """Shares in proportion to total work: large jobs get most executors."""
    alpha = Parameter("alpha", 1.0, "power of a job's total work in its share; fixed")
    return Rule("naive-weighted-fair", heuristics.weighted_fair, (alpha,))


def tetris() -> Rule:
    """The stage whose demand fits what is free best; `shortness` prefers short jobs (Tetris)."""
    grid = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
    shortness = Parameter("shortness", 1.0, "weight of remaining work against the fit", grid)
    return Rule("tetris", heuristics.tetris, (shortness,))


def graphene() -> Rule:
    """Troublesome stages of a job first, jobs shared as in weighted fair (Graphene*)."""
    parts = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9)
    memories = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0)
    return Rule(
        "graphene",
        heuristics.graphene,
        (
            Parameter("alpha", -1.0, "power of a job's total work in its share", _ALPHAS),
            Parameter("large_part", 0.25, "share of its job's work that makes trouble", parts),
            Parameter("much_memory", 0.8, "memory demand that makes a stage trouble", memories),
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
            Parameter("waste", 4.0, "how much memory left idle weighs against remaining work", wastes),
            Parameter("loyalty", 0.3, "how small a job looks to executors that are there", loyalties),
        ),
    )


def random() -> Rule:
    """A random stage and a random limit: the floor that any scheduler must beat."""
    seed = Parameter("seed", 0.0, "number that fixes the choices")
    return Rule("random", heuristics.random_choice, (seed,))


def _srpt_parameters(*, stay: float) -> tuple[Parameter, ...]:
    return (
        Parameter("kappa", 0.15, "executors of a job with one executor-second of work", _KAPPAS),
        Parameter("power", 0.67, "how the cap grows with a job's work", _POWERS),
        Parameter("stay", stay, "0: executors go anywhere, 1: stay within the cap, 2: stay"),
    )


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
    if _is_path(name):
        base, written, thing = name, {}, _Trained(find_bundle(name), name)
    else:
        base, written = parse_policy(name)
        thing = POLICIES.load(PREFIX + base)
    wanted = {**written, **(values or {})}
    if isinstance(thing, _Trained) and wanted:
        raise SettingsError(f"policy {base!r} is trained and has no settings; leave out {', '.join(wanted)}")
    made = thing if isinstance(thing, Rule) else _called(base, thing, {})
    if isinstance(made, Rule):
        return _with_values(base, made, wanted)
    if wanted:
        made = _called(base, thing, wanted)
    if not isinstance(made, Policy):
        raise RegistryError(
            f"policy {base!r} makes {type(made).__name__}, which has no `name` and `decide`; "
            "return a Rule or an object with both"
        )
    return made


def parse_policy(text: str) -> tuple[str, dict[str, float]]:
    """Split ``name:setting=value,setting=value``; the prefix ``dag/`` may be left out.

    >>> parse_policy("dag/capped-srpt:kappa=0.2,power=0.5")
    ('capped-srpt', {'kappa': 0.2, 'power': 0.5})
    """
    base, colon, written = text.strip().partition(":")
    values: dict[str, float] = {}
    for part in written.split(",") if colon else ():
        setting, _, value = part.partition("=")
        try:
            values[setting.strip()] = float(value)
        except ValueError:
            raise SettingsError(
                f"policy {text!r}: {part.strip()!r} is not setting=number; "
                "write for example weighted-fair:alpha=-0.5"
            ) from None
    return short_name(base.strip()), values


def short_name(name: str) -> str:
    """Drop the wing's prefix: inside the wing, ``dag/fair`` is ``fair``."""
    return name.removeprefix(PREFIX)


def described(name: str) -> str:
    """Say in one sentence what a policy does: the first line of its docstring."""
    thing = POLICIES.load(PREFIX + short_name(name))
    if isinstance(thing, _Trained):
        return thing.sentence()
    text = (thing.function.__doc__ if isinstance(thing, Rule) else thing.__doc__) or ""
    return text.strip().split("\n")[0]


def find_bundle(text: str) -> Path:
    """Find the folder of a trained policy: by name, by its path, or by that of the run that made it."""
    named = next((folder for folder in _shipped_folders() if folder.name == short_name(text)), None)
    folders = [named] if named else [Path(text), Path(text) / "bundle"]
    found = next((folder for folder in folders if (folder / _MANIFEST).is_file()), None)
    if found is None:
        state = "holds no trained policy" if Path(text).is_dir() else "no such folder"
        raise BundleError(
            f"{text}: {state}; give a bundle (a folder with {_MANIFEST}) or a run of `trimtab train`"
        )
    return found


def tunable_parameters(policy: DagPolicy) -> tuple[Parameter, ...]:
    """List the settings `trimtab tune` may change; none for policies that are not rules."""
    return tuple(p for p in policy.parameters if p.grid) if isinstance(policy, Rule) else ()


def _is_path(text: str) -> bool:
    """Whether a policy is named by a place on disk; registered names go first."""
    name = short_name(text.strip())
    return "/" in name.partition(":")[0] or (PREFIX + name not in POLICIES and Path(name).is_dir())


def _shipped_folders() -> list[Path]:
    """The trained policies in the package; there may be none."""
    place = Path(str(files("trimtab.dag_scheduling").joinpath("decima", "bundles")))
    return sorted(found.parent for found in place.glob(f"*/{_MANIFEST}"))


def _courses_in_words(courses: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was practised; courses that differ in their load alone are one."""
    loads: dict[tuple[str, str], list[float]] = {}
    for course in courses:
        jobs, executors = course["workload"], course["cluster"]["executors"]
        pace = {"batch": "at once", "poisson": "in streams"}.get(jobs["arrivals"], "as in the trace")
        found = loads.setdefault(
            (f"{jobs['jobs']} jobs of {jobs['name']} {pace}", f"{executors} executors"), []
        )
        found += [jobs["load"]] if jobs.get("load") else []
    return [f"{what}{_loads_in_words(found)}, {where}" for (what, where), found in loads.items()]


def _loads_in_words(loads: Sequence[float]) -> str:
    if not loads:
        return ""
    low, high = min(loads), max(loads)
    return f" at load {low:g}" if low == high else f" at loads {low:g} to {high:g}"


def _called(base: str, thing: Any, settings: Mapping[str, float]) -> Any:
    try:
        return thing(**settings)
    except TypeError as error:
        raise SettingsError(f"policy {base!r} refuses its settings: {error}") from None


def _with_values(base: str, rule: Rule, values: Mapping[str, float]) -> Rule:
    if not values:
        return rule
    known = [parameter.name for parameter in rule.parameters]
    for setting, value in values.items():
        if setting not in known:
            raise SettingsError(f"policy {base!r} has no setting {setting!r}; {_hint(setting, known)}")
        low, high = _RANGES.get(setting, (-math.inf, math.inf))
        if math.isfinite(value) and not low <= value <= high:
            raise SettingsError(
                f"policy {base!r}: {setting} = {value:g} is out of range; use {low:g} to {high:g}"
            )
    changed = rule.with_values(values)
    told = ",".join(f"{setting}={values[setting]:g}" for setting in known if setting in values)
    return replace(changed, name=f"{base}:{told}")


def _hint(setting: str, known: list[str]) -> str:
    close = difflib.get_close_matches(setting, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"its settings: {', '.join(known)}" if known else "it has none"
