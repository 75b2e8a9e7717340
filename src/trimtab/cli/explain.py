"""`trimtab explain`: one decision taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import USUAL_EPISODE, EpisodeFlags
from trimtab.cli.terminal import JsonFlag, now, print_json, table_of

if TYPE_CHECKING:
    from trimtab.benchmark.dag_scheduling.suites import DagSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.dag_scheduling.decima.explaining import Candidate, Opinion
    from trimtab.dag_scheduling.policies import DagPolicy
    from trimtab.dag_scheduling.problem import Snapshot
    from trimtab.dag_scheduling.workload import Workload

__all__ = ["explain"]

RULES = ("fair", "weighted-fair:tuned", "capped-srpt-local:tuned", "fifo")
TUNED = ":tuned"
OF_A_RUN = ("load", "seed")
"""Flags that choose among the episodes of a run."""
MOST_CANDIDATES = 8
MOST_INFLUENCES = 6


@dataclass(frozen=True)
class _Asked:
    """An episode that can be played again, and who is asked about it."""

    suite: DagSuite
    scenario: Scenario
    seed: int
    jobs: Workload
    policy: DagPolicy
    rules: Sequence[DagPolicy]


def explain(
    run: Path | None = None,
    /,
    *,
    decision: int,
    policy: str | None = None,
    episode: EpisodeFlags = USUAL_EPISODE,
    json: JsonFlag = False,
) -> None:
    """Play an episode up to one decision and say what was decided, why, and what rules would do.

    Parameters
    ----------
    run:
        Run folder of `trimtab compare --out` or `trimtab train`; without one, an episode as in `simulate`.
        Only --load and --seed choose among its episodes (default: the one in its Gantt charts).
    decision:
        Number of the decision in its episode, from 1.
    policy:
        Whose decision (default: of a run, its best trained policy, else its best).
    """
    asked = _asked_by_flags(policy, episode) if run is None else _asked_of_run(run, policy, episode)
    content = _content(asked, _at_decision(asked, decision), decision)
    if json:
        print_json(content)
    else:
        _print(content)


# --- which episode ---------------------------------------------------------------------------------


def _asked_by_flags(policy: str | None, episode: EpisodeFlags) -> _Asked:
    """The very episode that `trimtab simulate` plays with these flags."""
    from trimtab.benchmark.dag_scheduling.suites import DagSuite
    from trimtab.core.errors import TrimtabError
    from trimtab.dag_scheduling.policies import make_policy
    from trimtab.dag_scheduling.workload.presets import draw_workload

    if policy is None:
        raise TrimtabError("whose decision? Give --policy, or the folder of a run")
    made = make_policy(policy)
    seed, cluster, asked = episode.number(), episode.cluster(), episode.jobs_to_draw()
    suite = DagSuite(workload=asked, cluster=cluster)
    drawn = draw_workload(asked, executors=cluster.executors, seed=seed)
    rules = _rules(suite, suite.scenarios()[0], {})
    return _Asked(suite, suite.scenarios()[0], seed, drawn, made, rules)


def _asked_of_run(run: Path, policy: str | None, episode: EpisodeFlags) -> _Asked:
    from trimtab.benchmark.dag_scheduling.suites import DagSuite
    from trimtab.benchmark.suite import SUITES
    from trimtab.core.bundle import load_bundle
    from trimtab.core.errors import TrimtabError
    from trimtab.core.run_folder import RunFolder
    from trimtab.core.settings import load_settings
    from trimtab.dag_scheduling.policies import find_bundle, make_policy

    _refuse_other_episodes(run, episode)
    folder = RunFolder.open(run, clock=now)
    known: dict[str, Mapping[str, float]] = {}
    if (run / "results.json").is_file():
        results = folder.read_json("results.json")
        kind = SUITES.load(results["suite"])
        if not issubclass(kind, DagSuite):
            raise TrimtabError(f"{run}: a comparison of {kind.wing.name}; explain takes those of dag")
        suite = load_settings(kind, run / "settings.toml")
        scenario = _scenario(run, suite, episode.load)
        rows = next(found for found in results["scenarios"] if found["name"] == scenario.name)["policies"]
        known = {row["policy"]: row["settings"] for row in rows}
        made = _of_table(policy, known)
    elif (run / "bundle").is_dir():
        course = load_bundle(find_bundle(str(run))).manifest["trained"]["courses"][0]
        suite = load_settings(DagSuite, None, {"workload": course["workload"], "cluster": course["cluster"]})
        scenario = _scenario(run, suite, episode.load)
        made = make_policy(policy or str(run))
    else:
        raise TrimtabError(f"{run}: holds neither a comparison nor a trained policy; give --policy instead")
    number = suite.test_seeds()[0] if episode.seed is None else episode.number()
    rules = _rules(suite, scenario, known)
    return _Asked(suite, scenario, number, suite.draw(scenario, number), made, rules)


def _refuse_other_episodes(run: Path, episode: EpisodeFlags) -> None:
    from trimtab.core.errors import TrimtabError

    for field in fields(episode):
        if field.name not in OF_A_RUN and getattr(episode, field.name) is not None:
            flag = f"--{field.name.replace('_', '-')}"
            raise TrimtabError(
                f"{flag}: the run {run} fixes its episodes; leave it out, or leave out the run"
            )


def _scenario(run: Path, suite: DagSuite, load: float | None) -> Scenario:
    """The scenario of that load; without one, that of the run's pictures."""
    from trimtab.benchmark.results import SHOWN_LOAD
    from trimtab.core.errors import TrimtabError

    scenarios = suite.scenarios()
    if load is None:
        return min(scenarios, key=lambda one: abs((one.load or SHOWN_LOAD) - SHOWN_LOAD))
    found = next((one for one in scenarios if one.load == load), None)
    if found is None:
        loads = ", ".join(f"{one.load:g}" for one in scenarios if one.load) or "none"
        raise TrimtabError(f"{run}: has no load {load:g}; its loads: {loads}")
    return found


