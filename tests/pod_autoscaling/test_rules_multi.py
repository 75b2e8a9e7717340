"""Our own rule: decisions worked out by hand, and laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.pod_autoscaling.heuristics.headroom import mean_latency_s
from trimtab.pod_autoscaling.heuristics.multi import MultiDecider, multi
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Snapshot

ONE = services_of(slo_s=0.4)


def textbook(size: tuple[float, float, float], rate: float = 300.0, **changed: Any) -> Snapshot:
    """20 ms of work and 30 ms outside, in pods that do what the queueing formula says, with a tail of 4."""
    pods, cores, _ = size
    busy = rate * 0.02 / (pods * cores)
    mean_s = float(mean_latency_s(*(np.array([one]) for one in (0.02, 0.03, busy, cores, pods)))[0])
    usual: dict[str, Any] = {
        "size": size,
        "latency_s": mean_s,
        "latency_p99_s": 4 * mean_s,
        "in_flight": rate * mean_s,
        "memory": 140.0,
    }
    came = changed.pop("came", rate)
    return snapshot_of(ONE, **{**usual, "rate": came, "cpu": 0.02 * np.asarray(came), **changed})


def decided(snapshot: Snapshot, name: str = "multi") -> list[float]:
    return make_policy(name).begin(snapshot.services).decide(snapshot)[0].tolist()


def test_pods_get_the_cpu_at_which_the_limit_holds() -> None:
    # 6 cores of work on 2 pods; the tail may be 0.7 · 0.4 = 280 ms, so the mean 70 ms: 20 ms · (1 + wait) =
    # 40 ms, wait 1. Two pods wait as one of twice their cores c: u^(√(2(c + 1)) - 1) / (c (1 - u)) with c =
    # 6 / u. At u = 0.89, c = 6.74: 0.89^2.93 / 0.742 = 0.958; at 0.893, c = 6.72: 0.718 / 0.719. So u is
    # 0.893.
    replicas, cpu, _ = decided(textbook((2, 4.0, 160)))
    assert replicas == 2
    assert 6 / (2 * cpu) == pytest.approx(0.893, abs=0.003)


def test_a_tighter_limit_needs_more_cpu() -> None:
    cpus = [decided(textbook((2, 3.5, 160)), f"multi:slack={slack}")[1] for slack in (0.55, 0.65, 0.75, 0.9)]
    assert cpus == sorted(cpus, reverse=True)
    assert cpus[0] > 1.05 * cpus[-1]


def test_small_changes_of_cpu_are_not_worth_it() -> None:
    settled = decided(textbook((2, 4.0, 160)))[1]
    # 1 % too small and 4 % too large are as they are, 3 % too small and 6 % too large are not.
    kept = [decided(textbook((2, round(settled * off, 2), 160)))[1] for off in (0.99, 1.04, 0.97, 1.06)]
    assert kept[:2] == [round(settled * 0.99, 2), round(settled * 1.04, 2)]
    assert kept[2:] == pytest.approx([settled] * 2, abs=0.02)


def test_pods_grow_before_there_are_more_of_them() -> None:
    # Pods of 3 cores in calm may grow to 4 (1.4 times would be 4.2, but 4 is the most): two of them hold
    # 7.2 of work at 90 %. With 8 there must be a third; until it is ready the two get all they can.
    for rate, pods in ((340.0, 2), (400.0, 3)):
        replicas, cpu, _ = decided(textbook((2, 3.8, 160), rate, latency_s=0.06, latency_p99_s=0.24))
        assert replicas == pods
        assert cpu == pytest.approx(min(rate * 0.02 / 2 / 0.91, 4.0), abs=0.1)


def test_pods_go_when_fewer_are_enough_for_the_last_five_minutes() -> None:
    # 6 cores in 6 pods: three pods of 2.7 cores hold them. At most a third of six goes at a time: four
    # stay, which must be large enough first. They wait as 3 of L cores do: with L = 1.732 they are busy for
    # 86.6 %, and 0.866^(√(2 · 6.2) - 1) / (5.2 · 0.134) is 1.
    replicas, cpu, memory = decided(textbook((6, 1.2, 304)))
    assert (replicas, memory) == (6, 304)
    assert cpu == pytest.approx(1.732, abs=0.015)
    assert decided(textbook((6, 1.68, 304)))[0] == 4
    # Not while a resize is under way, nor when five minutes ago there was twice as much.
    assert decided(textbook((6, 1.68, 304), resizing=True))[0] == 6
    rate = np.array([600.0] * 2 + [300.0] * 18)
    assert decided(textbook((6, 1.68, 304), came=rate))[0] == 6


def test_before_pods_go_there_is_memory_for_what_they_leave_to_the_others() -> None:
    # Four of six get 1.5 times the requests, and half of the 140 MiB may be for these: 175 MiB · 1.15 + 80 =
    # 281, in steps of 16 MiB 288.
    assert decided(textbook((6, 1.68, 176)))[::2] == [6, 288]
    assert decided(textbook((6, 1.68, 288)))[::2] == [4, 288]


def test_pods_that_had_memory_for_worse_need_no_more_when_others_go() -> None:
    # A peak of 310 wants 1.15 · 310 + 0.85 · 310 = 620; a quarter more than the mean of 148 wants 293.
    peak = np.array([310.0] + [140.0] * 19)
    assert decided(textbook((6, 1.68, 624), memory=peak))[::2] == [4, 624]


def test_pods_go_though_the_step_of_memory_below_was_nearer() -> None:
    # 1.25 · 134 MiB · 1.15 + 80 = 272.6: in steps of 16 MiB 272, and such pods are large enough.
    assert decided(textbook((6, 1.68, 240), memory=134.0))[::2] == [6, 272]
    assert decided(textbook((6, 1.68, 272), memory=134.0))[::2] == [4, 272]


def test_what_waits_is_worked_off_within_an_interval() -> None:
    # At the limit of 0.4 s, 120 of 300/s are inside; 1620 are: 1500 in 15 s are 100/s on top, a third more.
    calm, behind = (decided(textbook((2, 3.0, 160), 200.0, in_flight=inside))[1] for inside in (20.0, 830.0))
    assert behind == pytest.approx(calm * (1 + 750 / 15 / 200), rel=0.03)


def test_small_services_get_less_than_a_core() -> None:
    # 5/s of 20 ms are 0.1 cores. With L cores work takes 20 ms / L, and with the queue 20 ms / (L - 0.1):
    # 40 ms as above for L = 0.6.
    replicas, cpu, _ = decided(textbook((1, 0.9, 160), 5.0))
    assert replicas == 1
    assert cpu == pytest.approx(0.6, abs=0.02)


def test_memory_is_the_peak_with_a_margin_and_a_reserve() -> None:
    # A peak of 200 where 140 is usual (143 in the mean): 1.15 · 200 + 2 · 57 = 344. More at once.
    memory = np.array([140.0] * 10 + [200.0] + [140.0] * 9)
    assert decided(textbook((2, 3.3, 256), memory=memory))[2] == 352
    # In calm the reserve is 80 MiB: 1.15 · 140 + 80 = 241. Less slowly: from 640 the middle in
    # proportion is 393; and only after five minutes.
    assert decided(textbook((2, 3.3, 640)))[2] == 400
    limits = np.array([1024.0] * 2 + [640.0] * 18)
    assert decided(textbook((2, 3.3, 640), memory_limit=limits))[2] == 640
    # Not for less than a tenth.
    assert decided(textbook((2, 3.3, 256)))[2] == 256
    # No more reserve than 0.85 of the peak: twice 400, where 100 is usual (115); a margin alone is one too.
    rush = np.array([100.0] * 19 + [400.0])
    assert decided(textbook((2, 3.3, 512), memory=rush))[2] == 800
    assert decided(textbook((2, 3.3, 256), memory=rush), "multi:reserve=0")[2] == 464


def test_memory_does_not_grow_while_its_use_falls() -> None:
    # Five minutes of 300 MiB move out of sight, and the usual of the last five minutes falls to 140.
    decider, seen = multi().begin(ONE), [300.0] * 20 + [140.0] * 220
    wanted = [
        decider.decide(textbook((2, 3.3, 640), memory=np.array(seen[first : first + 20])))[0, 2]
        for first in range(220)
    ]
    assert wanted == sorted(wanted, reverse=True)
    assert wanted[-1] < wanted[0]


def test_a_full_pod_needs_no_reserve() -> None:
    decider = multi().begin(ONE)
    failed = np.array([0.0] * 19 + [0.2])
    rush = np.array([100.0] * 19 + [400.0])
    # 1.05 · 400 and not 800; of 1024 MiB what is above goes at once, without waiting for five minutes.
    full = textbook((2, 3.3, 1024), memory=rush, failed=failed, memory_limit=np.full(20, 900.0))
    assert decider.decide(full)[0, 2] == 416
    assert decider.decide(textbook((2, 3.3, 416), memory=rush))[0, 2] == 416
    # Unless a pod was killed all the same: then what was wanted is, 799 by now.
    assert decider.decide(textbook((2, 3.3, 416), memory=rush, kills=1.0))[0, 2] == 800


def test_after_a_kill_there_is_more_than_there_was() -> None:
    killed = {"pod_killed_s": 35_000.0, "pod_killed_at": 600.0}
    assert decided(textbook((2, 3.3, 608), **killed))[2] == 720
    assert decided(textbook((2, 3.3, 720), **killed))[2] == 720


def test_pods_that_are_restarted_for_it_keep_their_cpu_and_memory() -> None:
    # About nine single cores: 6 / (0.7 · 1). Nine pods of 0.89 cores are busy for 75 %: work takes 22.5 ms,
    # and with a wait of 0.75^1.83 / (3 · 0.25) = 0.79 it is 40 ms. 6 / 0.75 is 8.03 for the rounding: nine.
    assert decided(textbook((10, 1.0, 640)), "multi:in_place=0") == [9, 1.0, 640]
    assert decided(textbook((7, 1.0, 100)), "multi:in_place=0") == [9, 1.0, 240]


def test_where_a_node_refuses_pods_they_become_smaller_and_more() -> None:
    refused = textbook((2, 4.0, 160), 390.0, infeasible=True)
    replicas, cpu, _ = decided(refused)
    assert (replicas, cpu) == (3, 3.0)


def test_knobs_may_differ_from_service_to_service() -> None:
    two = services_of(2, slo_s=0.4)
    seen = snapshot_of(two, size=(2, 3.5, 160), rate=300.0, cpu=6.0, latency_s=0.06, latency_p99_s=0.24)
    usual = multi().values
    together = MultiDecider(two, {**usual, "slack": np.array([0.6, 0.9])}).decide(seen)
    alone = [MultiDecider(two, {**usual, "slack": slack}).decide(seen)[0].tolist() for slack in (0.6, 0.9)]
    assert together.tolist() == alone
