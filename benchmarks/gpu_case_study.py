"""`make bench-gpu-case-study`: what the parts of the published DAS do (its figure 6) on the small cluster.

The gate: the same queue is shown beside the cluster as it is and beside an empty one, and jobs are put in
order both times. Without the gate the order cannot differ. The process: how alike it holds machines of the
same and of different speed, and whether crowded machines have lower scores than others of their speed.
"""

from __future__ import annotations

import numpy as np

from benchmarks.gpu_learning import BUNDLES, sequences
from benchmarks.results import Row, at_least, finish
from trimtab.gpu_scheduling.das.network import encode, order_scores, place_scores
from trimtab.gpu_scheduling.das.network_policy import NetworkPolicy
from trimtab.gpu_scheduling.das.view import MACHINE_FACTS, View, empty_view, look
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.networks.node_gaussian_process import MachineGaussian

STATES, QUEUE = 200, 4
CLUSTER = find_cluster("das-small")


def policy_named(name: str) -> NetworkPolicy:
    policy = make_policy(name)
    assert isinstance(policy, NetworkPolicy)
    return policy


def states(policy: NetworkPolicy) -> View:
    """What is seen whenever so many jobs wait or more and one of them fits, while it plays later PAI jobs."""
    machines = len(CLUSTER.machine_table.gpus)
    found = empty_view(policy.design, STATES, machines)
    slots, count = np.zeros(policy.design.window, np.int64), 0
    for seed, workload in enumerate(sequences("das-small", 120, jobs=600, first=110_000)):
        simulator = Simulator(CLUSTER)
        snapshot = simulator.reset(workload, seed)
        simulator.ask_when_something_happens()
        while not simulator.ended:
            if look(snapshot, found, count, slots) >= QUEUE and found.fits[count].any():
                count += 1
                if count == STATES:
                    return found
            snapshot = simulator.step(policy.decide(snapshot)).snapshot
    raise SystemExit(f"error: only {count} states have {QUEUE} jobs waiting; play more sequences")


def beside_an_empty_cluster(view: View) -> View:
    """The same jobs; of the machines, what they would be if nobody ran."""
    machines = view.machines.copy()
    facts = {name: place for place, name in enumerate(MACHINE_FACTS)}
    machines[..., facts["free GPUs"]] = machines[..., facts["GPUs"]]
    for name in ("share free", "wholly empty", "free CPU", "free memory"):
        machines[..., facts[name]] = 1.0
    for name in ("jobs there", "load"):
        machines[..., facts[name]] = 0.0
    return view._replace(machines=machines)


def orders(policy: NetworkPolicy, view: View) -> np.ndarray:
    known = encode(policy.parameters, view, policy.design, np)
    return order_scores(policy.parameters, known, policy.design, np)


def changed_order(policy: NetworkPolicy, view: View) -> tuple[float, float]:
    """Share of states in which another job is first, and of pairs of jobs that change places."""
    here, there = orders(policy, view), orders(policy, beside_an_empty_cluster(view))
    first, swapped = [], []
    for one, other, waits in zip(here, there, view.waits, strict=True):
        one, other = one[waits], other[waits]
        first.append(one.argmax() != other.argmax())
        pairs = np.triu_indices(len(one), 1)
        before, after = (scores[pairs[0]] > scores[pairs[1]] for scores in (one, other))
        swapped.append((before != after).mean())
    return float(np.mean(first)), float(np.mean(swapped))


def correlations(process: MachineGaussian, state: int, job: int) -> np.ndarray:
    """Between the machines' scores for one job, [machines, machines]."""
    loadings = process.loadings[state, job].astype(np.float64)
    persistence = float(np.broadcast_to(process.persistence, (*process.loadings.shape[:2], 1))[state, job, 0])
    core = np.eye(loadings.shape[1]) - persistence * loadings.T @ loadings
    covariance = np.eye(len(loadings)) + persistence * loadings @ np.linalg.solve(core, loadings.T)
    scale = np.asarray(process.deviation[state, job], np.float64)
    covariance *= scale[:, None] * scale[None, :]
    spread = np.sqrt(np.diag(covariance))
    return covariance / spread[:, None] / spread[None, :]


def placement_rows(policy: NetworkPolicy, view: View) -> list[Row]:
    known = encode(policy.parameters, view, policy.design, np)
    process = place_scores(policy.parameters, view, known, policy.design, np)
    speed = view.machines[0, :, MACHINE_FACTS.index("speed")]
    crowd = view.machines[..., MACHINE_FACTS.index("load")]
    alike, apart, lower = [], [], []
    same = speed[:, None] == speed[None, :]
    others = ~np.eye(len(speed), dtype=bool)
    for state in range(STATES):
        job = int(np.argmax(view.fits[state]))
        found = correlations(process, state, job)
        alike.append(found[same & others].mean())
        apart.append(found[~same].mean())
        scores = np.asarray(process.mean[state, job])
        fast = np.flatnonzero(speed == speed.max())
        most, least = fast[crowd[state, fast].argmax()], fast[crowd[state, fast].argmin()]
        if crowd[state, most] > crowd[state, least]:
            lower.append(scores[most] < scores[least])
    return [
        Row("similarity of machines of one speed: correlation", float(np.mean(alike)), "none", True),
        Row("similarity of machines of different speed: correlation", float(np.mean(apart)), "none", True),
        at_least(
            "crowded machines that score below a less crowded one as fast: share", float(np.mean(lower)), 0.5
        ),
    ]


def rows() -> list[Row]:
    whole, alone = policy_named("das-paper"), policy_named(str(BUNDLES / "das-paper-da"))
    view = states(whole)
    first, swapped = changed_order(whole, view)
    nothing = max(changed_order(alone, view))
    return [
        Row("order beside a full and an empty cluster: another job is first (share)", first, "none", True),
        Row(
            "order beside a full and an empty cluster: pairs that change places (share)",
            swapped,
            "none",
            True,
        ),
        Row("order without the gate: pairs that swap (share)", nothing, "== 0", nothing == 0),
        *placement_rows(whole, view),
    ]


if __name__ == "__main__":
    finish("gpu-case-study", rows())
