"""Broken policies behind the guard do little harm, on made-up services with HPA beside them.

Measured over 125 services for 800 ticks (`Services(125, 800)`, 10^5 decisions each, 3 to 4 s of CPU):

| policy        | violations (HPA at 70 % alone: 1, 0.39 % of requests) | core hours | acts |
|---------------|-------------------------------------------------------|------------|------|
| random        | 0.49                                                  | 1.56       | 56 % |
| least         | 0.76                                                  | 1.18       | 22 % |
| one small pod | 0.97                                                  | 1.00       | 38 % |
| most          | 0.09                                                  | 1.84       | 97 % |
| nan           | 0.94                                                  | 1.00       |  0 % |
| some nan      | 0.24                                                  | 1.81       | 68 % |
| behind        | 0.84                                                  | 1.05       | 68 % |

No action was outside the bounds. The tests play a part of that.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import pytest
from tests.control.services import (
    WORK_S,
    HpaAndMemory,
    Outcome,
    Policy,
    Services,
    View,
    always,
    at_random,
    play_alone,
    play_guarded,
    pod_guard,
)

from trimtab.control.evidence import Evidence
from trimtab.core.randomness import uniform

ENVIRONMENTS, TICKS = 75, 240  # an hour; seven policies: 126,000 decisions


@cache
def heuristic_alone() -> Outcome:
    return play_alone(Services(ENVIRONMENTS, TICKS), HpaAndMemory())


def not_a_number(view: View, tick: int) -> np.ndarray:
    return np.full((len(view.rate), 3), np.nan)


def sometimes_not_a_number(view: View, tick: int) -> np.ndarray:
    answer = at_random(view, tick)
    answer[uniform(2, np.arange(len(answer)), tick) < 0.3, tick % 3] = np.nan
    return answer


class Behind:
    """HPA at 80 % that sees what was ten minutes ago, and does not say so."""

    def __init__(self) -> None:
        self.rule, self.answers = HpaAndMemory(0.8), list[np.ndarray]()

    def __call__(self, view: View, tick: int) -> np.ndarray:
        self.answers = [*self.answers, self.rule(view)][-40:]
        return self.answers[0]


def one_small_pod(view: View, tick: int) -> np.ndarray:
    """The least, in the shape that the heuristic uses: it meets no floor of cores, only those of capacity."""
    return np.tile([1.0, 1.0, 64.0], (len(view.rate), 1))


BROKEN: dict[str, Policy] = {
    "random": at_random,
    "least": always(1, 0.1, 64),
    "one small pod": one_small_pod,
    "most": always(60, 4, 4096),
    "nan": not_a_number,
    "some nan": sometimes_not_a_number,
    "behind": Behind(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_policy_does_little_harm(name):
    services = Services(ENVIRONMENTS, TICKS)
    outcome, alone = play_guarded(pod_guard(mode="active"), services, BROKEN[name]), heuristic_alone()
    assert outcome.outside == 0
    assert outcome.violations <= 1.3 * alone.violations
    # The limit of cost is 2; cores are most of it.
    assert outcome.core_hours <= 2.1 * alone.core_hours


def test_without_the_guard_they_do_great_harm():
    services = Services(10, 100)
    alone = play_alone(Services(10, 100), HpaAndMemory())
    unguarded = play_alone(services, lambda view: one_small_pod(view, 0))
    assert unguarded.violations > 50 * alone.violations


def test_stale_data_that_shows_its_age_leaves_the_heuristic_alone():
    """Answers that are old: the heuristic acts. All data old for a third of the time: hold, then it acts."""

    def aged_answers(services: Services, tick: int) -> Evidence:
        return services.evidence(proposal_age_s=600.0)

    def aged_data(services: Services, tick: int) -> Evidence:
        return services.evidence(data_age_s=60.0 if tick % 30 < 10 else 0.0)

    alone = heuristic_alone()
    for evidence in (aged_answers, aged_data):
        services = Services(ENVIRONMENTS, TICKS)
        outcome = play_guarded(pod_guard(mode="active"), services, Behind(), evidence)
        assert outcome.violations <= 1.3 * alone.violations
        assert outcome.outside == 0


def test_a_good_policy_is_let_act_and_saves():
    """One that knows the next minute: fewer violations, fewer cores, and it acts most of the time."""
    services = Services(ENVIRONMENTS, TICKS)

    def foresighted(view: View, tick: int) -> np.ndarray:
        coming = services.rates[services.tick - 1 : services.tick + 4].max(axis=0)
        replicas = np.minimum(np.ceil(coming * WORK_S / 0.75), 60)
        memory = np.maximum(np.ceil(1.15 * view.memory_peak / 16) * 16, 128)
        return np.stack([replicas, np.ones_like(replicas), memory], axis=1)

    outcome, alone = play_guarded(pod_guard(mode="active"), services, foresighted), heuristic_alone()
    assert outcome.acted > 0.7
    assert outcome.violations < 0.7 * alone.violations
    assert outcome.core_hours < 0.98 * alone.core_hours


def test_the_guard_is_quick_on_many_environments():
    """512 services for 20 ticks; 10^5 decisions are ten times as many, and take some seconds."""
    services = Services(512, 20)
    guard, state, heuristic = pod_guard(mode="active"), pod_guard(mode="active").begin(512), HpaAndMemory()
    began = time.process_time()
    for tick in range(20):
        answer = at_random(services.view, tick)
        state, _ = guard.step(
            state, answer, heuristic(services.view), services.evidence(), services.needs(guard.settings)
        )
    assert time.process_time() - began < 2.0
