"""`make bench-decima-serving`: what a decision costs, on numpy alone and under JAX, and that both agree.

Only decisions with exactly 20 jobs in the system are timed, each on the snapshot of the running episode as
a controller would meet it. Both forms are then asked about the same recorded states with 20 jobs and
fewer. JAX gets them as in training, in arrays of one size: rows that hold no job must change nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.decima_settings import compacts, finish_after, networks, reported
from benchmarks.results import Row, at_most
from trimtab.benchmark.dag_scheduling.suites import BatchSuite
from trimtab.benchmark.suite import FIRST_TEST_SEED
from trimtab.dag_scheduling.decima.agent import decima_agent
from trimtab.dag_scheduling.decima.network import limit_scores, stage_scores
from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.decima.view import View, action_of, words_for
from trimtab.dag_scheduling.policies import DagPolicy
from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

JOBS = 20
TIMED = 1000
RECORDED = 1000
TIE = 1e-5
"""Scores nearer than this differ by rounding."""
WARM_UP = 50
"""Decisions before the clock counts: caches and lazily made tables."""
SMALL_MATRICES = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}
"""Products of 20 x 16 numbers by 16 x 16: a library for large ones takes a fifth longer over a decision."""


class Answer(NamedTuple):
    """What was decided about a view: position of the choice, counted in an array of full size, and limit."""

    view: View
    choice: int
    limit: int


class Watched:
    """The policy with a clock and a notebook."""

    def __init__(self, policy: DecimaPolicy, stages: int) -> None:
        self.name = policy.name
        self.policy = policy
        self.stages = stages
        self.seconds: list[float] = []
        self.answers: list[Answer] = []

    def decide(self, snapshot: Snapshot) -> Action:
        start = time.perf_counter()
        action = self.policy.decide(snapshot)
        took = time.perf_counter() - start
        count = len(snapshot.jobs)
        if count == JOBS:
            self.seconds.append(took)
        if len(self.answers) < 2 * RECORDED:
            self.answers.append(self._noted(snapshot, action))
        return action

    def _noted(self, snapshot: Snapshot, action: Action) -> Answer:
        thought = self.policy.consider(snapshot)
        assert action == action_of(
            thought.shown, snapshot, thought.choice, int(thought.limits[thought.limit])
        ), "deciding twice gives two answers"
        return Answer(
            padded(thought.shown.view, self.stages),
            self._full_size(thought.choice, thought.shown.view),
            thought.limit,
        )

    def _full_size(self, choice: int, view: View) -> int:
        """The position in arrays of JOBS jobs with so many stages each."""
        _, jobs, stages, _ = view.stages.shape
        classes = self.policy.design.classes
        if choice == jobs * stages * classes:
            return JOBS * self.stages * classes
        job, rest = divmod(choice, stages * classes)
        return job * self.stages * classes + rest


def padded(view: View, stages: int) -> View:
    """The same view among rows that hold nothing."""

    def grown(array: np.ndarray, *shape: int) -> np.ndarray:
        larger = np.zeros((1, *shape), array.dtype)
        larger[tuple(slice(0, size) for size in array.shape)] = array
        return larger

    return View(
        grown(view.stages, JOBS, stages, view.stages.shape[-1]),
        grown(view.children, JOBS, stages, words_for(stages)),
        grown(view.jobs, JOBS, view.jobs.shape[-1]),
        view.cluster.copy(),
    )


def watch(policy: DecimaPolicy) -> Watched:
    """Play batches of 20 jobs until enough was decided before the first of them ended."""
    suite = BatchSuite(workload=WorkloadSettings(jobs=JOBS))
    scenario = suite.scenarios()[0]
    seed = FIRST_TEST_SEED
    stages = int(suite.draw(scenario, seed).profile.stage_count.max())
    watched = Watched(policy, stages)
    while len(watched.seconds) < TIMED + WARM_UP:
        simulate(suite.draw(scenario, seed), watched, suite.cluster, seed=seed)
        seed += 1
    return watched


def evenly(answers: Sequence[Answer], count: int) -> list[Answer]:
    """So many of them, spread over all."""
    return [answers[place] for place in np.linspace(0, len(answers) - 1, count).round().astype(int)]


def serve_on_one_thread() -> None:
    """Tell JAX, before its first use, that whoever asks waits for the answer.

    A decision is some 200 steps of a few microseconds: handing them to other threads takes longer.
    """
    os.environ["PJRT_NPROC"] = "1"
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def jax_best(policy: DecimaPolicy) -> Callable[[View], jax.Array]:
    """The likeliest (choice, limit) under JAX, compiled for these parameters and for small matrices."""
    agent = decima_agent(policy.design, most_executors=50)
    parameters = jax.device_put(policy.parameters)
    best = jax.jit(lambda observation: agent.best(parameters, observation), compiler_options=SMALL_MATRICES)
    return lambda view: best(view._asdict())


def jax_seconds(best: Callable[[View], jax.Array], answers: Sequence[Answer]) -> list[float]:
    """Time of each decision, inputs already on the device."""
    seconds = []
    for answer in [*answers[:WARM_UP], *answers]:
        view = View(*jax.device_put(tuple(answer.view)))
        jax.block_until_ready(tuple(view))
        start = time.perf_counter()
        best(view).block_until_ready()
        seconds.append(time.perf_counter() - start)
    return seconds[WARM_UP:]


class Agreement(NamedTuple):
    """Shares of the recorded states."""

    same: float
    """Both forms gave the same answer."""
    as_good: float
    """The same, or by numpy's own scores a tie: two jobs of one kind in one state score alike."""


