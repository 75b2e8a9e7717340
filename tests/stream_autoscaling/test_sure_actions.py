"""Steps around what the base rule suggests: the ladder, what is on offer, from answers to parallelism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Snapshot, allowed
from trimtab.stream_autoscaling.sure.actions import (
    CHOICES,
    Bands,
    Suggestion,
    decode_action,
    encode_action,
    ladders,
    offer,
    rungs,
)
from trimtab.stream_autoscaling.sure.design import Design

DESIGN = Design(
    history=30,
    base_target=0.75,
    base_limit=0.8,
    base_memory_s=1740.0,
    base_recent_s=300.0,
    base_patience_s=0.0,
)
# 150 records/s keep 1.5 of 2 subtasks busy, so each does 100/s; for 300/s at 75 % four are needed.
BUSY = {"parallelism": [1, 2], "records_in": [300.0, 150.0], "records_out": [300.0, 0.0], "busy": [0.3, 0.75]}


@pytest.mark.parametrize("groups", [0, 12, 128, 1000])
def test_every_rung_lowers_the_share_of_the_busiest_subtask(groups: int) -> None:
    found = np.array(rungs(groups, 1, min(128, groups or 128)))
    assert found[0] == 1 and (np.diff(found) > 0).all()
    assert found.tolist()[:4] == [1, 2, 3, 4]
    shares = -(-groups // found) if groups else 1 / found
    assert (np.diff(shares) < 0).all()
    if not groups:  # of 128 groups there is nothing worth having between 64 and 128
        assert (found[1:] / found[:-1])[found[1:] > 8].max() < 1.3


def test_bounds_are_rungs() -> None:
    assert rungs(0, 3, 7) == (3, 4, 5, 6, 7)
    assert rungs(128, 5, 100)[0] == 5 and rungs(128, 5, 100)[-1] == 100


def suggested(snapshot: Snapshot, design: Design = DESIGN) -> Suggestion:
    return Bands(snapshot.graph, design).suggest(snapshot)


@pytest.mark.parametrize("limit", [0.1, 0.8, 3.0])
def test_the_suggestion_is_what_the_base_rule_would_do(limit: float) -> None:
    """On random snapshots, after what is allowed: the rule and the suggestion are one."""
    random = np.random.default_rng(0)
    graph = random_graph(random, [3, 9, 14])
    design = replace(DESIGN, base_limit=limit)
    rule = make_policy(design.teacher)
    for seen in range(1, 40):
        snapshot = random_snapshot(random, graph, history=30, seen=seen)
        suggestion = suggested(snapshot, design)
        by_rule = allowed(snapshot, rule.begin(graph).decide(snapshot))
        held = np.where(suggestion.commits[:, None], suggestion.parallelism, snapshot.parallelism)
        assert np.array_equal(allowed(snapshot, held), by_rule)


def test_a_hand_made_offer() -> None:
    """The second vertex sees 300/s and does 100/s per busy subtask: 3 / 0.75 = 4 are suggested."""
    snapshot = snapshot_of(chain_graph(2, most=20), **BUSY)
    suggestion = suggested(snapshot)
    assert suggestion.parallelism[0, 1] == 4 and suggestion.needed[0, 1] == pytest.approx(3.0)
    offered = offer(snapshot, suggestion, ladders(snapshot.graph))
    assert dict(zip(CHOICES, offered.values[0, 1].tolist(), strict=True)) == {
        "as suggested": 4,
        "a step below": 3,
        "two steps below": 2,
        "a step above": 5,
        "two steps above": 6,
        "doubled": 8,
    }
    assert offered.mask[0, 1].all() and offered.may_commit[0]


def test_choices_that_say_the_same_are_offered_once() -> None:
    """At parallelism 1 nothing lies below; a step above is 2, which doubling is too."""
    snapshot = snapshot_of(chain_graph(1, most=4), parallelism=1, records_in=1.0, busy=0.001)
    offered = offer(snapshot, suggested(snapshot), ladders(snapshot.graph))
    assert offered.values[0, 0].tolist() == [1, 1, 1, 2, 3, 2]
    assert offered.mask[0, 0].tolist() == [True, False, False, True, True, False]


def test_incomplete_metrics_never_offer_less() -> None:
    snapshot = snapshot_of(chain_graph(1), parallelism=10, records_in=1.0, busy=0.001)
    snapshot.samples.complete[0, -1, 0] = False
    offered = offer(snapshot, suggested(snapshot), ladders(snapshot.graph))
    assert (offered.values[0, 0][offered.mask[0, 0]] >= 10).all() and offered.values[0, 0, 0] == 10


def test_slots_bound_the_offer() -> None:
    snapshot = snapshot_of(chain_graph(2, most=20), **BUSY, slots=5)
    offered = offer(snapshot, suggested(snapshot), ladders(snapshot.graph))
    assert offered.values[0, 1][offered.mask[0, 1]].tolist() == [4, 3, 2, 5]
    tight = snapshot_of(chain_graph(2, most=20), **BUSY, slots=3)
    offered = offer(tight, suggested(tight), ladders(tight.graph))
    assert offered.values[0, 1][offered.mask[0, 1]].max() == 3 and offered.mask[0, 1, 0]


@pytest.mark.parametrize("still", [{"rescaling": True}, {"cooldown_s": 5.0}])
def test_nothing_is_committed_while_a_rescale_is_not_taken(still) -> None:
    snapshot = snapshot_of(chain_graph(2), **BUSY, **still)
    suggestion = suggested(snapshot)
    offered = offer(snapshot, suggestion, ladders(snapshot.graph))
    assert not offered.may_commit[0] and not suggestion.commits[0]
    everything = np.array([[1, 5, 5]])
    assert np.array_equal(decode_action(everything, snapshot, offered, DESIGN), snapshot.parallelism)


def test_answers_and_parallelism_are_two_ways_to_say_one_thing() -> None:
    """Every allowed answer survives the way to parallelism and back, up to choices that change nothing."""
    random = np.random.default_rng(1)
    graph = random_graph(random, [4, 12])
    for seen in (5, 20, 30):
        snapshot = random_snapshot(random, graph, history=30, seen=seen)
        offered = offer(snapshot, suggested(snapshot), ladders(graph))
        choices = np.where(offered.mask, random.random(offered.mask.shape), -1).argmax(-1)
        action = np.concatenate([np.ones((2, 1), int), choices], axis=1)
        wanted = decode_action(action, snapshot, offered, DESIGN)
        again = encode_action(wanted, snapshot, offered, DESIGN)
        assert np.array_equal(decode_action(again, snapshot, offered, DESIGN), wanted)
        held = encode_action(snapshot.parallelism, snapshot, offered, DESIGN)
        assert not held.any()


def test_published_actions_round_and_do_not_truncate() -> None:
    """p = 1, a = 0.6: rounded it becomes 2, truncated (the published code) it stays 1."""
    snapshot = snapshot_of(chain_graph(3, most=8), parallelism=[1, 3, 8])
    action = np.array([[0.6, -0.5, 0.9]])
    rounded = decode_action(action, snapshot, None, Design(actions="gaussian"))  # type: ignore[arg-type]
    truncated = decode_action(action, snapshot, None, Design(actions="gaussian", truncates=True))  # type: ignore[arg-type]
    assert rounded.tolist() == [[2, 1, 8]] and truncated.tolist() == [[1, 2, 8]]
    back = encode_action(np.array([[2, 1, 8]]), snapshot, None, Design(actions="gaussian"))  # type: ignore[arg-type]
    assert back == pytest.approx(np.array([[1.0, -2 / 3, 0.0]]))
