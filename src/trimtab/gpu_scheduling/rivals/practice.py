"""Practice: rivals play made-up PAI jobs on das-small, and keep what they learned as bundles.

    python -m trimtab.gpu_scheduling.rivals.practice rifling dl2

Live code does not come here: it needs the simulator.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import RegistryError
from trimtab.core.randomness import split, uniform
from trimtab.core.settings import Field, Settings
from trimtab.gpu_scheduling.heuristics.words import hold
from trimtab.gpu_scheduling.problem import gang_fits, start
from trimtab.gpu_scheduling.rivals import dl2, dl2_learning, rifling
from trimtab.gpu_scheduling.rivals.bundles import BUNDLES, WING
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload

__all__ = ["RIVALS", "Practice", "practise_dl2", "practise_rifling"]

_CLUSTER = "das-small"
_TRAINING, _VALIDATION = "training", "validation"


class Practice(Settings):
    """How much is played, and on what.

    >>> Practice(episodes=2).jobs
    300
    """

    workload: str = Field(default="pai", min_length=1, description="World that jobs are drawn from.")
    jobs: int = Field(default=300, ge=2, le=100_000, description="Jobs of an episode.")
    episodes: int = Field(default=60, ge=1, le=1_000_000, description="Episodes played.")
    copied: int = Field(default=12, ge=1, le=10_000, description="Episodes of a rule that DL2 copies first.")
    epochs: int = Field(default=20, ge=1, le=10_000, description="Times DL2 goes through them.")
    validated: int = Field(default=6, ge=1, le=1000, description="Episodes that choose the best of DL2.")
    seed: int = Field(default=0, ge=0, description="Luck.")

    def drawn(self, purpose: str, number: int) -> Workload:
        """Jobs of an episode; those of one purpose are never those of another."""
        gpus = float(find_cluster(_CLUSTER).machine_table.gpus.sum())
        settings = WorkloadSettings(name=self.workload, jobs=self.jobs, load=usual_load(_CLUSTER))
        return draw_workload(settings, gpus=gpus, seed=split(self.seed, purpose, number) % 2**31)

    def several(self, purpose: str, count: int) -> list[Workload]:
        return [self.drawn(purpose, number) for number in range(count)]


Told: TypeAlias = Callable[[str], None]


def practise_rifling(practice: Practice, *, told: Told) -> Bundle:
    """Q-learning from an empty table."""
    bounds = np.quantile(practice.drawn(_TRAINING, 0).communication, [0.25, 0.5, 0.75])
    table = np.zeros((rifling.GROUPS * rifling.FREE_CLASSES, len(rifling.ACTIONS)))
    simulator = Simulator(find_cluster(_CLUSTER))
    for number in range(practice.episodes):
        luck = split(practice.seed, "rifling", number)
        rifling_episode(simulator, practice.drawn(_TRAINING, number), table, bounds, luck=luck)
        if number % 10 == 9:
            told(f"rifling: {number + 1} episodes, mean of the best values {table.max(axis=1).mean():.3f}")
    tensors = {"table": table, "bounds": bounds}
    policy = rifling.RiflingPolicy(Bundle("rifling", WING, rifling.KIND, {}, tensors))
    return _bundle(policy, rifling.KIND, practice, tensors)


def rifling_episode(
    simulator: Simulator, workload: Workload, table: rifling.Floats, bounds: rifling.Floats, *, luck: int
) -> None:
    """Play one workload with tries, and learn from every decision, in place."""
    snapshot = simulator.reset(workload, 0)
    simulator.ask_when_something_happens()
    last: tuple[int, int, float] | None = None
    decision = 0
    while not simulator.ended:
        job = int(snapshot.pending[0])
        if not gang_fits(snapshot, job):
            snapshot = simulator.step(hold(snapshot)).snapshot
            continue
        state = rifling.state_of(snapshot, job, bounds)
        if last is not None:
            rifling.learn(table, *last, state)
        open_ = len(rifling.ACTIONS) if snapshot.may_hold else rifling.WAIT_ACTION
        draws = uniform(luck, decision, np.arange(2))
        action = int(draws[1] * open_) if draws[0] < rifling.TRIES else int(np.argmax(table[state, :open_]))
        decision += 1
        count, gpu = rifling.placed(snapshot, job, action)
        reward = rifling.processing_rate(snapshot, job, count) if count else 0.0
        last = (state, action, reward)
        chosen = start(job, snapshot.machine_order[:count], gpu) if count else hold(snapshot)
        snapshot = simulator.step(chosen).snapshot


def practise_dl2(practice: Practice, *, told: Told) -> Bundle:
    """Copy smallest first, then actor-critic; the best on validation workloads is kept."""
    cluster = find_cluster(_CLUSTER)
    simulator = Simulator(cluster)
    learner = dl2_learning.Learner(*dl2_learning.fresh(practice.seed))
    copied = practice.several("copying", practice.copied)
    same = dl2_learning.copy_smallest(
        learner.actor, cluster, copied, epochs=practice.epochs, seed=practice.seed
    )
    unseen = practice.several(_VALIDATION, practice.validated)
    least = first = dl2_learning.mean_jct_ms(simulator, unseen, learner.actor)
    best = {name: array.copy() for name, array in learner.actor.items()}
    told(f"dl2: copies {same:.1%} of decisions; {first / 60_000:.1f} min on validation")
    every = max(1, practice.episodes // 10)
    for number in range(practice.episodes):
        choose = dl2_learning.sampler(learner.actor, split(practice.seed, "dl2", number))
        lived = dl2_learning.play(simulator, practice.drawn(_TRAINING, number), number, choose)
        # The critic learns first what the copied rule is worth.
        error = dl2_learning.improve(learner, lived, acting=number >= every)
        if (number + 1) % every == 0:
            found = dl2_learning.mean_jct_ms(simulator, unseen, learner.actor)
            told(f"dl2: {number + 1} episodes, {found / 60_000:.1f} min, critic's error {error:.3f}")
            if found < least:
                least = found
                best = {name: array.copy() for name, array in learner.actor.items()}
    policy = dl2.Dl2Policy(Bundle("dl2", WING, dl2.KIND, {}, best))
    told(f"dl2: kept the one with {least / 60_000:.1f} min, {first / 60_000:.1f} after copying")
    return _bundle(policy, dl2.KIND, practice, best)


def _bundle(policy: Any, kind: str, practice: Practice, tensors: dict[str, Any]) -> Bundle:
    """A bundle with its score on validation workloads."""
    cluster = find_cluster(_CLUSTER)
    found = [
        simulate(workload, policy, cluster, seed=number).metrics()
        for number, workload in enumerate(practice.several(_VALIDATION, practice.validated))
    ]
    manifest = {
        "settings": {},
        "trained": {
            **practice.model_dump(),
            "cluster": _CLUSTER,
            "workloads": [f"made-up {practice.workload} jobs on {_CLUSTER}"],
        },
        "scores": {key: float(np.mean([one[key] for one in found])) for key in ("mean_jct_min", "mean_fee")},
    }
    return Bundle(kind, WING, kind, manifest, tensors)


RIVALS: dict[str, tuple[Callable[..., Bundle], Practice]] = {
    "rifling": (practise_rifling, Practice()),
    "dl2": (practise_dl2, Practice(episodes=300)),
}


def main(names: Sequence[str]) -> None:
    """Practise with the rivals named, or with all, and put their bundles where they are shipped from."""
    unknown = [name for name in names if name not in RIVALS]
    if unknown:
        raise RegistryError(f"no rival {unknown[0]!r}; there are {', '.join(RIVALS)}")
    for name in names or RIVALS:
        practise, practice = RIVALS[name]
        started = time.perf_counter()
        bundle = practise(practice, told=_say)
        folder = save_bundle(BUNDLES / name, bundle)
        _say(f"{name}: {time.perf_counter() - started:.0f} s, written to {folder}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
