"""`trimtab explain` for DAG jobs: which stage was chosen, out of which, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.explainers import Asked, Explainer
from trimtab.cli.terminal import table_of

if TYPE_CHECKING:
    from trimtab.benchmark.dag_scheduling.suites import DagSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.dag_scheduling.decima.explaining import Candidate, Opinion
    from trimtab.dag_scheduling.problem import Snapshot
    from trimtab.dag_scheduling.workload import Workload

__all__ = ["DAG_EXPLAINER"]

RULES = ("fair", "weighted-fair:tuned", "capped-srpt-local:tuned", "fifo")
RULES_OF_MEMORY = ("fair", "graphene:tuned", "packed-srpt:tuned", "capped-srpt-local:tuned", "fifo")
"""Who is asked where executors differ in size."""
MOST_CANDIDATES = 8
MOST_INFLUENCES = 6


def _suite_of_flags(episode: EpisodeFlags) -> DagSuite:
    from trimtab.benchmark.dag_scheduling.suites import DagSuite

    return DagSuite(workload=episode.jobs_to_draw(), cluster=episode.dag_cluster())


def _suite_of_training(trained: Mapping[str, Any]) -> DagSuite:
    from trimtab.benchmark.dag_scheduling.suites import DagSuite
    from trimtab.core.settings import load_settings

    course = trained["courses"][0]
    return load_settings(DagSuite, None, {"workload": course["workload"], "cluster": course["cluster"]})


def _scenario(run: Path, suite: DagSuite, episode: EpisodeFlags) -> Scenario:
    """The scenario of that load; without one, that of the run's pictures."""
    from trimtab.benchmark.results import SHOWN_LOAD
    from trimtab.core.errors import TrimtabError

    scenarios, load = suite.scenarios(), episode.load
    if load is None:
        return min(scenarios, key=lambda one: abs((one.load or SHOWN_LOAD) - SHOWN_LOAD))
    found = next((one for one in scenarios if one.load == load), None)
    if found is None:
        loads = ", ".join(f"{one.load:g}" for one in scenarios if one.load) or "none"
        raise TrimtabError(f"{run}: has no load {load:g}; its loads: {loads}")
    return found


def _as_simulated(suite: DagSuite, seed: int) -> Workload:
    from trimtab.dag_scheduling.workload.presets import draw_workload

    return draw_workload(suite.workload, executors=suite.cluster.executors, seed=seed)


def _played(asked: Asked, decision: int) -> dict[str, Any]:
    return _content(asked, _at_decision(asked, decision), decision)


def _at_decision(asked: Asked, decision: int) -> Snapshot:
    """Play up to a decision; the simulator is left there, so its views stay as they are."""
    from trimtab.core.errors import TrimtabError
    from trimtab.dag_scheduling.simulator.simulator import Simulator

    simulator = Simulator(asked.suite.cluster)
    snapshot = simulator.reset(asked.drawn, asked.seed)
    for made in range(1, decision):
        snapshot = simulator.step(asked.policy.decide(snapshot)).snapshot
        if simulator.ended:
            raise TrimtabError(
                f"--decision {decision}: the episode has {made} decisions; give a smaller number"
            )
    return snapshot


# --- what is said ----------------------------------------------------------------------------------


