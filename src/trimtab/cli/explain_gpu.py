"""`trimtab explain` for training jobs: who could start, who did and where, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.explain_gpu_text import print_gpu_decision
from trimtab.cli.explainers import Asked, Explainer, is_no_rule
from trimtab.cli.simulate_gpu import cluster_of, jobs_digest, workload_of
from trimtab.cli.terminal import remark

if TYPE_CHECKING:
    from trimtab.benchmark.gpu_scheduling.suites import GpuSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.gpu_scheduling.das.explaining import Candidate, MachineView, Opinion
    from trimtab.gpu_scheduling.das.scoring import ScoredRule
    from trimtab.gpu_scheduling.policies import GpuPolicy
    from trimtab.gpu_scheduling.problem import Part, Snapshot
    from trimtab.gpu_scheduling.simulator.simulator import Simulator
    from trimtab.gpu_scheduling.workload import Workload

__all__ = ["GPU_EXPLAINER"]

RULES = (
    "fifo",
    "smallest+fast:tuned",
    "aged-smallest+fast:tuned",
    "las+fast:tuned",
    "tiresias+fast:tuned",
    "sjf+fast:tuned",
    "srsf+fast:tuned",
)
"""Those that need durations are asked only where some are told."""
LONGEST_ROUND = 200
"""Decisions of one moment that are told."""
LONGEST_WAIT = 1000
"""Decisions to hold, one after the other, before it is no longer looked for the next start."""


# --- which episode ---------------------------------------------------------------------------------


def _suite_of_flags(episode: EpisodeFlags) -> GpuSuite:
    from trimtab.benchmark.gpu_scheduling.suites import GpuSuite

    cluster = cluster_of(episode)
    return GpuSuite(workload=workload_of(episode, cluster), cluster=cluster)


def _suite_of_training(trained: Mapping[str, Any]) -> GpuSuite:
    """Jobs as in training, on the first of its clusters."""
    from trimtab.benchmark.gpu_scheduling.suites import GpuSuite
    from trimtab.core.errors import TrimtabError
    from trimtab.core.settings import load_settings
    from trimtab.gpu_scheduling.cluster import GpuType
    from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load

    if not trained.get("clusters") or "workload" not in trained:
        raise TrimtabError("its bundle does not say what it was trained on; give --policy and an episode")
    name = trained["clusters"][0]
    workload = dict(trained["workload"])
    if workload.get("arrivals", "poisson") in ("poisson", "daily"):
        workload |= {"load": usual_load(name), "mean_gap_s": None}
    cluster = find_cluster(name, [GpuType(**one) for one in trained.get("gpu_types", ())])
    return load_settings(GpuSuite, None, {"workload": workload, "cluster": cluster.model_dump(mode="json")})


def _suite_of_simulation(run: Path, results: Mapping[str, Any]) -> GpuSuite:
    """The episode of a run of `simulate gpu --out`, if its jobs can still be had."""
    from trimtab.benchmark.gpu_scheduling.suites import GpuSuite
    from trimtab.core.errors import TrimtabError
    from trimtab.core.settings import load_settings

    suite = load_settings(GpuSuite, None, {"workload": results["workload"], "cluster": results["cluster"]})
    if jobs_digest(_as_simulated(suite, int(results["seed"]))) != results["digest"]:
        raise TrimtabError(
            f"{run}: {results['workload']['name']} gives other jobs today than when this was played; "
            "simulate it again"
        )
    return suite


def _is_trained(policy: GpuPolicy) -> bool:
    """The compact agents are rules, with learned numbers in place of settings."""
    from trimtab.gpu_scheduling.das.scoring import ScoredRule

    return isinstance(policy, ScoredRule) or is_no_rule(policy)


def _scenario(run: Path, suite: GpuSuite, episode: EpisodeFlags) -> Scenario:
    """The only one."""
    return suite.scenarios()[0]


def _as_simulated(suite: GpuSuite, seed: int) -> Workload:
    from trimtab.gpu_scheduling.workload.clusters import capacity_gpus
    from trimtab.gpu_scheduling.workload.presets import draw_workload

    return draw_workload(suite.workload, gpus=capacity_gpus(suite.cluster), seed=seed)


# --- playing ---------------------------------------------------------------------------------------


def _played(asked: Asked, decision: int) -> dict[str, Any]:
    """Play up to a decision, tell all about it, then play on to the end of its moment."""
    from trimtab.gpu_scheduling.das.explaining import opinion_of

    simulator, last_act = _at_decision(asked, decision)
    snapshot = simulator.snapshot
    chosen = opinion_of(asked.policy, snapshot)
    names = asked.suite.cluster.machine_table.names
    content = {
        "policy": asked.policy.name,
        "sentence": getattr(asked.policy, "sentence", None),
        "workload": asked.scenario.workload.name,
        "seed": asked.seed,
        "decision": decision,
        **_situation(snapshot, asked),
        "chosen": _plain_opinion(chosen, snapshot, names),
        **_considered(asked, snapshot, chosen, names),
        "others": _others(asked, snapshot, names),
    }
    # Last, because the snapshot changes with it.
    if chosen.command is None:
        return {
            **content,
            "then": [],
            "last_act": last_act,
            "next_act": _next_act(asked, simulator, decision),
        }
    return {**content, "then": _rest_of_moment(asked.policy, simulator, chosen, names)}


def _at_decision(asked: Asked, decision: int) -> tuple[Simulator, int | None]:
    """The simulator before a decision, and the number of the last one that was not to hold."""
    from trimtab.core.errors import TrimtabError
    from trimtab.gpu_scheduling.problem import WAIT
    from trimtab.gpu_scheduling.simulator.simulator import Simulator
    from trimtab.gpu_scheduling.simulator.tables import refuse_misfits

    if not asked.suite.admits(asked.policy):
        raise TrimtabError(
            f"policy {asked.policy.name!r} needs durations, and this cluster tells none; "
            "use --information predicted or oracle, or another policy"
        )
    refuse_misfits(asked.drawn, asked.suite.cluster)
    _say_if_compiling()
    simulator = Simulator(asked.suite.cluster)
    snapshot = simulator.reset(asked.drawn, asked.seed)
    if not getattr(asked.policy, "timed", True):
        simulator.ask_when_something_happens()
    last_act = None
    for made in range(1, decision):
        action = asked.policy.decide(snapshot)
        last_act = last_act if action.verb == WAIT else made
        snapshot = simulator.step(action).snapshot
        if simulator.ended:
            raise TrimtabError(
                f"--decision {decision}: the episode has {made} decisions; give a smaller number"
            )
    return simulator, last_act


def _next_act(asked: Asked, simulator: Simulator, decision: int) -> int | None:
    """The number of the next decision that is not to hold; None: there is none soon."""
    from trimtab.gpu_scheduling.problem import HOLD, WAIT

    action = HOLD
    for ahead in range(1, LONGEST_WAIT):
        simulator.step(action)
        if simulator.ended:
            return None
        action = asked.policy.decide(simulator.snapshot)
        if action.verb != WAIT:
            return decision + ahead
    return None


def _say_if_compiling() -> None:
    """Rules are asked in plain Python here; only the engine that they answer to is compiled."""
    from trimtab.gpu_scheduling.simulator.by_address import WITHOUT_COMPILER
    from trimtab.gpu_scheduling.simulator.compiling import is_kept
    from trimtab.gpu_scheduling.simulator.replay import engine

    if not (WITHOUT_COMPILER or is_kept(engine)):
        remark("compiling the engine; this happens once and takes a few seconds")


def _others(asked: Asked, snapshot: Snapshot, names: Sequence[str]) -> list[dict[str, Any]]:
    """What rules would do; jobs that the policy has passed over are new to them."""
    from trimtab.gpu_scheduling.das.explaining import opinion_of

    fresh = snapshot._replace(unseen=0)
    return [
        _plain_opinion(opinion_of(rule, fresh), snapshot, names)
        for rule in asked.rules
        if asked.suite.admits(rule)
    ]


def _rest_of_moment(
    policy: GpuPolicy, simulator: Simulator, chosen: Opinion, names: Sequence[str]
) -> list[dict[str, Any]]:
    """What it goes on to do at the same moment, up to where it holds."""
    from trimtab.gpu_scheduling.das.explaining import opinion_of

    opinion, told, now_ms = chosen, list[dict[str, Any]](), simulator.snapshot.now_ms
    while opinion.command is not None and len(told) < LONGEST_ROUND:
        simulator.step(opinion.action)
        if simulator.ended or simulator.snapshot.now_ms > now_ms:
            break
        opinion = opinion_of(policy, simulator.snapshot)
        told.append(_plain_opinion(opinion, simulator.snapshot, names))
    return told


# --- what is said ----------------------------------------------------------------------------------


def _situation(snapshot: Snapshot, asked: Asked) -> dict[str, Any]:
    from trimtab.gpu_scheduling.problem import WHOLE

    return {
        "time_s": int(snapshot.now_ms) / 1000.0,
        "information": asked.suite.cluster.information,
        "jobs_waiting": len(snapshot.pending),
        "jobs_running": len(snapshot.running),
        "gpus": int(snapshot.total_gpus),
        "free_gpus": int(snapshot.free_total_milli) / WHOLE,
        "free_machines": int((snapshot.jobs == 0).sum()),
        "machine_count": len(snapshot.gpus),
        "largest_free": float(snapshot.free_milli.max()) / WHOLE,
    }


def _considered(asked: Asked, snapshot: Snapshot, chosen: Opinion, names: Sequence[str]) -> dict[str, Any]:
    """Who could go, where, and what moved the learned score of whom it was about."""
    from trimtab.gpu_scheduling.das.explaining import candidates_of, displaceable_of, machines_for
    from trimtab.gpu_scheduling.das.scoring import ScoredRule

    policy, ids = asked.policy, asked.drawn.ids
    waiting, displaceable = candidates_of(policy, snapshot), displaceable_of(policy, snapshot)
    learned = isinstance(policy, ScoredRule)
    content: dict[str, Any] = {
        "ordered_by": "score" if learned else "priority" if hasattr(policy, "order") else "arrival",
        "order": None if learned else getattr(getattr(policy, "order", None), "__name__", None),
        "candidates": [_plain_candidate(one, names, ids, learned=learned) for one in waiting],
        "displaceable": [_plain_candidate(one, names, ids, learned=learned) for one in displaceable],
    }
    if chosen.command is not None and chosen.command.verb == "start":
        machines = machines_for(policy, snapshot, int(chosen.action.job))
        content["machines"] = [_plain_machine(one, names) for one in machines]
    if isinstance(policy, ScoredRule):
        content["moved"] = _moved(policy, snapshot, chosen, [*waiting, *displaceable])
    return content


def _moved(
    policy: ScoredRule, snapshot: Snapshot, chosen: Opinion, candidates: Sequence[Candidate]
) -> list[dict[str, Any]]:
    """Of a job that is started, beside those that wait; of a preemption both jobs, beside each other too.

    A job that is moved is not chosen by its score.
    """
    from trimtab.gpu_scheduling.das.explaining import influences_of

    if chosen.command is None or chosen.moves:
        return []
    subjects = [chosen.command.job_id]
    if chosen.in_favour_of is not None:
        subjects = [chosen.in_favour_of, chosen.command.job_id]
    beside = [one.slot for one in candidates if chosen.in_favour_of is not None or not one.parts]
    slots = {one.job: one.slot for one in candidates}
    return [
        {
            "job": job,
            "beside": len(beside),
            "influences": [one._asdict() for one in influences_of(policy, snapshot, slots[job], beside)],
        }
        for job in subjects
    ]


def _plain_opinion(opinion: Opinion, snapshot: Snapshot, names: Sequence[str]) -> dict[str, Any]:
    command = opinion.command
    if command is None:
        return {"policy": opinion.policy, "verb": "hold"}
    from trimtab.gpu_scheduling.heuristics.words import gang_milli
    from trimtab.gpu_scheduling.problem import WHOLE

    slot = int(opinion.action.job)
    return {
        "policy": opinion.policy,
        "verb": command.verb,
        "job": command.job_id,
        "gpus": int(gang_milli(snapshot, slot)) / WHOLE,
        **(
            {
                "machines": _plain_parts(command.parts, names),
                "racks": opinion.racks,
                "rate": opinion.rate,
                "slowest_machine": opinion.slowest,
            }
            if command.verb == "start"
            else {"in_favour_of": opinion.in_favour_of, "moves": opinion.moves}
        ),
    }


def _plain_parts(parts: Sequence[Part], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"machine": names[part.machine], "instances": part.instances} for part in parts]


def _plain_candidate(
    one: Candidate, names: Sequence[str], ids: Sequence[str], *, learned: bool
) -> dict[str, Any]:
    """Of learned agents the score is told: the logarithm of a priority that nobody can read."""
    priority = one.priority
    if priority is not None and learned:
        priority = math.log(priority)
    return {
        "job": one.job,
        **({"name": ids[one.job]} if ids else {}),
        "gpus": one.gpus,
        "instances": one.instances,
        "waited_s": one.waited_ms / 1000.0,
        "run_s": one.run_ms / 1000.0,
        "expected_s": None if one.expected_ms is None else one.expected_ms / 1000.0,
        "priority": priority if priority is None or math.isfinite(priority) else None,
        "fits": one.fits,
        "room": one.room,
        "on": _plain_parts(one.parts, names),
    }


def _plain_machine(one: MachineView, names: Sequence[str]) -> dict[str, Any]:
    return {**one._asdict(), "machine": names[one.machine]}


GPU_EXPLAINER = Explainer(
    wing="gpu",
    choosing=("seed",),
    rules=lambda _suite: RULES,
    suite_of_flags=_suite_of_flags,
    suite_of_training=_suite_of_training,
    as_simulated=_as_simulated,
    scenario=_scenario,
    content=_played,
    show=print_gpu_decision,
    is_trained=_is_trained,
    suite_of_simulation=_suite_of_simulation,
)
