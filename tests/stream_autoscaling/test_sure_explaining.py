"""One decision about a streaming job taken apart: what is said must be what the network did."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.stream_autoscaling.sure_snapshots import SMALL, random_graph, random_snapshot

from trimtab.core.errors import ActionError
from trimtab.networks.array_tools import PLAIN
from trimtab.stream_autoscaling.problem import Graph, Snapshot
from trimtab.stream_autoscaling.sure import explaining
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.encoders import ENCODERS
from trimtab.stream_autoscaling.sure.explaining import Explanation, explain, opinion_of
from trimtab.stream_autoscaling.sure.features import FEATURES
from trimtab.stream_autoscaling.sure.network import answers, new_network
from trimtab.stream_autoscaling.sure.policy import Considered, SurePolicy, make_bundle

EAGER = replace(SMALL, suggestion_score=0.1, commit_score=0.1)


def lively(design: Design) -> Any:
    """Parameters as drawn, but with heads that say something."""
    parameters = new_network(design, 0)
    for head in ("score", "commit") if design.actions == "residual" else ():
        parameters["actor"][head][-1]["weights"] *= 40
    return parameters


def policy_of(design: Design, parameters: Any = None) -> SurePolicy:
    made = lively(design) if parameters is None else parameters
    return SurePolicy(make_bundle("mine", made, design, trained={}, scores={}))


def told_of(
    policy: SurePolicy, *, seen: int = 10, vertices: int = 6, seed: int = 0, **changes: Any
) -> tuple[Explanation, Snapshot, Considered]:
    """The last of some snapshots explained, and considered by a second decider that saw the same."""
    random = np.random.default_rng(seed)
    graph = random_graph(random, [vertices])
    one, other = policy.begin(graph), policy.begin(graph)
    for number in range(1, seen):
        earlier = random_snapshot(random, graph, history=8, seen=min(number, 8))
        one.decide(earlier)
        other.decide(earlier)
    snapshot = random_snapshot(random, graph, history=8, seen=min(seen, 8), **changes)
    return explain(policy, one, snapshot), snapshot, other.consider(snapshot)


# --- what could have been answered -----------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS.names())
def test_what_is_said_is_what_is_decided(encoder: str) -> None:
    """Once as drawn and once with the commit head turned round, so that one of the two commits."""
    design = replace(EAGER, history_encoder=encoder)
    committed = 0
    for sign in (1, -1):
        parameters = lively(design)
        parameters["actor"]["commit"][-1]["weights"] *= sign
        told, snapshot, thought = told_of(policy_of(design, parameters))
        assert told.commit is not None
        assert np.array_equal(told.wanted, thought.wanted[0])
        assert (told.commit.probability > 0.5) == bool(thought.action[0, 0])
        committed += bool(thought.action[0, 0])
        for vertex, row in enumerate(told.choices):
            likely = [choice.probability for choice in row]
            assert likely == sorted(likely, reverse=True)
            assert sum(likely) == pytest.approx(1.0)
            assert [choice.chosen for choice in row] == [True] + [False] * (len(row) - 1)
            does = row[0].parallelism if thought.action[0, 0] else snapshot.parallelism[0, vertex]
            assert told.wanted[vertex] == does
        assert {one.feature for one in told.influences} == {*FEATURES}
    assert committed


def test_a_network_that_says_nothing_leaves_the_head_starts_of_the_base_rule() -> None:
    """Of k choices the suggested one has e^4 against k - 1 times e^0; commit is plus or minus 3."""
    parameters = new_network(SMALL, 0)
    for head in ("score", "commit"):
        for array in parameters["actor"][head][-1].values():
            array[:] = 0
    told, _, thought = told_of(policy_of(SMALL, parameters))
    start = 3.0 if thought.seen.suggestion.commits[0] else -3.0
    assert told.commit is not None
    assert (told.commit.score, told.commit.head_start) == (pytest.approx(start), start)
    assert told.commit.probability == pytest.approx(1 / (1 + math.exp(-start)))
    for vertex, row in enumerate(told.choices):
        assert row[0].step == "as suggested"
        assert row[0].parallelism == told.suggested[vertex]
        assert row[0].probability == pytest.approx(math.exp(4) / (math.exp(4) + len(row) - 1), rel=1e-5)
    assert all(one.on_commit == one.on_choices == 0 for one in told.influences)


def test_where_nothing_may_change_there_is_nothing_to_commit() -> None:
    told, snapshot, _ = told_of(policy_of(EAGER), cooldown_s=np.array([7.0]))
    assert told.commit == (False, 0.0, None, 0.0)
    assert np.array_equal(told.wanted, snapshot.parallelism[0])
    assert all(one.on_commit is None for one in told.influences)
    assert any(one.on_choices for one in told.influences)


def test_a_batch_is_refused() -> None:
    random = np.random.default_rng(0)
    graph = random_graph(random, [3, 4])
    policy = policy_of(SMALL)
    with pytest.raises(ActionError, match="2 jobs; a decision is explained for one"):
        explain(policy, policy.begin(graph), random_snapshot(random, graph, history=8, seen=1))


# --- the published action --------------------------------------------------------------------------


def test_chances_of_the_published_action_by_hand() -> None:
    """At p = 1, half a subtask is rounded up: a > 0.5 is one deviation; truncated, a >= 1 is two."""
    rounded = explaining._step_chances(0.0, 0.5, 1, truncates=False)
    assert rounded == pytest.approx([0.1587, 0.6827, 0.1587], abs=1e-4)
    truncated = explaining._step_chances(0.0, 0.5, 1, truncates=True)
    assert truncated == pytest.approx([0.0228, 0.9545, 0.0228], abs=1e-4)


@pytest.mark.parametrize("truncates", [False, True])
def test_chances_of_the_published_action_are_those_of_draws(truncates: bool) -> None:
    action = np.clip(np.random.default_rng(0).normal(0.3, 0.4, 200_000), -1, 1) * 5
    steps = (np.trunc(action) if truncates else np.rint(action)).astype(int)
    drawn = np.bincount(steps + 5, minlength=11) / len(steps)
    assert explaining._step_chances(0.3, 0.4, 5, truncates=truncates) == pytest.approx(drawn, abs=0.005)


def test_the_published_action_is_told_as_parallelism() -> None:
    policy = policy_of(replace(SMALL, actions="gaussian", history_encoder="gru"))
    told, snapshot, thought = told_of(policy)
    assert told.commit is None
    assert np.array_equal(told.wanted, thought.wanted[0])
    for vertex, row in enumerate(told.choices):
        (taken,) = [choice for choice in row if choice.chosen]
        assert taken.parallelism == told.wanted[vertex]
        assert sum(choice.probability for choice in row) <= 1 + 1e-9
        assert all(1 <= choice.parallelism <= 2 * snapshot.parallelism[0, vertex] for choice in row)
    assert all(one.on_commit is None and one.on_choices is not None for one in told.influences)


# --- what moved it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["sampler", "gru", "deepwave"])
def test_an_influence_is_the_difference_to_a_window_without_the_feature(encoder: str) -> None:
    policy = policy_of(replace(EAGER, history_encoder=encoder))
    told, _, thought = told_of(policy)
    view = thought.seen.view
    for one in told.influences[:4]:
        window = view.window.copy()
        window[..., FEATURES.index(one.feature)] = 0
        without = answers(policy.parameters, view._replace(window=window), policy.design, PLAIN)
        assert one.on_commit == pytest.approx(float(thought.answers.commit[0] - without.commit[0]), abs=1e-4)
        leads = []
        for vertex, chosen in enumerate(thought.action[0, 1:]):
            if view.mask[0, vertex].sum() > 1:
                pair = [found.choices[0, vertex] for found in (thought.answers, without)]
                leads.append([row[chosen] - np.delete(row, chosen).max() for row in pair])
        assert one.on_choices == pytest.approx(float(np.mean([a - b for a, b in leads])), abs=1e-4)


def test_only_what_the_network_hears_moves_it() -> None:
    parameters = lively(EAGER)
    known = parameters["actor"]["known"]["weights"]
    busy = 2 * EAGER.hidden + FEATURES.index("busy")
    known[np.arange(len(known)) != busy] = 0
    told, _, _ = told_of(policy_of(EAGER, parameters))
    assert told.influences[0].feature == "busy"
    assert abs(told.influences[0].on_commit or 0) > 1e-3
    for one in told.influences[1:]:
        assert (one.on_commit, one.on_choices) == pytest.approx((0, 0), abs=1e-6)  # rounding of float32


# --- where it looked -------------------------------------------------------------------------------


def test_looks_are_at_moments_that_were_seen_and_neighbours_within_reach() -> None:
    for seen, moments in ((1, 1), (3, 3), (20, 4)):
        told, _, thought = told_of(policy_of(SMALL), seen=seen, vertices=7)
        assert told.looks is not None
        hops = thought.seen.view.hops[0]
        for vertex, row in enumerate(told.looks):
            ages = [look.intervals_ago for look in row]
            assert len({*ages}) == moments and ages == sorted(ages, reverse=True)
            assert all(0 <= age < min(seen, 8) for age in ages)
            reach = int((hops[vertex] != 0).sum())
            for look in row:
                assert len({*look.neighbours}) == min(2, reach)
                assert all(hops[vertex, neighbour] != 0 for neighbour in look.neighbours)


def test_without_a_preference_the_oldest_moments_are_looked_at() -> None:
    """All scores are equal, and of equals the first are picked: 7, 6, 5 and 4 intervals ago."""
    parameters = lively(SMALL)
    for array in parameters["actor"]["encoder"]["time_query"].values():
        array[:] = 0
    told, _, _ = told_of(policy_of(SMALL, parameters))
    assert told.looks is not None
    assert {tuple(look.intervals_ago for look in row) for row in told.looks} == {(7, 6, 5, 4)}


@pytest.mark.parametrize("encoder", ["gru", "full", "random"])
def test_who_does_not_learn_where_to_look_says_nothing_of_it(encoder: str) -> None:
    assert told_of(policy_of(replace(SMALL, history_encoder=encoder)))[0].looks is None


# --- what becomes of a wish ------------------------------------------------------------------------


def chain(**changes: Any) -> tuple[Graph, Snapshot]:
    """Three vertices with 4 subtasks each, of 2 to 9, all of which reported."""
    random = np.random.default_rng(0)
    graph = random_graph(random, [3])._replace(least=np.full((1, 3), 2), most=np.full((1, 3), 9))
    snapshot = random_snapshot(random, graph, history=4, seen=4, **changes)
    snapshot.samples.complete[:] = True
    return graph, snapshot._replace(parallelism=np.full((1, 3), 4))


def reasons(snapshot: Snapshot, wanted: list[int]) -> tuple[list[int], list[tuple[str, ...]]]:
    opinion = opinion_of("mine", snapshot, np.array([wanted]))
    return opinion.done.tolist(), opinion.because


def test_reasons_by_hand() -> None:
    _, snapshot = chain()
    assert reasons(snapshot, [5, 4, 2]) == ([5, 4, 2], [(), (), ()])
    assert reasons(snapshot, [1, 4, 99]) == (
        [2, 4, 9],
        [("it may have 2 to 9 subtasks",), (), ("it may have 2 to 9 subtasks",)],
    )
    snapshot.samples.complete[0, -1, 1] = False
    assert reasons(snapshot, [3, 3, 3]) == (
        [3, 4, 3],
        [(), ("its metrics are incomplete, so it is not scaled down",), ()],
    )
    # Both bounds: 1 is raised to 2, and then to the 4 there are.
    assert len(reasons(snapshot, [4, 1, 4])[1][1]) == 2
    _, snapshot = chain(slots=np.array([6]))
    assert reasons(snapshot, [8, 4, 4]) == ([6, 4, 4], [("the 6 slots do not suffice for all",), (), ()])


def test_nothing_is_taken_while_a_restart_is_under_way_or_just_over() -> None:
    _, snapshot = chain(rescaling=np.array([True]))
    done, because = reasons(snapshot, [5, 4, 4])
    assert done == [4, 4, 4] and because[1:] == [(), ()]
    assert "a restart is under way" in because[0][0]
    _, snapshot = chain(cooldown_s=np.array([12.3]))
    assert reasons(snapshot, [4, 4, 3])[1][2] == ("the job restarted lately, no change is taken for 12 s",)


def test_there_is_a_reason_exactly_where_a_wish_is_not_granted() -> None:
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(40):
        graph = random_graph(random, [6])
        snapshot = random_snapshot(random, graph, history=4, seen=4, slots=random.integers(0, 25, 1))
        opinion = opinion_of("mine", snapshot, random.integers(-3, 80, (1, 6)))
        assert [bool(one) for one in opinion.because] == (opinion.wanted != opinion.done).tolist()
        refused += sum(map(bool, opinion.because))
    assert refused > 40
