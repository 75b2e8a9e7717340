"""The networks of DAS: where they begin, what is not there, the process over machines by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.gpu_scheduling.das.random_views import moved_network, padded, random_views, small_design

from trimtab.core.bundle import flatten
from trimtab.core.errors import SettingsError
from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.network import (
    FIRST_HOLD,
    encode,
    new_network,
    order_scores,
    place_scores,
    summary,
    value,
)
from trimtab.gpu_scheduling.das.places import Places, new_places, usual_places
from trimtab.gpu_scheduling.das.view import JOB_FACTS, PAIR_FACTS
from trimtab.networks.node_gaussian_process import machine_posterior, machine_prior


@pytest.mark.parametrize("actions", ["scores", "choices"])
def test_at_first_jobs_are_nearly_equal_and_machines_are_as_fast_rates_them(actions: str) -> None:
    """Fast machines by the log of their speed, and twice what the jobs there would cost."""
    design = small_design(actions=actions, width=64, heads=4)
    network, view = new_network(design, 0), random_views(50)
    known = encode(network, view, design, np)
    scores = order_scores(network, known, design, np)
    of_jobs = scores[:, : design.window]
    assert np.ptp(of_jobs[view.waits]) < 1.0
    if actions == "choices":
        assert scores[:, -1] == pytest.approx(FIRST_HOLD, abs=0.5)
    facts = dict(zip(PAIR_FACTS, np.moveaxis(view.pairs, -1, 0), strict=True))
    rule = facts["speed alone"] - 2 * facts["crowd"]
    found = place_scores(network, view, known, design, np).mean
    there = view.waits[:, :, None] & view.real[:, None, :]
    assert np.corrcoef(found[there], rule[there])[0, 1] > 0.97


@pytest.mark.parametrize("actions", ["scores", "choices"])
@pytest.mark.parametrize("full", [True, False])
def test_what_is_not_there_changes_nothing(actions: str, full: bool) -> None:
    places = full and actions == "choices"
    design = small_design(actions=actions, communicate=full, process=full, window=9, places=places)
    network, view = moved_network(design), random_views(30)
    wider = padded(view, jobs=3, machines=4)
    there = view.waits[:, :, None] & view.real[:, None, :]

    def told(seen):
        known = encode(network, seen, design, np)
        scores = order_scores(network, known, design, np)
        machines = place_scores(network, seen, known, design, np)
        return scores, machines.mean[:, :6, :7][there], value(network, seen, np), summary(seen, np)

    (scores, *ours), (more, *theirs) = told(view), told(wider)
    assert more[:, :6][view.waits] == pytest.approx(scores[:, :6][view.waits], abs=1e-4)
    if actions == "choices":
        assert more[:, -1] == pytest.approx(scores[:, -1], abs=1e-4)
    for one, other in zip(ours, theirs, strict=True):
        assert other == pytest.approx(one, abs=2e-4)


def test_rows_asked_for_are_those_of_all() -> None:
    design = small_design()
    network, view = moved_network(design), random_views(5)
    known = encode(network, view, design, np)
    rows = np.array([[0, 3], [5, 5], [1, 0], [2, 4], [3, 1]])
    every = place_scores(network, view, known, design, np).mean
    some = place_scores(network, view, known, design, np, rows).mean
    assert some == pytest.approx(every[np.arange(5)[:, None], rows], abs=1e-5)


def test_observed_speeds_enter_by_the_process_as_often_as_history_allows() -> None:
    """One machine alone is similar to itself: it is a Gaussian of variance 1 / (1 - persistence)."""
    design = small_design(history=10, rank=1)
    network = new_network(design, 0)
    view = random_views(1, window=1, machines=1)

    def score(seen: float, speed: float) -> float:
        told = view._replace(seen=np.full((1, 1), seen, np.float32), speed=np.full((1, 1), speed, np.float32))
        known = encode(network, told, design, np)
        return float(place_scores(network, told, known, design, np).mean[0, 0, 0])

    variance, noise = 1 / (1 - 0.4995), 2.0**2
    base = score(0.0, 0.3)
    for seen, counted in ((1.0, 1.0), (10.0, 10.0), (500.0, 10.0)):
        expected = -0.4 * variance / (variance + noise / counted)
        assert score(seen, 0.6) - base == pytest.approx(expected, abs=1e-4)


def test_a_machine_never_seen_borrows_from_those_alike() -> None:
    """Two machines of the same facts: of one a speed was seen, and it is believed of the other in part."""
    design = small_design()
    network, view = new_network(design, 0), random_views(1, machines=3)
    alike = view._replace(
        real=np.ones((1, 3), bool),
        machines=np.repeat(view.machines[:, :1], 3, axis=1),
        pairs=np.repeat(view.pairs[:, :, :1], 3, axis=2),
        speed=np.full((1, 3), 0.5, np.float32),
    )

    def scores(*seen: float) -> np.ndarray:
        told = alike._replace(seen=np.array([seen], np.float32))
        return place_scores(network, told, encode(network, told, design, np), design, np).mean[0, 0]

    before, after = scores(0, 0, 0), scores(8, 0, 0)
    assert before == pytest.approx(before[0], abs=1e-5)
    assert after[0] < after[1] - 1e-3 and after[1] < before[1] - 1e-3
    assert after[1] == pytest.approx(after[2], abs=1e-5)


def test_the_gaussian_is_that_of_its_features() -> None:
    """Posterior deviations do not depend on what was seen, only on how often: they are the process's own."""
    design = small_design(actions="scores")
    network, view = moved_network(design), random_views(3)
    known = encode(network, view, design, np)
    found = place_scores(network, view, known, design, np)
    unseen = view._replace(seen=np.zeros_like(view.seen))
    prior = place_scores(network, unseen, known, design, np)
    deviation = math.exp(3 * math.tanh(float(network["actor"]["place_log_deviation"]) / 3))
    noise = deviation * math.exp(float(network["actor"]["process"]["log_noise"]))
    again = machine_posterior(
        prior,
        np.minimum(view.seen, design.history)[:, None],
        view.speed[:, None],
        noise_deviation=noise,
        xp=np,
    )
    assert found.deviation == pytest.approx(again.deviation, abs=1e-5)
    assert found.root == pytest.approx(again.root, abs=1e-4)
    assert prior.deviation == pytest.approx(deviation, abs=1e-6)


