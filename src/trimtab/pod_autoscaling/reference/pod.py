"""One pod: its requests, its CPU, its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Change
from trimtab.pod_autoscaling.reference.luck import Luck

__all__ = ["Counts", "Pod", "Request"]


@dataclass
class Counts:
    """Everything that is counted since the reset."""

    arrived: int = 0
    finished: int = 0
    late: int = 0
    failed: int = 0
    kills: int = 0
    latencies_s: list[float] = field(default_factory=list)
    inside_s: float = 0.0
    ready_s: float = 0.0
    held_core_s: float = 0.0
    held_mib_s: float = 0.0
    cpu_s: float = 0.0
    mib_s: float = 0.0
    active: float = 0.0
    short: float = 0.0


@dataclass(eq=False)
class Request:
    number: int
    arrived_s: float
    segment: int = 0
    place: str = "queue"  # queue, cpu, outside
    left_s: float = 0.0  # of the work of this segment
    back_s: float = 0.0  # from outside
    given_up: bool = False


class Pod:
    def __init__(self, number: int, size: tuple[float, float], created_s: float) -> None:
        self.number = number
        self.state = "waiting"  # waiting, pulling, starting, down, ready, ending, gone
        self.node: int | None = None
        self.cpu, self.memory = self.cpu_asked, self.memory_asked = size
        self.due_s = self.resize_due_s = math.inf
        self.created_s = created_s
        self.started_s = self.ready_changed_s = self.killed_s = self.killed_at = math.nan
        self.kills = self.starts = self.resizes = self.first_scrape = 0
        self.requests: list[Request] = []  # by age
        self.cpu_s = self.scraped_cpu_s = self.cache_mib = self.fresh_s = self.burn = 0.0
        self.period, self.period_end_s, self.tokens_s, self.held_back = 0, -math.inf, 0.0, False

    @property
    def serves(self) -> bool:
        return self.state in ("ready", "ending")

    def at(self, place: str) -> list[Request]:
        return [one for one in self.requests if one.place == place]

    def speed(self, app: Application, deployment: Deployment) -> float:
        """Cores of each request on the CPU."""
        active = len(self.at("cpu"))
        if active == 0 or self.held_back:
            return 0.0
        cores = deployment.node_cpu if deployment.sharing == "cfs" else self.cpu
        return min(app.cores_per_request, cores / active)

    def working_set(self, app: Application, now: Change, at_s: float) -> float:
        return (
            app.memory_mib * now.memory
            + app.memory_per_request_mib * now.request_memory * len(self.requests)
            + self.cache_mib
            + app.leak_mib_per_hour / 3600 * (at_s - self.fresh_s)
        )

    def next_event(self, app: Application, deployment: Deployment, at_s: float) -> tuple[float, int, str]:
        """When, its place among events at the same time, what."""
        events = [(math.inf, 9, "nothing")]
        speed, active = self.speed(app, deployment), self.at("cpu")
        if active and speed > 0:
            events.append((at_s + min(max(one.left_s, 0.0) for one in active) / speed, 0, "cpu"))
        if active and deployment.sharing == "cfs":
            events.append((self.period_end_s, 1, "period"))
            out_s = math.inf if self.held_back else at_s + max(self.tokens_s, 0.0) / (speed * len(active))
            if out_s + 1e-9 < min(events)[0]:
                events.append((out_s, 2, "quota"))
        events += [(one.back_s, 3, "back") for one in self.at("outside")]
        waiting = [one for one in self.requests if not one.given_up]
        if waiting:
            events.append((waiting[0].arrived_s + app.timeout_s, 4, "patience"))
        return min(events)

    def live(
        self,
        app: Application,
        deployment: Deployment,
        now: Change,
        counts: Counts,
        *,
        from_s: float,
        to_s: float,
    ) -> None:
        """Let time pass in which nothing happens."""
        span_s = to_s - from_s
        if self.state in ("waiting", "gone"):
            return
        counts.held_core_s += self.cpu * span_s
        counts.held_mib_s += self.memory * span_s
        if self.state == "ready":
            counts.ready_s += span_s
        if self.state == "starting":
            used_s = min(self.burn, self.cpu) * span_s
            self.cpu_s += used_s
            counts.cpu_s += used_s
            counts.mib_s += min(app.memory_mib * now.memory, self.memory) * span_s
        if not self.serves:
            return
        speed, active = self.speed(app, deployment), self.at("cpu")
        for one in active:
            one.left_s -= speed * span_s
        used_s = speed * len(active) * span_s
        self.cpu_s += used_s
        self.tokens_s -= used_s
        counts.cpu_s += used_s
        counts.inside_s += len(self.requests) * span_s
        counts.mib_s += self.working_set(app, now, (from_s + to_s) / 2) * span_s
        if active and deployment.sharing == "ps":
            counts.active += span_s
            counts.short += span_s * (len(active) * app.cores_per_request > self.cpu)

    def enter_cpu(
        self,
        one: Request,
        app: Application,
        deployment: Deployment,
        now: Change,
        luck: Luck,
        counts: Counts,
        at_s: float,
    ) -> None:
        """Begin the work of the request's segment."""
        if not self.at("cpu") and deployment.sharing == "cfs" and at_s >= self.period_end_s:
            period_s = deployment.period_ms / 1000
            period = int((at_s - self.fresh_s) / period_s)
            while self.fresh_s + (period + 1) * period_s <= at_s:
                period += 1
            self.begin_period(period, deployment, counts)
        segment = app.segments[one.segment]
        one.place = "cpu"
        one.left_s = luck.lognormal(
            segment.cpu_ms / 1000 * now.cpu, segment.cpu_variation, "work", one.number, 2 * one.segment
        )

    def begin_period(self, period: int, deployment: Deployment, counts: Counts) -> None:
        period_s = deployment.period_ms / 1000
        self.period, self.period_end_s = period, self.fresh_s + (period + 1) * period_s
        self.tokens_s, self.held_back = self.cpu * period_s, False
        counts.active += 1
