"""Pods come and go, hold room on nodes, are killed, resized and scraped."""

from __future__ import annotations

import math

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import Change
from trimtab.pod_autoscaling.reference.luck import Luck
from trimtab.pod_autoscaling.reference.pod import Counts, Pod

__all__ = ["Cluster"]

CRUMB = 1e-9
RANKS = {"waiting": 0, "pulling": 1, "starting": 2, "down": 2, "ready": 3}


class Cluster:
    """The pods of one service and the nodes under them."""

    def __init__(
        self, application: Application, deployment: Deployment, luck: Luck, size: tuple[int, float, float]
    ) -> None:
        self.app, self.deployment, self.luck = application, deployment, luck
        self.replicas, self.cpu, self.memory = size
        self.now_s = 0.0
        self.now = Change(at_s=0)
        self.counts = Counts()
        self.outcomes: dict[int, tuple[float, str]] = {}
        self.pods: list[Pod] = []  # by number
        self.ready: list[Pod] = []  # in the order in which they became ready
        self.created = self.scrapes = 0
        self.samples: dict[tuple[int, int], tuple[float, float]] = {}  # (scrape, pod): cores, MiB
        self.memory_now = self.memory_peak = 0.0
        self.nodes = [[deployment.node_cpu, deployment.node_memory_mib] for _ in range(deployment.nodes)]

    def begin(self, count: int) -> None:
        """Pods that have been running for ten minutes."""
        for _ in range(count):
            pod = self.create()
            if self.place(pod):
                pod.starts, pod.created_s, pod.started_s = 1, -600.0, -600.0
                self.become_ready(pod)
                if pod.state == "ready":
                    pod.ready_changed_s = -600.0

    def pass_time(self, to_s: float) -> None:
        for pod in self.pods:
            pod.live(self.app, self.deployment, self.now, self.counts, from_s=self.now_s, to_s=to_s)
        self.now_s = to_s

    def pass_due(self) -> None:
        """The oldest pod for which something is due; what it is before what it holds."""
        pod = next(one for one in self.pods if min(one.due_s, one.resize_due_s) <= self.now_s)
        if pod.due_s > self.now_s:
            self.take_resize(pod)
        elif pod.state == "waiting":
            if not self.place(pod):
                pod.due_s = math.floor(self.now_s) + 1.0
        elif pod.state in ("pulling", "down"):
            self.start(pod)
        elif pod.state == "starting":
            self.become_ready(pod)
        else:
            self.lose_all(pod)
            self.remove(pod)

    def create(self) -> Pod:
        pod = Pod(self.created, (self.cpu, self.memory), self.now_s)
        pod.due_s = self.now_s + self.deployment.schedule_s
        self.created += 1
        self.pods.append(pod)
        return pod

    def place(self, pod: Pod) -> bool:
        """On the node that has most left afterwards; of equals, the first."""
        if self.nodes:
            fits = [
                number
                for number, (cpu, memory) in enumerate(self.nodes)
                if cpu - pod.cpu >= -CRUMB and memory - pod.memory >= -CRUMB
            ]
            if not fits:
                return False
            pod.node = max(fits, key=lambda number: (round(self.score(pod, number), 9), -number))
            self.take_room(pod, pod.cpu, pod.memory)
        pod.state, pod.started_s, pod.due_s = "pulling", self.now_s, self.now_s + self.deployment.pull_s
        return True

    def score(self, pod: Pod, number: int) -> float:
        cpu, memory = self.nodes[number]
        return (cpu - pod.cpu) / self.deployment.node_cpu + (
            memory - pod.memory
        ) / self.deployment.node_memory_mib

    def take_room(self, pod: Pod, cpu: float, memory: float) -> None:
        if pod.node is not None:
            self.nodes[pod.node][0] -= cpu
            self.nodes[pod.node][1] -= memory

    def start(self, pod: Pod) -> None:
        app = self.app
        drawn_s = app.start_s * self.now.start
        drawn_s *= math.exp(app.start_spread * self.luck.normal("start", pod.number, pod.starts))
        took_s = max(drawn_s, app.start_cpu_s / pod.cpu)
        pod.starts += 1
        pod.state, pod.due_s, pod.burn = "starting", self.now_s + took_s, app.start_cpu_s / took_s
        pod.first_scrape, pod.cache_mib = self.scrapes + 1, 0.0

    def become_ready(self, pod: Pod) -> None:
        if self.app.memory_mib * self.now.memory > pod.memory:
            self.kill(pod)
            return
        pod.state, pod.due_s, pod.fresh_s, pod.ready_changed_s = "ready", math.inf, self.now_s, self.now_s
        pod.period_end_s, pod.held_back = -math.inf, False
        self.ready.append(pod)

    def leave_ready(self, pod: Pod) -> None:
        self.ready.remove(pod)
        pod.ready_changed_s = self.now_s

    def kill(self, pod: Pod) -> None:
        self.counts.kills += 1
        pod.killed_s, pod.killed_at = self.now_s, pod.memory
        self.lose_all(pod)
        if pod.state == "ending":
            self.remove(pod)
            return
        if pod.state == "ready":
            if self.now_s - pod.ready_changed_s >= 600:
                pod.kills = 0
            self.leave_ready(pod)
        pod.kills += 1
        wait_s = self.deployment.restart_s
        if pod.kills > 1:
            doubled_s = self.deployment.backoff_s * 2.0 ** (pod.kills - 2)
            wait_s += min(doubled_s, self.deployment.longest_backoff_s)
        pod.state, pod.due_s = "down", self.now_s + wait_s

    def fail(self, number: int, how: str) -> None:
        self.counts.finished += 1
        self.counts.late += 1
        self.counts.failed += 1
        self.outcomes[number] = (self.now_s, how)

    def lose_all(self, pod: Pod) -> None:
        for one in pod.requests:
            if not one.given_up:
                self.fail(one.number, "lost")
        pod.requests.clear()

    def end_pod(self, pod: Pod) -> None:
        if pod.state != "ready":
            self.remove(pod)
            return
        self.leave_ready(pod)
        pod.state, pod.due_s, pod.resize_due_s = "ending", self.now_s + self.deployment.drain_s, math.inf
        if not pod.requests:
            self.remove(pod)

    def remove(self, pod: Pod) -> None:
        self.take_room(pod, -pod.cpu, -pod.memory)
        pod.state = "gone"
        self.pods.remove(pod)

    def staying(self) -> list[Pod]:
        return [pod for pod in self.pods if pod.state != "ending"]

    def command(self, wanted: tuple[int, float, float]) -> None:
        self.replicas, self.cpu, self.memory = wanted
        if self.deployment.resize == "in_place":
            for pod in self.staying():
                self.ask_resize(pod)
        for _ in range(len(self.staying()) - int(self.replicas)):
            self.end_pod(first_to_go(self.staying()))
        for _ in range(int(self.replicas) - len(self.staying())):
            self.create()
        if self.deployment.resize == "restart":
            self.roll()

    def ask_resize(self, pod: Pod) -> None:
        if (pod.cpu_asked, pod.memory_asked) == (self.cpu, self.memory):
            return
        pod.cpu_asked, pod.memory_asked = self.cpu, self.memory
        pod.resize_due_s = math.inf
        too_large = self.cpu > self.deployment.node_cpu or self.memory > self.deployment.node_memory_mib
        if pod.state == "waiting":
            pod.cpu, pod.memory = self.cpu, self.memory
        elif (pod.cpu, pod.memory) != (self.cpu, self.memory) and not (self.nodes and too_large):
            share = self.luck.uniform("resize", pod.number, pod.resizes)
            pod.resizes += 1
            pod.resize_due_s = self.now_s + self.deployment.resize_s * 2.0 ** (2 * share - 1)

    def take_resize(self, pod: Pod) -> None:
        pod.resize_due_s = math.inf
        more_cpu, more_memory = pod.cpu_asked - pod.cpu, pod.memory_asked - pod.memory
        if pod.node is not None:
            cpu_left, memory_left = self.nodes[pod.node]
            if 0 < more_cpu > cpu_left + CRUMB or 0 < more_memory > memory_left + CRUMB:
                pod.resize_due_s = math.floor(self.now_s) + 1.0
                return
        used = 0.0
        if pod.serves:
            used = pod.working_set(self.app, self.now, self.now_s)
        elif pod.state == "starting":
            used = min(self.app.memory_mib * self.now.memory, pod.memory)
        if more_memory < 0 and pod.memory_asked < used:
            more_memory, pod.resize_due_s = 0.0, math.floor(self.now_s) + 1.0
        else:
            pod.memory = pod.memory_asked
        pod.cpu = pod.cpu_asked
        self.take_room(pod, more_cpu, more_memory)

    def roll(self) -> None:
        """Pods of another size: those not ready are replaced at once, the ready when all are ready."""
        while old := [one for one in self.staying() if (one.cpu, one.memory) != (self.cpu, self.memory)]:
            pod = first_to_go(old)
            if pod.state == "ready" and len(self.ready) < self.replicas:
                return
            self.end_pod(pod)
            self.create()

    def watch_memory(self) -> None:
        largest = 0.0
        for pod in list(self.pods):
            if pod.serves:
                used = pod.working_set(self.app, self.now, self.now_s)
                if used > pod.memory:
                    self.kill(pod)
                largest = max(largest, min(used, pod.memory))
            elif pod.state == "starting":
                largest = max(largest, min(self.app.memory_mib * self.now.memory, pod.memory))
        self.memory_now = largest
        self.memory_peak = max(self.memory_peak, largest)

    def noisy(self, purpose: str, *ids: int) -> float:
        return max(0.0, 1 + self.deployment.metric_noise * self.luck.normal(purpose, *ids))

    def scrape(self) -> None:
        """Mean CPU since the last look, and memory now, of containers that ran at the last look already."""
        self.scrapes += 1
        number, window_s = self.scrapes, math.ceil(self.deployment.metric_window_s)
        for pod in self.pods:
            if not pod.serves and pod.state != "starting":
                continue
            seen = self.luck.uniform("pod_missing", number, pod.number) >= self.deployment.missing
            if number > pod.first_scrape and seen:
                idle = self.app.memory_mib * self.now.memory
                memory = pod.working_set(self.app, self.now, self.now_s) if pod.serves else idle
                self.samples[number, pod.number] = (
                    (pod.cpu_s - pod.scraped_cpu_s)
                    / window_s
                    * self.noisy("pod_noise", number, pod.number, 0),
                    min(memory, pod.memory) * self.noisy("pod_noise", number, pod.number, 1),
                )
            pod.scraped_cpu_s = pod.cpu_s


def first_to_go(pods: list[Pod]) -> Pod:
    """No node, not started, not ready; then ready for the shortest time; then the youngest."""

    def rank(pod: Pod) -> tuple[int, float, int]:
        ready_s = pod.ready_changed_s if pod.state == "ready" else 0.0
        return RANKS[pod.state], -ready_s, -pod.number

    return min(pods, key=rank)
