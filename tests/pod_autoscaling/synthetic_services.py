"""Metrics of a service whose truth is known: made by formulas, with noise, outliers and holes."""

from dataclasses import dataclass

import numpy as np

from trimtab.pod_autoscaling.fitting import ServiceHistory, service_history
from trimtab.pod_autoscaling.fitting.balancing import slowdown


@dataclass(frozen=True)
class Truth:
    """What the fit should find."""

    cpu_ms: float = 20.0
    io_ms: float = 30.0
    variation: float = 1.0
    idle_cpu: float = 0.03
    memory_mib: float = 150.0
    per_request_mib: float = 3.0
    leak_mib_per_hour: float = 0.0
    mean_rate: float = 150.0
    cpu_limit: float = 1.0


def columns_of(
    truth: Truth, *, seed: int = 0, hours: float = 6.0, noise: float = 0.02
) -> dict[str, np.ndarray]:
    """Every 15 s: two waves, replicas that lag behind as an autoscaler's do, random balancing."""
    luck = np.random.default_rng(seed)
    count = int(hours * 240)
    time_h = np.arange(count) / 240
    wave = truth.mean_rate * (1 + 0.5 * np.sin(time_h * 2.1) + 0.2 * np.sin(time_h * 7.3))
    rate = luck.poisson(15 * wave) / 15
    work_s = truth.cpu_ms / 1000
    lagging = np.convolve(wave, np.ones(40) / 40, "full")[:count]
    lagging[:40] = wave[:40]
    replicas = np.ceil(lagging * work_s / (0.4 * truth.cpu_limit)) + luck.integers(0, 2, count)
    busy = rate * work_s / (replicas * truth.cpu_limit)
    limits = np.full(count, truth.cpu_limit)
    latency = truth.io_ms / 1000 + work_s * slowdown(busy, limits)

    def noisy(values: np.ndarray, share: float = 1.0) -> np.ndarray:
        return values * np.exp(share * noise * luck.standard_normal(count))

    unloaded = work_s + truth.io_ms / 1000
    variance = truth.variation * (work_s**2 + (truth.io_ms / 1000) ** 2)
    spread = np.sqrt(np.log1p(variance / unloaded**2))
    median = latency * np.exp(-(spread**2) / 2)
    inside = rate * latency / replicas
    memory = truth.memory_mib + truth.per_request_mib * inside + truth.leak_mib_per_hour * time_h
    return {
        "rate": rate,
        "cpu": noisy(truth.idle_cpu * replicas + work_s * rate),
        "memory_mib": noisy(memory, 0.1),
        "latency_s": noisy(latency),
        "latency_p50_s": median,
        "latency_p99_s": median * np.exp(2.3263 * spread),
        "replicas": replicas,
        "cpu_limit": limits,
    }


def service_of(truth: Truth, *, seed: int = 0, hours: float = 6.0, noise: float = 0.02) -> ServiceHistory:
    """The same as a history."""
    return service_history("synthetic", 15.0, columns_of(truth, seed=seed, hours=hours, noise=noise))
