"""`trimtab explain`: one decision taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import OF_WING, SHARED, USUAL_EPISODE, EpisodeFlags
from trimtab.cli.explainers import Asked, Explainer, explainer_of
from trimtab.cli.terminal import JsonFlag, now, print_json
from trimtab.cli.wings import WingName, short_wing

if TYPE_CHECKING:
    from trimtab.benchmark.suite import Scenario

__all__ = ["explain"]

TUNED = ":tuned"
EXPLAINED = ("dag", "stream", "pod", "gpu")


def explain(
    run: Path | None = None,
    /,
    *,
    decision: int,
    policy: str | None = None,
    wing: WingName | None = None,
    episode: EpisodeFlags = USUAL_EPISODE,
    json: JsonFlag = False,
) -> None:
    """Play an episode up to one decision and say what was decided, why, and what rules would do.

    Parameters
    ----------
    run:
        Run folder of `trimtab compare --out`, `trimtab train` or, of pod and gpu, `trimtab simulate
        --out`; without one, an episode as in `simulate`.
        Only --seed and, of dag, --load, of stream, --job or, of pod, --app (unseen services: --trace) choose
        among its episodes (default: the one in its pictures).
    decision:
        Number of the decision in its episode, from 1.
    policy:
        Whose decision (default: of a run, its best trained policy, else its best).
    wing:
        Without a run, what is decided (default: the first of dag, stream, pod and gpu that has flags and
        policy).
    """
    from trimtab.core.errors import TrimtabError

    if decision < 1:
        raise TrimtabError(f"--decision {decision}: decisions are counted from 1")
    if run is None:
        explainer = explainer_of(wing or _implied_wing(policy, episode))
        asked = _asked_by_flags(explainer, policy, episode)
    else:
        found = _opened(run)
        explainer = explainer_of(found.wing)
        _refuse_other_episodes(found, explainer, wing, episode)
        asked = _asked_of_run(found, explainer, policy, episode)
    content = explainer.content(asked, decision)
    if json:
        print_json(content)
    else:
        explainer.show(content)


def _implied_wing(policy: str | None, episode: EpisodeFlags) -> str:
    """Of the wings that have all flags, the first that has the policy; else the first of them."""
    given = {one.name for one in fields(episode) if getattr(episode, one.name) is not None} - {*SHARED}
    # Flags that no wing has all of are refused by the one that the policy belongs to.
    possible = [wing for wing in EXPLAINED if given <= {*OF_WING[wing]}] or list(EXPLAINED)
    found = None if policy is None else _wing_of_policy(policy, possible)
    return found if found in possible else possible[0]


def _wing_of_policy(policy: str, possible: Sequence[str]) -> str | None:
    """The first of these wings that has a policy of that name, or the one that the bundle was trained for."""
    from trimtab.core.bundle import load_bundle
    from trimtab.core.errors import BundleError
    from trimtab.dag_scheduling.policies import POLICIES as DAG
    from trimtab.gpu_scheduling.policies import POLICIES as GPU
    from trimtab.pod_autoscaling.policies import POLICIES as POD
    from trimtab.stream_autoscaling.policies import POLICIES as STREAM

    books = {"dag": DAG, "stream": STREAM, "pod": POD, "gpu": GPU}
    for wing in possible:
        book = books[wing]
        if book.prefix + book.short_name(policy.partition(":")[0]) in book:
            return wing
    try:
        return short_wing(load_bundle(DAG.find_bundle(policy)).wing)
    except BundleError:
        return None  # no such policy, which making it will say


def _asked_by_flags(explainer: Explainer, policy: str | None, episode: EpisodeFlags) -> Asked:
    """The very episode that `trimtab simulate` plays with these flags."""
    from trimtab.core.errors import TrimtabError

    episode.refuse_others(explainer.wing)
    if policy is None:
        raise TrimtabError("whose decision? Give --policy, or the folder of a run")
    suite, seed = explainer.suite_of_flags(episode), episode.number()
    scenario = suite.scenarios()[0]
    made = _by_name(policy, suite, scenario)
    drawn = explainer.as_simulated(suite, seed)
    return Asked(suite, scenario, seed, drawn, made, _rules(explainer, suite, scenario, {}))


# --- episodes of a run -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """A run folder whose episodes can be played again."""

    path: Path
    wing: str
    suite: Any = None
    """Of a comparison; None: a training, or one episode."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """Rows of a comparison, by scenario."""
    trained: Mapping[str, Any] = field(default_factory=dict)
    """What a policy was trained on."""
    simulated: Mapping[str, Any] = field(default_factory=dict)
    """The one episode of `trimtab simulate --out`, as its results tell."""


def _opened(run: Path) -> _Run:
    from trimtab.benchmark.suite import SUITES
    from trimtab.core.bundle import load_bundle
    from trimtab.core.errors import TrimtabError
    from trimtab.core.named_files import refuse_changed_files, with_names
    from trimtab.core.run_folder import RunFolder
    from trimtab.core.settings import load_settings

    folder = RunFolder.open(run, clock=now)
    places = refuse_changed_files(folder)
    if (run / "results.json").is_file():
        results = folder.read_json("results.json")
        _refuse_from_elsewhere(run, places)
        if "suite" not in results:
            return _simulated(run, results)
        kind = SUITES.load(results["suite"])
        suite = load_settings(kind, run / "settings.toml")
        tables = {found["name"]: found["policies"] for found in results["scenarios"]}
        return _Run(run, kind.wing.name, suite, tables)
    if (run / "bundle").is_dir():
        bundle = load_bundle(run / "bundle")
        return _Run(run, short_wing(bundle.wing), trained=with_names(bundle.manifest["trained"], places))
    raise TrimtabError(f"{run}: holds neither a comparison nor a trained policy; give --policy instead")


def _refuse_from_elsewhere(run: Path, places: Mapping[str, str]) -> None:
    """Episodes and rows of tables go by the names of files, which must mean the same from here."""
    from trimtab.core.errors import TrimtabError

    for name, place in places.items():
        if place != name:
            raise TrimtabError(
                f"{run}: its file {name} is not here but at {place}; explain it from the folder where "
                "`trimtab` was run"
            )


def _simulated(run: Path, results: Mapping[str, Any]) -> _Run:
    """A run of `trimtab simulate --out`, if its wing keeps enough there to play it again."""
    from trimtab.core.errors import TrimtabError

    wing = results.get("wing")
    if wing is None or explainer_of(wing).suite_of_simulation is None:
        raise TrimtabError(f"{run}: one episode of `trimtab simulate`; give its flags instead of its folder")
    return _Run(run, wing, simulated=results)


def _refuse_other_episodes(
    found: _Run, explainer: Explainer, wing: str | None, episode: EpisodeFlags
) -> None:
    from trimtab.core.errors import TrimtabError

    run, choosing = found.path, () if found.simulated else explainer.choosing
    if wing not in (None, explainer.wing):
        raise TrimtabError(f"--wing {wing}: the run {run} is of {explainer.wing}; leave it out")
    for one in fields(episode):
        if one.name not in choosing and getattr(episode, one.name) is not None:
            flag = f"--{one.name.replace('_', '-')}"
            raise TrimtabError(
                f"{flag}: the run {run} fixes its episodes; leave it out, or leave out the run"
            )


def _asked_of_run(run: _Run, explainer: Explainer, policy: str | None, episode: EpisodeFlags) -> Asked:
    if run.simulated:
        return _asked_of_simulation(run, explainer, policy)
    suite = explainer.suite_of_training(run.trained) if run.suite is None else run.suite
    scenario = explainer.scenario(run.path, suite, episode)
    known = {row["policy"]: row["settings"] for row in run.tables.get(scenario.name, [])}
    if run.suite is None:
        made = _by_name(policy or str(run.path), suite, scenario)
    else:
        made = _of_table(policy, explainer, suite, scenario, known)
    seed = suite.test_seeds()[0] if episode.seed is None else episode.number()
    if run.suite is not None:
        _refuse_other_seeds(run.path, suite.test_seeds(), seed)
    rules = _rules(explainer, suite, scenario, known)
    return Asked(suite, scenario, seed, suite.draw(scenario, seed), made, rules)


def _refuse_other_seeds(run: Path, seeds: range, seed: int) -> None:
    from trimtab.core.errors import TrimtabError

    if seed not in seeds:
        raise TrimtabError(
            f"--seed {seed}: the run {run} has the seeds {seeds[0]} to {seeds[-1]}; give one of these, or "
            "leave out the run"
        )


def _asked_of_simulation(run: _Run, explainer: Explainer, policy: str | None) -> Asked:
    """The episode of `trimtab simulate --out`; another policy may be asked to play it."""
    found, make_suite = run.simulated, explainer.suite_of_simulation
    assert make_suite is not None, "refused when the run was opened"
    suite, seed = make_suite(run.path, found), int(found["seed"])
    scenario = suite.scenarios()[0]
    made = _by_name(policy or found["policy"], suite, scenario)
    drawn = explainer.as_simulated(suite, seed)
    return Asked(suite, scenario, seed, drawn, made, _rules(explainer, suite, scenario, {}))


def _of_table(
    policy: str | None,
    explainer: Explainer,
    suite: Any,
    scenario: Scenario,
    known: Mapping[str, Mapping[str, float]],
) -> Any:
    """A policy of the run's table with the settings it had there; best rows come first."""
    if policy is not None:
        label = policy if policy in known else f"{policy.removesuffix(TUNED)} (tuned)"
        return _made(label, suite, known) if label in known else _by_name(policy, suite, scenario)
    made = [_made(label, suite, known) for label in known]
    return next((one for one in made if explainer.is_trained(one)), made[0])


