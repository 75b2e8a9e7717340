"""One GPU cluster for Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike, NDArray

from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.episode import Episode
from trimtab.gpu_scheduling.gymnasium_env.view import EnvSettings, View
from trimtab.gpu_scheduling.problem import HOLD, Snapshot
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gymnasium_base.actions import Mask, action_inside, checked_action
from trimtab.gymnasium_base.single import SeededEnv

__all__ = ["GpuSchedulingEnv", "WorkloadSampler"]

WorkloadSampler = Callable[[int], Workload]
"""From the seed of an episode to its jobs."""
Observation = dict[str, NDArray[Any]]


class GpuSchedulingEnv(SeededEnv[Observation]):
    """Start training jobs on a cluster, one decision at a time; see docs/gymnasium.md for spaces and masks.

    `sampler` gives the jobs of an episode from its seed. `reset(seed=7)` plays `sampler(7)` with the luck of
    seed 7, just as `simulate(sampler(7), policy, cluster, seed=7)` does; further resets draw their seeds.
    Returns add up to minus the sum of job completion times, in `reward_unit_ms`.

    >>> from trimtab.gpu_scheduling import make_workload
    >>> jobs = make_workload([0, 0], duration_ms=[60_000, 30_000], gpus=[4, 2])
    >>> env = GpuSchedulingEnv(lambda seed: jobs)
    >>> env.reset(seed=0)[1]["jobs_waiting"]
    2
    """

    def __init__(
        self,
        sampler: WorkloadSampler,
        cluster: Cluster | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self.cluster = cluster or Cluster()
        self._sampler = sampler
        self._settings = settings or EnvSettings()
        self._view = View(self.cluster, self._settings)
        self.observation_space = self._view.observation_space
        self.action_space = self._view.action_space
        self._simulator = Simulator(self.cluster)

    @property
    def hold(self) -> int:
        """The action that starts nothing more until something changes."""
        return self._view.hold

    def start(self, job: int, placement: str) -> int:
        """The action that starts a job, by its slot in the snapshot, where a placement would.

        >>> from trimtab.gpu_scheduling import make_workload
        >>> env = GpuSchedulingEnv(lambda seed: make_workload([0], duration_ms=60_000, gpus=4))
        >>> observation, info = env.reset(seed=0)
        >>> env.start(env.snapshot.pending[0], "fast")
        1
        """
        self._refuse_before_reset()
        return self._view.number_of(job, placement)

    @property
    def snapshot(self) -> Snapshot:
        """What may be known now, as policies get it; valid until the next step."""
        self._refuse_before_reset()
        return self._simulator.snapshot

    @property
    def episode(self) -> Episode:
        """The record of the finished episode, job by job."""
        self._refuse_before_reset()
        return self._simulator.episode("agent")

    def _begin(self, seed: int) -> Observation:
        first = self._simulator.reset(self._sampler(seed), seed)
        if not self._settings.heartbeat:
            self._simulator.ask_when_something_happens()
        # Where questions come in rounds, the first jobs have waited for this one.
        self._unpaid_ms = int((first.now_ms - first.arrival_ms[first.pending]).sum())
        self._elapsed_ms, self._illegal = 0, False
        self._look(first)
        return self._view.observation()

    def _answer(self, action: ArrayLike) -> tuple[Observation, float, bool, bool]:
        number = int(checked_action(self.action_space, action))
        inside = action_inside(self._view.mask, number, self._settings.illegal)
        self._illegal = inside != number
        reward_ms, ended = self._go_on(inside)
        reward_ms, self._unpaid_ms = reward_ms - self._unpaid_ms, 0
        return self._view.observation(), reward_ms / self._settings.reward_unit_ms, ended, False

    def _go_on(self, number: int) -> tuple[float, bool]:
        """Act, and run to the next question that leaves a choice: the reward in ms, whether all is done."""
        transition = self._simulator.step(self._view.meant(number))
        reward, self._elapsed_ms = transition.reward, transition.elapsed_ms
        while not self._look(transition.snapshot) and not transition.terminated:
            transition = self._simulator.step(HOLD)
            reward += transition.reward
            self._elapsed_ms += transition.elapsed_ms
        return reward, transition.terminated

    def _look(self, snapshot: Snapshot) -> bool:
        return self._view.look(self._simulator.row, snapshot, ended=self._simulator.ended)

    def _mask(self) -> Mask:
        return self._view.mask.copy()

    def _facts(self) -> dict[str, Any]:
        return {
            "now_ms": self._view.now_ms,
            "elapsed_ms": self._elapsed_ms,
            "illegal_action": self._illegal,
            "jobs_waiting": self._view.waiting,
            "jobs_not_shown": self._view.waiting - self._view.shown,
        }

    def _metrics(self) -> dict[str, float]:
        return self.episode.metrics()