def test_without_the_process_machines_are_independent_and_speeds_seen_do_not_count() -> None:
    design = small_design(actions="scores", process=False)
    network, view = moved_network(design), random_views(3)
    known = encode(network, view, design, np)
    found = place_scores(network, view, known, design, np)
    assert not found.loadings.any()
    other = view._replace(seen=view.seen + 5, speed=view.speed * 0.1)
    assert (place_scores(network, other, known, design, np).mean == found.mean).all()
    lone = machine_prior(np.zeros((3, 6, 7, 1)), found.mean, deviation=1.0, persistence=0.0, xp=np)
    assert found.root == pytest.approx(lone.root)


def test_each_ablation_has_no_more_than_its_own_parameters() -> None:
    names = {
        (communicate, process): set(
            flatten(new_network(small_design(communicate=communicate, process=process), 0))
        )
        for communicate in (True, False)
        for process in (True, False)
    }
    whole = names[True, True]
    gate = {name for name in whole if name.startswith("actor/communication/")}
    process = {name for name in whole if name.startswith("actor/process/")}
    assert gate and process
    assert names[False, True] == whole - gate
    assert names[True, False] == whole - process
    assert names[False, False] == whole - gate - process


def test_who_hears_of_places_begins_as_a_rule_that_waits_for_good_ones() -> None:
    """Least expected duration first; whoever would be slow comes after, and if all would be, none starts."""
    design = small_design(places=True, width=64, heads=4)
    network, view = new_network(design, 0), random_views(1, machines=3)
    jobs, pairs = np.zeros_like(view.jobs), np.zeros_like(view.pairs)
    jobs[0, :3, JOB_FACTS.index("GPUs")] = 0.2
    jobs[0, :3, JOB_FACTS.index("expected duration")] = [0.62, 0.52, 0.57]
    pairs[0, :3, 0, PAIR_FACTS.index("room")] = 1.0
    every = np.arange(6)[None] < 3
    # The first machine is half as fast as the others, on which there is no room.
    slow = pairs.copy()
    slow[0, :, 1:, PAIR_FACTS.index("speed alone")] = math.log(2.0)
    one_slow = pairs.copy()
    one_slow[0, 1] = slow[0, 1]
    found = []
    for seen in (pairs, one_slow, slow):
        told = view._replace(jobs=jobs, pairs=seen, waits=every, fits=every, real=np.ones((1, 3), bool))
        found.append(order_scores(network, encode(network, told, design, np), design, np)[0, [0, 1, 2, -1]])
    assert [int(scores.argmax()) for scores in found] == [1, 2, 3]
    assert found[0][1] == found[1][2] == 0


