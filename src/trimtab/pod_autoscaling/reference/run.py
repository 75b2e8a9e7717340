"""A whole service, event by event."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY, Change, Drift
from trimtab.pod_autoscaling.reference.cluster import Cluster
from trimtab.pod_autoscaling.reference.luck import Luck
from trimtab.pod_autoscaling.reference.pod import Counts, Pod, Request

__all__ = ["Interval", "ReferenceRun"]

NOTHING: tuple[float, int, str, Pod | None] = (math.inf, 9, "", None)


@dataclass(frozen=True)
class Interval:
    """What an interval was, what the monitoring says of it, and the pods at its end."""

    truth: dict[str, float]
    sample: dict[str, float]
    pods: dict[int, Pod]


class ReferenceRun(Cluster):
    """One service under commands. `outcomes` has the end and the manner of every request that has ended."""

    def __init__(
        self,
        application: Application,
        rates: list[float],
        deployment: Deployment,
        *,
        seed: int,
        size: tuple[int, float, float],
        drift: Drift = STEADY,
    ) -> None:
        super().__init__(application, deployment, Luck(seed), size)
        self.rates, self.drift = rates, drift
        self.second = self.interval = 0
        self.turn = 0
        self.exponent = self.luck.exponential("arrival", 0)
        self.next_arrival_s = math.inf
        self.marks = {"truth": Counts(), "metrics": Counts()}
        self.last_sample: dict[str, float] = {}
        self.change()
        self.begin(int(size[0]))
        self.begin_second()

    def step(self, wanted: tuple[int, float, float]) -> Interval:
        self.command(wanted)
        seconds = self.deployment.interval_s
        read_after = seconds - min(math.ceil(self.deployment.report_lag_s), seconds - 1)
        for second in range(1, seconds + 1):
            self.live_second()
            self.tick()
            if second == read_after:
                self.read(self.second - self.interval * seconds if self.interval == 0 else seconds)
            self.begin_second()
        truth = self.closed()
        self.interval += 1
        return Interval(truth, self.last_sample, {one.number: one for one in self.pods})

    def live_second(self) -> None:
        """One event after the other: those inside pods first, then what is due for pods, then arrivals."""
        end_s = self.second + 1.0
        while True:
            inside = [
                (*one.next_event(self.app, self.deployment, self.now_s), one)
                for one in self.pods
                if one.serves
            ]
            soonest = min(inside, key=lambda event: event[:2], default=NOTHING)
            due_s = min((min(one.due_s, one.resize_due_s) for one in self.pods), default=math.inf)
            at_s = min(soonest[0], due_s, self.next_arrival_s)
            # What is due exactly at the end belongs to the next second; what happens inside pods does not.
            if at_s > end_s or (at_s == end_s and soonest[0] > end_s):
                break
            self.pass_time(at_s)
            if soonest[3] is not None and soonest[0] == at_s:
                self.happen(soonest[3], soonest[2])
            elif due_s == at_s:
                self.pass_due()
            else:
                self.arrive()
        self.pass_time(end_s)
        self.second += 1

    def happen(self, pod: Pod, what: str) -> None:
        if what == "period":
            pod.begin_period(pod.period + 1, self.deployment, self.counts)
        elif what == "quota":
            pod.tokens_s, pod.held_back = 0.0, True
            self.counts.short += 1
        elif what == "patience":
            one = next(one for one in pod.requests if not one.given_up)
            self.fail(one.number, "given_up")
            one.given_up = True
            if one.place == "queue":
                pod.requests.remove(one)
        elif what == "back":
            self.end_segment(pod, min(pod.at("outside"), key=lambda one: (one.back_s, one.number)))
        else:
            one = min(pod.at("cpu"), key=lambda one: (one.left_s, one.number))
            segment = self.app.segments[one.segment]
            mean_s = segment.io_ms / 1000 * self.now.io
            if mean_s > 0:
                wait_s = self.luck.lognormal(
                    mean_s, segment.io_variation, "work", one.number, 2 * one.segment + 1
                )
                one.place, one.back_s = "outside", self.now_s + wait_s
            else:
                self.end_segment(pod, one)
        if pod.state == "ending" and not pod.requests:
            self.remove(pod)

    def end_segment(self, pod: Pod, one: Request) -> None:
        one.segment += 1
        one.place = "between"
        if one.segment < len(self.app.segments):
            self.work(pod, one)
            return
        pod.requests.remove(one)
        if not one.given_up:
            latency_s = self.now_s - one.arrived_s
            self.counts.finished += 1
            self.counts.latencies_s.append(latency_s)
            self.counts.late += latency_s > self.app.slo_s
            self.outcomes[one.number] = (self.now_s, "answered")
        pod.cache_mib += (self.app.cache_mib - pod.cache_mib) * -math.expm1(-1 / self.app.cache_requests)
        queued = pod.at("queue")
        if queued:
            self.work(pod, queued[0])

    def work(self, pod: Pod, one: Request) -> None:
        pod.enter_cpu(one, self.app, self.deployment, self.now, self.luck, self.counts, self.now_s)

    def begin_second(self) -> None:
        rate, burst = self.rates[min(self.second, len(self.rates) - 1)], self.deployment.burst
        if burst > 1 and rate > 0:
            shape = rate / (burst - 1)
            rate *= self.luck.gamma(shape, "burst", self.second) / shape
        self.rate = rate
        self.plan_arrival(float(self.second))

    def plan_arrival(self, from_s: float) -> None:
        """When what is left of the exponential number is used up; perhaps not in this second."""
        left_s = self.second + 1.0 - from_s
        if self.exponent < self.rate * left_s:
            self.next_arrival_s = from_s + self.exponent / self.rate
            self.exponent = 0.0
        else:
            self.next_arrival_s = math.inf
            self.exponent -= self.rate * left_s

    def arrive(self) -> None:
        number = self.counts.arrived
        self.counts.arrived += 1
        if not self.ready:
            self.fail(number, "unreached")
        else:
            self.admit(self.chosen(number), number)
        self.exponent = self.luck.exponential("arrival", self.counts.arrived)
        self.plan_arrival(self.now_s)

    def chosen(self, number: int) -> Pod:
        count, how = len(self.ready), self.deployment.balancing
        if how == "round-robin":
            self.turn += 1
            return self.ready[(self.turn - 1) % count]
        word = self.luck.word("route", number)
        first = ((word >> 32) * count) >> 32
        if how == "random" or count == 1:
            return self.ready[first]
        second = ((word & 0xFFFFFFFF) * (count - 1)) >> 32
        second += second >= first
        return min((self.ready[first], self.ready[second]), key=lambda pod: len(pod.requests))

    def admit(self, pod: Pod, number: int) -> None:
        if len(pod.requests) >= self.app.workers + self.app.queue:
            self.fail(number, "refused")
            return
        one = Request(number, self.now_s)
        has_worker = len(pod.requests) - len(pod.at("queue")) < self.app.workers
        pod.requests.append(one)
        if has_worker:
            one.place = "between"
            self.work(pod, one)
        used = pod.working_set(self.app, self.now, self.now_s)
        self.memory_peak = max(self.memory_peak, min(used, pod.memory))
        if used > pod.memory:
            self.kill(pod)

    def tick(self) -> None:
        """A second is over."""
        self.change()
        self.watch_memory()
        if self.deployment.resize == "restart":
            self.roll()
        if self.second % math.ceil(self.deployment.metric_window_s) == 0:
            self.scrape()

    def change(self) -> None:
        self.now = next(
            (one for one in reversed(self.drift.changes) if one.at_s <= self.second), Change(at_s=0)
        )

    def since(self, who: str) -> Counts:
        """What was counted since somebody looked last; he looks now."""
        mark, counts = self.marks[who], self.counts
        self.marks[who] = replace(counts, latencies_s=list(counts.latencies_s))
        names = [name for name in vars(counts) if name != "latencies_s"]
        fresh = {name: getattr(counts, name) - getattr(mark, name) for name in names}
        return Counts(**fresh, latencies_s=counts.latencies_s[len(mark.latencies_s) :])

    def closed(self) -> dict[str, float]:
        seen, span_s = self.since("truth"), float(self.deployment.interval_s)
        latencies = sorted(seen.latencies_s)
        rank = math.ceil(0.99 * seen.finished)
        tail_s = self.oldest_age_s() if not seen.finished else math.inf
        if 0 < rank <= len(latencies):
            tail_s = latencies[rank - 1]
        return {
            "arrived": seen.arrived,
            "finished": seen.finished,
            "late": seen.late,
            "failed": seen.failed,
            "latency_s": sum(latencies) / len(latencies) if latencies else math.nan,
            "latency_p50_s": quantile(latencies, 0.5),
            "latency_p99_s": quantile(latencies, 0.99),
            "in_flight": seen.inside_s / span_s,
            "ready": seen.ready_s / span_s,
            "cores_held": seen.held_core_s / span_s,
            "memory_held": seen.held_mib_s / span_s,
            "cores_used": seen.cpu_s / span_s,
            "memory_used": seen.mib_s / span_s,
            "throttled": seen.short / seen.active if seen.active else 0.0,
            "kills": seen.kills,
            "tail_s": tail_s,
        }

    def read(self, span_s: float) -> None:
        """The sample of the service, since the last reading; unless monitoring does not answer."""
        seen, deployment = self.since("metrics"), self.deployment
        asked = {"replicas": self.replicas, "cpu_limit": self.cpu, "memory_limit": self.memory}
        peak, self.memory_peak = self.memory_peak, self.memory_now
        if self.luck.uniform("missing", self.interval) < deployment.missing:
            self.last_sample = {**self.last_sample, **asked, "complete": 0.0}
            return
        latencies, finished = sorted(seen.latencies_s), max(seen.finished, 1)
        slow = self.noisy("noise", self.interval, 5)
        mean_s = sum(latencies) / len(latencies) if latencies else 0.0
        old_s = 0.0 if latencies else self.oldest_age_s()
        throttled = seen.short / seen.active if seen.active else 0.0
        self.last_sample = {
            **asked,
            "complete": 1.0,
            "rate": seen.arrived / span_s * self.noisy("noise", self.interval, 2),
            "late": seen.late / finished,
            "failed": seen.failed / finished,
            "latency_s": mean_s * slow if latencies else old_s,
            "latency_p50_s": quantile(latencies, 0.5) * slow if latencies else old_s,
            "latency_p99_s": quantile(latencies, 0.99) * slow if latencies else old_s,
            "in_flight": seen.inside_s / span_s * self.noisy("noise", self.interval, 8),
            "cpu": seen.cpu_s / span_s * self.noisy("noise", self.interval, 9),
            "throttled": min(1.0, throttled * self.noisy("noise", self.interval, 10)),
            "memory": peak * self.noisy("noise", self.interval, 11),
            "kills": seen.kills,
            "ready": seen.ready_s / span_s,
        }

    def oldest_age_s(self) -> float:
        waiting = [one.arrived_s for pod in self.pods for one in pod.requests if not one.given_up]
        return self.now_s - min(waiting, default=self.now_s)


def quantile(ordered: list[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else math.nan