def _of_table(policy: str | None, known: Mapping[str, Mapping[str, float]]) -> DagPolicy:
    """A policy of the run's table with the settings it had there; best rows come first."""
    from trimtab.dag_scheduling.heuristics import Rule

    if policy is not None:
        tuned = f"{policy.removesuffix(TUNED)} (tuned)"
        return _made(tuned if tuned in known else policy, known)
    made = [_made(label, known) for label in known]
    return next((one for one in made if not isinstance(one, Rule)), made[0])


def _made(label: str, known: Mapping[str, Mapping[str, float]]) -> DagPolicy:
    from trimtab.dag_scheduling.policies import make_policy

    base = label.removesuffix(" (tuned)")
    return make_policy(label) if base == label else make_policy(base, known[label])


def _rules(suite: DagSuite, scenario: Scenario, known: Mapping[str, Mapping[str, float]]) -> list[DagPolicy]:
    """The rules to ask, tuned as in the run's table or as shipped for this workload, else as usual."""
    from trimtab.benchmark.compare import line_up
    from trimtab.benchmark.tuned import shipped_tuned_values

    contestants, _ = line_up(suite, RULES, shipped_tuned_values())
    rules = []
    for name, contestant in zip(RULES, contestants, strict=True):
        label = f"{name.removesuffix(TUNED)} (tuned)"
        rules.append(_made(label, known) if label in known else contestant.by_scenario[scenario.name])
    return rules


def _at_decision(asked: _Asked, decision: int) -> Snapshot:
    """Play up to a decision; the simulator is left there, so its views stay as they are."""
    from trimtab.core.errors import TrimtabError
    from trimtab.dag_scheduling.simulator.simulator import Simulator

    if decision < 1:
        raise TrimtabError(f"--decision {decision}: decisions are counted from 1")
    simulator = Simulator(asked.suite.cluster)
    snapshot = simulator.reset(asked.jobs, asked.seed)
    for made in range(1, decision):
        snapshot = simulator.step(asked.policy.decide(snapshot)).snapshot
        if simulator.ended:
            raise TrimtabError(
                f"--decision {decision}: the episode has {made} decisions; give a smaller number"
            )
    return snapshot


# --- what is said ----------------------------------------------------------------------------------


def _content(asked: _Asked, snapshot: Snapshot, decision: int) -> dict[str, Any]:
    from trimtab.dag_scheduling.decima.explaining import candidates_of, opinion_of
    from trimtab.dag_scheduling.decima.explaining import explain as take_apart
    from trimtab.dag_scheduling.decima.policy import DecimaPolicy

    names = [asked.jobs.profile.names[kind] for kind in asked.jobs.template]
    source = int(snapshot.source_job)
    content: dict[str, Any] = {
        "policy": asked.policy.name,
        "workload": asked.scenario.workload.name,
        "seed": asked.seed,
        "decision": decision,
        "time_s": int(snapshot.now_ms) / 1000.0,
        "jobs_in_system": len(snapshot.jobs),
        "executors": int(snapshot.executor_count),
        "free_executors": [int(count) for count in snapshot.free_executors],
        "free_executors_of_job": None if source < 0 else int(snapshot.job_id[source]),
        "job_names": {str(job): names[job] for job in snapshot.job_id[snapshot.jobs]},
        "chosen": _plain_opinion(opinion_of(asked.policy, snapshot)),
    }
    if isinstance(asked.policy, DecimaPolicy):
        told = take_apart(asked.policy, snapshot)
        content["limits"] = [offer._asdict() for offer in told.limits]
        content["influences"] = [influence._asdict() for influence in told.influences]
        candidates = told.candidates
    else:
        candidates = candidates_of(snapshot)
    content["candidates"] = [_plain_candidate(one, snapshot) for one in candidates]
    content["others"] = [_plain_opinion(opinion_of(rule, snapshot)) for rule in asked.rules]
    return content


