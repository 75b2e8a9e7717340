"""One environment for Gymnasium."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.gymnasium_env.filling import Picture
from trimtab.dag_scheduling.gymnasium_env.view import EnvSettings, View, WorkloadSampler, draw
from trimtab.dag_scheduling.simulator.batch import BatchSimulator
from trimtab.gymnasium_base.actions import Mask
from trimtab.gymnasium_base.single import SeededEnv

__all__ = ["DagSchedulingEnv", "metrics_of"]

Observation = dict[str, NDArray[Any]]


class DagSchedulingEnv(SeededEnv[Observation]):
    """Schedule DAG jobs, one decision at a time; see docs/gymnasium.md for spaces and masks.

    `sampler` gives the workload of an episode from its seed. `reset(seed=7)` plays `sampler(7)` with the
    luck of seed 7, just as `simulate(sampler(7), policy, cluster, seed=7)` does; further resets draw
    their seeds. Returns add up to minus the sum of job completion times, in `reward_unit_ms`.
    """

    def __init__(
        self,
        sampler: WorkloadSampler,
        cluster: Cluster | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self._sampler = sampler
        self._settings = settings or EnvSettings()
        cluster = cluster or Cluster()
        self._view = View(cluster, self._settings)
        self.observation_space = self._view.observation_space
        self.action_space = self._view.action_space
        self._simulator = BatchSimulator(cluster, size=1, time_limit_ms=self._settings.time_limit_ms)
        self._picture: Picture | None = None

    @property
    def limits(self) -> list[int]:
        """The parallelism limit that each level stands for."""
        return self._view.levels.tolist()

    def _begin(self, seed: int) -> Observation:
        self._simulator.reset(draw(self._sampler, self._settings, [seed]), [seed])
        self._elapsed_ms, self._illegal, self._truncated = 0, False, False
        return self._observe()

    def _answer(self, action: ArrayLike) -> tuple[Observation, float, bool, bool]:
        sent, illegal = self._view.read(self._shown, action, self._simulator.ended)
        transition = self._simulator.step(sent)
        self._elapsed_ms, self._illegal = int(transition.elapsed_ms[0]), bool(illegal[0])
        self._truncated = bool(transition.truncated[0])
        reward = float(transition.rewards[0] / self._settings.reward_unit_ms)
        return self._observe(), reward, bool(transition.terminated[0]), self._truncated

    def _mask(self) -> Mask:
        return self._view.sampling_mask(self._view.masks(self._shown)[0])

    def _facts(self) -> dict[str, Any]:
        return {
            "now_ms": int(self._simulator.now_ms[0]),
            "elapsed_ms": self._elapsed_ms,
            "illegal_action": self._illegal,
        }

    def _metrics(self) -> dict[str, float] | None:
        return None if self._truncated else metrics_of(self._simulator, 0)

    def _observe(self) -> Observation:
        self._picture = self._view.look(self._simulator)
        return {name: part[0] for name, part in self._view.observations(self._picture).items()}

    @property
    def _shown(self) -> Picture:
        assert self._picture is not None
        return self._picture


def metrics_of(simulator: BatchSimulator, index: int) -> dict[str, float]:
    """What became of a finished episode."""
    return simulator.episode(index, "agent").metrics()