def _made(label: str, suite: Any, known: Mapping[str, Mapping[str, float]]) -> Any:
    base = label.removesuffix(" (tuned)")
    make = suite.wing.make_policy
    return make(label) if base == label else make(base, known[label])


# --- who is asked ----------------------------------------------------------------------------------


def _by_name(policy: str, suite: Any, scenario: Scenario) -> Any:
    """A policy by its name; `:tuned` takes the settings that are shipped for this very workload."""
    from trimtab.core.errors import SettingsError

    made, untuned = _lined_up(policy, suite, scenario)
    if untuned:
        raise SettingsError(f"{policy}: not tuned for this workload; leave out {TUNED}, or name its settings")
    return made


def _lined_up(policy: str, suite: Any, scenario: Scenario) -> tuple[Any, bool]:
    """As a comparison would play it, and whether tuned settings were wanted but are not known."""
    from trimtab.benchmark.compare import line_up
    from trimtab.benchmark.tuned import shipped_tuned_values

    (contestant,), notes = line_up(suite, [policy], shipped_tuned_values())
    return contestant.by_scenario[scenario.name], bool(notes)


def _rules(
    explainer: Explainer, suite: Any, scenario: Scenario, known: Mapping[str, Mapping[str, float]]
) -> list[Any]:
    """The rules to ask, tuned as in the run's table or as shipped for this workload, else as usual.

    Which of these it is, their names say.
    """
    rules = []
    for name in explainer.rules(suite):
        label = f"{name.removesuffix(TUNED)} (tuned)"
        rules.append(_made(label, suite, known) if label in known else _lined_up(name, suite, scenario)[0])
    return rules