def test_speed_there_by_hand() -> None:
    """A gang of which half fits on each of two machines, one slow; and one that fits on a crowded one."""
    view = random_views(1, window=2, machines=3)
    jobs, pairs = np.zeros_like(view.jobs), np.zeros_like(view.pairs)
    jobs[0, 0, JOB_FACTS.index("communication")] = 0.5
    room, alone, crowd = (PAIR_FACTS.index(name) for name in ("room", "speed alone", "crowd"))
    pairs[0, :, :, alone] = [math.log(2.0), math.log(0.5), 0.0]
    pairs[0, 0, :2, room] = 0.5
    pairs[0, 1, 2, room], pairs[0, 1, 2, crowd] = 1.0, 0.25
    told = view._replace(jobs=jobs, pairs=pairs, real=np.ones((1, 3), bool))
    # The slower holds the gang back, and a communication of 0.1 comes on top; the best is 2 for both.
    wanted = [[math.log(0.5 / 1.1 / 2.0), 1.0], [math.log(1 / 1.25 / 2.0), 0.0]]
    assert usual_places(new_places(), told, np).facts[0] == pytest.approx(np.array(wanted), abs=1e-6)


def gang_of_two(scores: Sequence[float], racks: Sequence[int], *, communication: float = 0.5) -> Places:
    """Where a gang goes of which half fits on each machine; those have speeds with these logarithms."""
    count = len(scores)
    view = random_views(1, window=1, machines=count)
    jobs, pairs = np.zeros_like(view.jobs), np.zeros_like(view.pairs)
    jobs[0, 0, JOB_FACTS.index("GPUs")] = math.log2(3.0) / 5
    jobs[0, 0, JOB_FACTS.index("communication")] = communication
    pairs[0, 0, :, PAIR_FACTS.index("room")] = 0.5
    pairs[0, 0, :, PAIR_FACTS.index("speed alone")] = scores
    told = view._replace(
        jobs=jobs,
        pairs=pairs,
        machines=np.zeros_like(view.machines),
        real=np.ones((1, count), bool),
        rack=np.array([racks], np.float32),
    )
    return usual_places(new_places(), told, np)


def test_a_gang_stays_in_a_rack_unless_it_is_much_faster_across() -> None:
    """Spread over machines it loses a tenth, and over racks two tenths."""
    near = gang_of_two([0.0, -0.02, 0.0, -0.02], [0, 0, 1, 1])
    assert near.chosen[0, 0].tolist() == [1, 1, 0, 0]
    assert near.facts[0, 0].tolist() == pytest.approx([-0.02 - math.log(1.1), 1])
    far = gang_of_two([0.0, -0.5, 0.0, -0.5], [0, 0, 1, 1])
    assert far.chosen[0, 0].tolist() == [1, 0, 1, 0]
    assert far.facts[0, 0].tolist() == pytest.approx([-math.log(1.2), 1])
    alone = gang_of_two([0.0, 0.0, -0.1, -0.2], [0, 1, 2, 2])
    assert alone.chosen[0, 0].tolist() == [1, 1, 0, 0]


def test_racks_are_compared_by_their_slowest_machine_and_the_order_of_machines_does_not_count() -> None:
    speeds, racks = [0.0, -0.06, -0.02, -0.03, 0.0, -0.07], [0, 0, 1, 1, 2, 2]
    found = gang_of_two(speeds, racks)
    assert found.chosen[0, 0].tolist() == [0, 0, 1, 1, 0, 0]
    shuffled = np.random.default_rng(0).permutation(6)
    again = gang_of_two([speeds[at] for at in shuffled], [racks[at] for at in shuffled])
    assert again.chosen[0, 0].tolist() == found.chosen[0, 0][shuffled].tolist()


def test_designs_that_cannot_be_are_refused() -> None:
    with pytest.raises(SettingsError, match="places = true is for choices alone"):
        load_settings(Design, None, {"places": True, "actions": "scores"})
    with pytest.raises(SettingsError, match="width = 10 cannot be divided among heads = 4"):
        load_settings(Design, None, {"width": 10})
    with pytest.raises(SettingsError, match="rank = 0"):
        load_settings(Design, None, {"rank": 0})