def _plain_opinion(opinion: Opinion) -> dict[str, Any]:
    if opinion.command is None:
        return {"policy": opinion.policy, "idle": True}
    command = opinion.command._asdict()
    return {
        "policy": opinion.policy,
        "idle": False,
        "job": command.pop("job_id"),
        **command,
        "limit": opinion.limit,
    }


def _plain_candidate(one: Candidate, snapshot: Snapshot) -> dict[str, Any]:
    """A candidate with the few facts that most rules go by."""
    if one.job < 0:
        return {"idle": True, "score": one.score, "probability": one.probability}
    slot = next(slot for slot in snapshot.jobs if snapshot.job_id[slot] == one.job)
    stage = int(snapshot.first_stage[slot]) + one.stage
    whole = slice(
        int(snapshot.first_stage[slot]), int(snapshot.first_stage[slot] + snapshot.stage_count[slot])
    )
    left_ms = float((snapshot.unstarted[whole] * snapshot.task_ms[whole]).sum())
    return {
        "idle": False,
        **one._asdict(),
        "executors_of_job": int(snapshot.executors[slot] + snapshot.incoming[slot]),
        "job_work_left_s": round(left_ms / 1000.0, 1),
        "tasks_left": int(snapshot.unstarted[stage]),
        "can_use": int(snapshot.demand[stage]),
    }


def _print(content: Mapping[str, Any]) -> None:
    names = content["job_names"]
    source = content["free_executors_of_job"]
    where = "the cluster's pool" if source is None else f"job {source} ({names[str(source)]})"
    free = sum(content["free_executors"])
    print(
        f"Decision {content['decision']} of {content['policy']} on {content['workload']}, "
        f"seed {content['seed']}: after {content['time_s']:,.1f} s, {content['jobs_in_system']} jobs "
        f"in the system, {free} of {content['executors']} executors to place, from {where}."
    )
    print(f"It chose {_choice(content['chosen'], names)}.\n")
    _print_candidates(content)
    if content.get("limits"):
        rows = [[str(o["limit"]), str(o["executors"]), f"{o['probability']:.1%}"] for o in content["limits"]]
        print(f"\n{table_of(['limit', 'executors sent', 'probability'], rows[:MOST_CANDIDATES])}")
    if content.get("influences"):
        rows = [
            [
                one["fact"],
                f"{one['on_stage']:+.3f}",
                "-" if one["on_limit"] is None else f"{one['on_limit']:+.3f}",
            ]
            for one in content["influences"][:MOST_INFLUENCES]
        ]
        print(f"\n{table_of(['what moved it', 'to the stage', 'to the limit'], rows)}")
        print("Change of the lead over the next best by not being average: +0.7 doubles the odds.")
    rows = [[one["policy"], _choice(one, names)] for one in content["others"]]
    print(f"\n{table_of(['rule', 'would choose'], rows)}")


def _print_candidates(content: Mapping[str, Any]) -> None:
    scored = "limits" in content
    heads = ["job", "kind", "stage", "tasks left", "work left in job, s", "executors of job"]
    heads += ["score", "probability"] if scored else []
    rows = []
    for one in content["candidates"][:MOST_CANDIDATES]:
        facts = (
            ["-", "leave idle", "-", "-", "-", "-"]
            if one["idle"]
            else [
                str(one["job"]), content["job_names"][str(one["job"])], str(one["stage"]),
                str(one["tasks_left"]), f"{one['job_work_left_s']:,.1f}", str(one["executors_of_job"]),
            ]
        )  # fmt: skip
        rows.append(facts + ([f"{one['score']:.3f}", f"{one['probability']:.1%}"] if scored else []))
    print(table_of(heads, rows))
    more = len(content["candidates"]) - MOST_CANDIDATES
    if more > 0:
        print(f"and {more} more")


def _choice(choice: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if choice["idle"]:
        return "to leave them idle"
    where = f"job {choice['job']} ({names[str(choice['job'])]}), stage {choice['stage']}"
    count = choice["executors"]
    return f"{where}: {count} executor{'s' if count != 1 else ''}, limit {choice['limit']}"