def _content(asked: Asked, snapshot: Snapshot, decision: int) -> dict[str, Any]:
    from trimtab.dag_scheduling.decima.compact import CompactRule
    from trimtab.dag_scheduling.decima.compact_explaining import explain_compact
    from trimtab.dag_scheduling.decima.explaining import candidates_of, opinion_of
    from trimtab.dag_scheduling.decima.explaining import explain as take_apart
    from trimtab.dag_scheduling.decima.policy import DecimaPolicy

    names = [asked.drawn.profile.names[kind] for kind in asked.drawn.template]
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
        "class_memory": [float(memory) for memory in snapshot.class_memory],
        "free_executors_of_job": None if source < 0 else int(snapshot.job_id[source]),
        "job_names": {str(job): names[job] for job in snapshot.job_id[snapshot.jobs]},
        "chosen": _plain_opinion(opinion_of(asked.policy, snapshot)),
    }
    if isinstance(asked.policy, DecimaPolicy):
        told = take_apart(asked.policy, snapshot)
        content["limits"] = [offer._asdict() for offer in told.limits]
        content["influences"] = [influence._asdict() for influence in told.influences]
        candidates = told.candidates
        content["influence_means"] = (
            "Change of the lead over the next best by not being average: +0.7 doubles the odds."
        )
    elif isinstance(asked.policy, CompactRule):
        candidates, influences = explain_compact(asked.policy, snapshot)
        content["influences"] = [influence._asdict() for influence in influences]
        content["influence_means"] = (
            "Change of the score, and of the logarithm of the job's cap, by not being average."
        )
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
    jobs = content["jobs_in_system"]
    print(
        f"Decision {content['decision']} of {content['policy']} on {content['workload']}, "
        f"seed {content['seed']}: after {content['time_s']:,.1f} s, {jobs} job{'s' if jobs != 1 else ''} "
        f"in the system, {free} of {content['executors']} executors to place, from {where}."
    )
    print(f"It chose {_choice(content['chosen'], content)}.\n")
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
        print(content["influence_means"])
    rows = [[one["policy"], _choice(one, content)] for one in content["others"]]
    print(f"\n{table_of(['rule', 'would choose'], rows)}")


def _print_candidates(content: Mapping[str, Any]) -> None:
    scored = content["candidates"] and content["candidates"][0]["score"] is not None
    likely = scored and content["candidates"][0]["probability"] is not None
    memory = content["class_memory"]
    heads = ["job", "kind", "stage", "tasks left", "work left in job, s", "executors of job"]
    heads += ["on memory"] if len(memory) > 1 else []
    heads += (["score"] if scored else []) + (["probability"] if likely else [])
    rows = []
    shown = _shown(content)
    for one in shown:
        facts = (
            ["-", "leave idle", "-", "-", "-", "-"]
            if one["idle"]
            else [
                str(one["job"]), content["job_names"][str(one["job"])], str(one["stage"]),
                str(one["tasks_left"]), f"{one['job_work_left_s']:,.1f}", str(one["executors_of_job"]),
            ]
        )  # fmt: skip
        if len(memory) > 1:
            facts.append("-" if one["idle"] else f"{memory[one['executor_class']]:g}")
        facts += [f"{one['score']:.3f}"] if scored else []
        rows.append(facts + ([f"{one['probability']:.1%}"] if likely else []))
    print(table_of(heads, rows))
    more = len(content["candidates"]) - len(shown)
    if more > 0:
        print(f"and {more} more")


def _shown(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What was chosen, what rules would choose, and the first of the others; in the order they came."""
    wanted = [_place(choice) for choice in (content["chosen"], *content["others"])]
    named = [one for one in content["candidates"] if _place(one) in wanted]
    others = [one for one in content["candidates"] if _place(one) not in wanted]
    kept = named + others[: max(MOST_CANDIDATES - len(named), 0)]
    return [one for one in content["candidates"] if one in kept]


def _place(choice: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Job, stage and class; None: to leave executors idle."""
    return None if choice["idle"] else (choice["job"], choice["stage"], choice["executor_class"])


def _choice(choice: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    if choice["idle"]:
        return "to leave them idle"
    where = f"job {choice['job']} ({content['job_names'][str(choice['job'])]}), stage {choice['stage']}"
    count, memory = choice["executors"], content["class_memory"]
    size = f" of memory {memory[choice['executor_class']]:g}" if len(memory) > 1 else ""
    return f"{where}: {count} executor{'s' if count != 1 else ''}{size}, limit {choice['limit']}"


DAG_EXPLAINER = Explainer(
    wing="dag",
    choosing=("load", "seed"),
    rules=lambda suite: RULES_OF_MEMORY if suite.cluster.classes else RULES,
    suite_of_flags=_suite_of_flags,
    suite_of_training=_suite_of_training,
    as_simulated=_as_simulated,
    scenario=_scenario,
    content=_played,
    show=_print,
)
