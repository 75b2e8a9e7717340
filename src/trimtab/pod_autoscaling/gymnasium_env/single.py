"""One service for Gymnasium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.gymnasium_base.actions import Mask
from trimtab.gymnasium_base.single import AutoscalingEnv
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.services import Service
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.gymnasium_env.view import EnvSettings, Moment, View
from trimtab.pod_autoscaling.problem import Snapshot
from trimtab.pod_autoscaling.simulator.simulator import Simulator
from trimtab.rates.traces import RateTrace

__all__ = ["PodAutoscalingEnv", "ServiceSampler"]

ServiceSampler = Callable[[int], tuple[Application, RateTrace] | Service]
"""From the seed of an episode to a service and what arrives at it; or to one as `draw_services` gives it,
which also says how it begins and changes."""


class PodAutoscalingEnv(AutoscalingEnv):
    """Decide once per interval the replicas, CPU and memory of a service; see docs/gymnasium.md.

    `reset(seed=7)` plays `sampler(7)` with the luck of seed 7, just as `simulate(application, trace, policy,
    deployment, seed=7)` does; further resets draw their seeds. Rewards are those of the episode.

    >>> from trimtab.pod_autoscaling import TraceSettings, draw_trace, make_application
    >>> web = make_application("web")
    >>> quiet = TraceSettings(mean_cores=1, hours=0.1)
    >>> env = PodAutoscalingEnv(lambda seed: (web, draw_trace(quiet, web, seed=seed)))
    >>> env.reset(seed=0)[1]["size"].tolist() == env.snapshot.size[0].tolist()
    True
    """

    def __init__(
        self,
        sampler: ServiceSampler,
        deployment: Deployment | None = None,
        settings: EnvSettings | None = None,
    ) -> None:
        self._sampler = sampler
        self._deployment = deployment or Deployment()
        self._view = View(self._deployment.objective, settings or EnvSettings())
        self.observation_space = self._view.observation_space
        self.action_space = self._view.action_space
        self._simulator: Simulator | None = None
        self._moment: Moment | None = None

    @property
    def snapshot(self) -> Snapshot:
        """What may be known now, as policies get it (a batch of one); valid until the next step."""
        return self._now.snapshot

    def _begin(self, seed: int) -> NDArray[np.float32]:
        drawn = self._sampler(seed)
        drifts = sizes = None
        if isinstance(drawn, Service):
            application, trace = drawn.application, drawn.trace
            drifts, sizes = [drawn.drift], drawn.size[None]
        else:
            application, trace = drawn
        self._simulator = Simulator([application], self._deployment, recording=True)
        self._view.begin(self._simulator.services)
        return self._look(self._simulator.reset([trace], [seed], drifts=drifts, sizes=sizes))

    def _live(self, action: NDArray[Any]) -> tuple[NDArray[np.float32], float, bool]:
        wanted = self._view.wanted(action, self._now)
        snapshot, rewards, ended = self._playing.step(wanted)
        return self._look(snapshot), float(rewards[0]), bool(ended[0])

    def _look(self, snapshot: Snapshot) -> NDArray[np.float32]:
        self._moment = self._view.look(snapshot)
        return self._moment.observation

    def _mask(self) -> Mask | None:
        return self._view.mask(self._now)

    def _facts(self) -> dict[str, Any]:
        snapshot = self._now.snapshot
        return {"now_s": float(snapshot.now_s[0]), "size": snapshot.size[0].copy()}

    def _metrics(self) -> dict[str, float]:
        return self._playing.episodes("agent")[0].metrics()

    @property
    def _now(self) -> Moment:
        self._refuse_before_reset()
        assert self._moment is not None
        return self._moment

    @property
    def _playing(self) -> Simulator:
        assert self._simulator is not None
        return self._simulator
