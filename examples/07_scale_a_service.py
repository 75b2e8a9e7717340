"""From metrics of a service in a CSV to a picture of three autoscalers, one of them behind the guard.

The metrics are made up here, so that the example runs anywhere: two hours, four times a minute. Your own:
    trimtab fit-profile metrics.csv --out my-service.toml
"""

import csv
import math
from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.control import DriftWatch
from trimtab.pod_autoscaling import (
    Deployment,
    Episode,
    GuardedPolicy,
    TraceSettings,
    draw_trace,
    make_policy,
    simulate,
)
from trimtab.pod_autoscaling.drawing import Marks, changes_of, draw_episodes, drift_marks, guard_marks
from trimtab.pod_autoscaling.fitting.fit import fit_application
from trimtab.pod_autoscaling.history.service_csv import read_service_csv


def write_metrics(path: Path) -> None:
    """What monitoring would have told of a service whose requests take 20 ms of CPU and wait for 30."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "rps", "cpu", "memory", "latency", "replicas"])
        for step in range(480):
            rate = 80 + 60 * math.sin(step / 40)
            cores = 0.05 + 0.020 * rate
            inside = rate * 0.06
            memory, latency = 80 + 1.5 * inside / 4, 0.05 + 0.002 * math.cos(step)
            rows.writerow([1_700_000_000 + 15 * step, rate, cores, memory, latency, 4])


with TemporaryDirectory() as place:
    folder = Path(place)
    write_metrics(folder / "metrics.csv")

    # 1. Fit: from metrics to an application that can be simulated. The report says what it is unsure of.
    history, _ = read_service_csv(str(folder / "metrics.csv"))
    service, report = fit_application(history, name="my-service", slo_ms=300)
    print(f"{1000 * service.cpu_s:.1f} ms of CPU a request, limit {1000 * service.slo_s:.0f} ms")

    # 2. Simulate an hour of bursty traffic that needs three cores on average.
    trace = draw_trace(TraceSettings(name="bursty", mean_cores=3, hours=1), service, seed=1, part="test")
    hpa, ours = make_policy("hpa:target=70,cpu=1"), make_policy("multi")
    begins = Deployment(start_replicas=6)
    guarded = GuardedPolicy(ours, hpa)
    policies = (hpa, ours, guarded)
    episodes = [simulate(service, trace, policy, begins, seed=1) for policy in policies]
    for episode in episodes:
        found = episode.metrics()
        print(
            f"{episode.policy:38} {found['core_hours'] / 24:4.1f} cores held, "
            f"{100 * found['late_share']:.2f} % of the requests late"
        )

    # 3. Draw it: rate, latency against its limit, CPU, memory, replicas; at the bottom what was changed, when
    # the guard did not let the policy act, and when the rewards were no longer what is usual.
    def marks(episode: Episode) -> list[Marks]:
        watch = DriftWatch()
        drift = drift_marks(episode, [watch.update(reward) for reward in episode.rewards.tolist()])
        fallbacks = guard_marks(episode, guarded.acted) if episode.policy == guarded.name else []
        return [*changes_of(episode), *fallbacks, *drift]

    draw_episodes(episodes, folder / "hour.png", marks=marks)
    print(f"picture: {(folder / 'hour.png').stat().st_size // 1000} kB")
