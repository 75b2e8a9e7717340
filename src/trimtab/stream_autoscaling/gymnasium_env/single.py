"""One streaming job for Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.gymnasium_base.actions import Mask
from trimtab.gymnasium_base.single import AutoscalingEnv
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.gymnasium_env.view import EnvSettings, Moment, View
from trimtab.stream_autoscaling.job import Job, graph_of
from trimtab.stream_autoscaling.problem import Snapshot
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["StreamAutoscalingEnv", "TraceSampler"]

TraceSampler = Callable[[int], RateTrace]
"""From the seed of an episode to what arrives in it."""


class StreamAutoscalingEnv(AutoscalingEnv):
    """Decide once per interval how parallel each operator of a job is; see docs/gymnasium.md.

    `reset(seed=7)` plays `sampler(7)` with the luck of seed 7, just as `simulate(job, sampler(7), policy,
    deployment, seed=7)` does; further resets draw their seeds. Rewards are those of the episode.

    >>> from trimtab.stream_autoscaling import TraceSettings, draw_trace, make_job
    >>> job = make_job("linear:3")
    >>> env = StreamAutoscalingEnv(job, lambda seed: draw_trace(TraceSettings(name="sine"), job, seed=seed))
    >>> env.reset(seed=0)[1]["parallelism"].tolist() == env.snapshot.parallelism[0].tolist()
    True
    """

    def __init__(
        self,
        job: Job,
        sampler: TraceSampler,
        deployment: Deployment | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self.job = job
        self._sampler = sampler
        self._deployment = deployment or Deployment()
        self._view = View(graph_of([job]), settings or EnvSettings())
        self.observation_space = self._view.observation_space
        self.action_space = self._view.action_space
        self._simulator: StreamSimulator | None = None
        self._moment: Moment | None = None

    @property
    def snapshot(self) -> Snapshot:
        """What may be known now, as policies get it (a batch of one); valid until the next step."""
        return self._now.snapshot

    def _begin(self, seed: int) -> NDArray[np.float32]:
        self._simulator = StreamSimulator(
            [self.job], [self._sampler(seed)], self._deployment, seeds=[seed], recording=True
        )
        return self._look(self._simulator)

    def _live(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], float, bool]:
        simulator = self._playing
        outcome = simulator.step(self._view.wanted(action[None], self._now))
        return self._look(simulator), float(outcome.rewards[0]), bool(outcome.ended[0])

    def _look(self, simulator: StreamSimulator) -> NDArray[np.float32]:
        self._moment = self._view.look(simulator.snapshot())
        return self._moment.observations[0]

    def _mask(self) -> Mask | None:
        masks = self._view.masks(self._now)
        return None if masks is None else masks[0]

    def _facts(self) -> dict[str, Any]:
        snapshot = self._now.snapshot
        return {"now_s": float(snapshot.now_s[0]), "parallelism": snapshot.parallelism[0].copy()}

    def _metrics(self) -> dict[str, float]:
        return self._playing.episodes("agent")[0].metrics()

    @property
    def _now(self) -> Moment:
        self._refuse_before_reset()
        assert self._moment is not None
        return self._moment

    @property
    def _playing(self) -> StreamSimulator:
        assert self._simulator is not None
        return self._simulator
