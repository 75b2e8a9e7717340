"""A forecast of the rate and the CPU of a request: so many pods will be busy to a target share.

Ten lines that land within a few percent of a look-ahead oracle where the CPU of a request is known. What they
cannot know without being told is how busy pods may be for this application's latency limit.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.policy import Parameter
from trimtab.pod_autoscaling.heuristics.forecasts import trend_forecast
from trimtab.pod_autoscaling.heuristics.measures import (
    Highest,
    cpu_per_request,
    known,
    replicas_for,
    size_of,
)
from trimtab.pod_autoscaling.heuristics.rule import Rule, Values
from trimtab.pod_autoscaling.problem import CPU, REPLICAS, Floats, Services, Snapshot

__all__ = ["MpcDecider", "mpc"]

# Requests of five minutes tell what one costs; of a history shorter than that, all there is.
_COST_SPAN_S = 300.0


def mpc() -> Rule:
    """Pods for the rate that the trend of the last four intervals foretells, at a target utilisation."""
    return Rule(
        "mpc",
        MpcDecider,
        (
            Parameter(
                "utilisation",
                0.85,
                "share of their CPU that pods are to use",
                (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
                low=0.05,
                high=1.0,
            ),
            Parameter(
                "cpu",
                2.0,
                "cores of a pod; 0: as they are",
                (0, 0.5, 1, 2, 3, 4),
                low=0.0,
                high=256.0,
            ),
            Parameter(
                "cpu_ms",
                0.0,
                "CPU of a request in milliseconds; 0: estimated from CPU used over requests finished",
                low=0.0,
                high=600_000.0,
            ),
            Parameter(
                "error", 1.0, "times so much is believed, to see what a wrong model costs", low=0.1, high=10.0
            ),
            Parameter(
                "horizon_s",
                35.0,
                "seconds that a rising trend is drawn out",
                (0, 15, 35, 60),
                low=0.0,
                high=3600.0,
            ),
            Parameter(
                "deviations",
                1.0,
                "standard deviations of the rate's changes on top",
                (0, 0.5, 1, 2, 3),
                low=0.0,
                high=10.0,
            ),
            Parameter(
                "down_wait_s",
                60.0,
                "seconds whose highest want is what is scaled down to",
                (0, 30, 60, 120, 300),
                low=0.0,
                high=86_400.0,
            ),
        ),
    )


class MpcDecider:
    """Pods for the rate that the trend of the last four intervals foretells, at a target utilisation."""

    def __init__(self, services: Services, values: Values) -> None:
        self._values = values
        self._highest = Highest(services, values["down_wait_s"])

    def decide(self, snapshot: Snapshot) -> Floats:
        values, samples = self._values, snapshot.samples
        rate = trend_forecast(
            samples.rate,
            known(snapshot, samples.rate),
            snapshot.interval_s,
            horizon_s=values["horizon_s"],
            deviations=values["deviations"],
        )
        told = values["cpu_ms"] / 1000
        each = np.full(len(rate), told) if told > 0 else cpu_per_request(snapshot, _COST_SPAN_S)
        cpu = snapshot.size[:, CPU] if values["cpu"] == 0 else np.full(len(rate), values["cpu"])
        # A pod size out of bounds is brought within before pods are counted.
        cpu = size_of(snapshot, cpu=cpu)[:, CPU]
        cores = np.where(rate == 0, 0.0, rate * each * values["error"])
        cpu = np.where(np.isfinite(cores), cpu, snapshot.size[:, CPU])
        wanted = replicas_for(cores, utilisation=values["utilisation"], cpu=cpu)
        replicas = self._highest(wanted, snapshot, snapshot.size[:, REPLICAS])
        return size_of(snapshot, replicas=replicas, cpu=cpu)