def agreement(
    policy: DecimaPolicy, best: Callable[[View], jax.Array], answers: Sequence[Answer]
) -> Agreement:
    """Compare what JAX decides on all states with what numpy decided; idling has no limit to agree on."""
    views = View(*(np.concatenate(parts) for parts in zip(*(a.view for a in answers), strict=True)))
    choice, limit = np.asarray(best(views)).T
    scores = stage_scores(policy.parameters, views, policy.design, np)
    limit_logits, _, _ = limit_scores(policy.parameters, scores, choice, policy.design, 50, np)
    idle = choice == scores.logits.shape[1] - 1
    rows = np.arange(len(answers))
    choice_loss = scores.logits.max(1) - scores.logits[rows, choice]
    limit_loss = np.where(idle, 0.0, limit_logits.max(1) - limit_logits[rows, limit])
    same = (choice == [a.choice for a in answers]) & (idle | (limit == [a.limit for a in answers]))
    as_good = same | (np.maximum(choice_loss, limit_loss) <= TIE)
    return Agreement(float(same.mean()), float(as_good.mean()))


class Timed:
    """A policy with a clock."""

    def __init__(self, policy: DagPolicy) -> None:
        self.name, self._policy = policy.name, policy
        self.seconds: list[float] = []

    def decide(self, snapshot: Snapshot) -> Action:
        start = time.perf_counter()
        action = self._policy.decide(snapshot)
        if len(snapshot.jobs) == JOBS:
            self.seconds.append(time.perf_counter() - start)
        return action


def compact_rows(policy: DagPolicy) -> list[Row]:
    """The compact scheduler as it runs live: plain Python, nothing compiled."""
    timed, suite = Timed(policy), BatchSuite()
    seed = FIRST_TEST_SEED
    while len(timed.seconds) < WARM_UP + TIMED:
        simulate(suite.draw(suite.scenarios()[0], seed), timed, suite.cluster, seed=seed)
        seed += 1
    took_ms = 1000 * np.array(timed.seconds[WARM_UP:])
    return [
        reported(f"compact, {JOBS} jobs: ms a decision, p50", float(np.percentile(took_ms, 50))),
        reported(f"compact, {JOBS} jobs: ms a decision, p99", float(np.percentile(took_ms, 99))),
    ]


def main() -> None:
    started = time.perf_counter()
    serve_on_one_thread()
    policy = networks("decima-tpch-batch")["decima-tpch-batch"]
    watched = watch(policy)
    numpy_ms = 1000 * np.array(watched.seconds[WARM_UP:])
    recorded = evenly(watched.answers, RECORDED)
    best = jax_best(policy)
    jax_ms = 1000 * np.array(jax_seconds(best, recorded))
    agreed = agreement(policy, best, recorded)
    rows = [
        at_most(f"numpy, {JOBS} jobs: ms a decision, p50", float(np.percentile(numpy_ms, 50)), 1.5),
        at_most(f"numpy, {JOBS} jobs: ms a decision, p99", float(np.percentile(numpy_ms, 99)), 5.0),
        at_most(f"JAX, {JOBS} jobs: ms a decision, p50", float(np.percentile(jax_ms, 50)), 0.7),
        reported(f"JAX, {JOBS} jobs: ms a decision, p99", float(np.percentile(jax_ms, 99))),
        Row(
            f"JAX decides as numpy, or a tie: share of {RECORDED} states",
            agreed.as_good,
            "= 1",
            agreed.as_good == 1,
        ),
        reported(f"JAX decides as numpy: share of {RECORDED} states", agreed.same),
        *compact_rows(compacts("compact-tpch")["compact-tpch"]),
    ]
    finish_after("decima-serving", rows, started)


if __name__ == "__main__":
    main()
