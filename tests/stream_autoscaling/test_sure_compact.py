"""The compact autoscaler: where it starts, what it sees, what it may do, and how it is trained."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.learning.evolution import evolved, first_state
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.heuristics.banded import BandedDecider, banded
from trimtab.stream_autoscaling.policies import find_bundle, make_policy
from trimtab.stream_autoscaling.problem import Snapshot, allowed
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
from trimtab.stream_autoscaling.sure import compact
from trimtab.stream_autoscaling.sure.compact import (
    EVENNESS,
    FACTS,
    MOST_PRACTISED,
    SIZE,
    VERTEX_FACTS,
    CompactDecider,
    CompactPolicy,
    compact_bundle,
    compact_policy,
    first_numbers,
    for_even_arrivals,
    part,
    thrifty,
    widths,
)
from trimtab.stream_autoscaling.sure.compact_engine import play_out
from trimtab.stream_autoscaling.sure.compact_explaining import explain_compact
from trimtab.stream_autoscaling.sure.compact_task import CompactCourse, CompactSettings, CompactTask
from trimtab.stream_autoscaling.sure.compact_training import COMPACT
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace, stretch_of

pytestmark = pytest.mark.filterwarnings("error")

# 300 records/s, of which a subtask of the second vertex does 100/s: three are busy.
BUSY = {"records_in": [300.0, 300.0], "records_out": [300.0, 0.0], "busy": [0.3, 0.75]}


def rested(random: np.random.Generator, sizes: list[int]) -> Snapshot:
    """A random moment; nothing was restarted, so patience plays no part."""
    graph = random_graph(random, sizes)
    return random_snapshot(random, graph, history=60, seen=60, since_rescale_s=np.full(len(sizes), np.inf))


def test_training_starts_at_the_rule_but_for_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "TRIED", np.zeros(1))
    random = np.random.default_rng(1)
    commits = 0
    for _ in range(30):
        snapshot = rested(random, [3, 9, 14])
        rule = BandedDecider(snapshot.graph, banded().values)
        expected = rule.decide(snapshot)
        found = CompactDecider(snapshot.graph, first_numbers()).decide(snapshot)
        np.testing.assert_array_equal(found, expected)
        commits += int((expected != snapshot.parallelism).any(1).sum())
    assert commits > 30


def test_facts_of_a_job_by_hand() -> None:
    """300/s for an hour, but twice as much for three minutes; at six in the morning; two seconds late."""
    came = np.full((1, 60, 2), [300.0, 300.0])
    came[:, -3:, 0] = 600.0
    snapshot = snapshot_of(
        chain_graph(2),
        history=60,
        parallelism=[4, 4],
        now_s=6 * 3600.0,
        latency_s=2.0,
        since_rescale_s=450.0,
        pending=[9900.0, 0.0],
        **{**BUSY, "records_in": came},
    )
    found = CompactDecider(snapshot.graph, first_numbers()).think(snapshot)
    facts = dict(zip(FACTS, found.facts[0].tolist(), strict=True))
    ten, thirty, sixty = 390.0, 330.0, (56 * 300 + 3 * 600) / 59
    even = 1 - (np.sqrt(300) / 30) ** 2 / thirty / 0.1  # the mean of the roots of thirty differences, squared
    assert 0.98 < even < 1 and facts.pop("how even arrivals are") == pytest.approx(even)
    shares = {name: facts.pop(f"{name}, even") for name in list(facts)[1:EVENNESS]}
    assert shares == pytest.approx({name: even * facts[name] for name in shares})
    assert facts == pytest.approx(
        {
            "usual": 1.0,
            "last 10 minutes against 30": np.log(ten / thirty),
            "last 3 minutes against 10": np.log(600 / ten),
            "last 30 minutes against 60": np.log(thirty / sixty),
            "busiest 10 minutes of the hour against 30": np.log(ten / thirty),
            "hour of day, sine": 1.0,
            "hour of day, cosine": 0.0,
            "half day, sine": 0.0,
            "half day, cosine": -1.0,
            # One step of 300 among thirty differences, as a deviation of each of the two.
            "noise from minute to minute": 300 / np.sqrt(60) / thirty / 0.25 - 1,
            "mean parallelism": 0.0,
            "latency against the limit": 0.4,
            "minutes of records waiting": 0.5,
            "vertices": np.log(2 / 20),
            "restarted within 15 minutes": 0.5,
            "restarted within 45 minutes": 1 - 450 / 2700,
            "not restarted for an hour": 0.0,
        },
        abs=1e-9,
    )


def test_facts_of_a_vertex_by_hand() -> None:
    busy = np.full((1, 60, 2), [0.3, 0.5])
    busy[:, ::2, 1] = 1.0
    snapshot = snapshot_of(
        chain_graph(2, key_groups=[0, 128]),
        history=60,
        parallelism=[1, 4],
        queue_fill=[0.0, 0.25],
        **{**BUSY, "busy": busy},
    )
    found = CompactDecider(snapshot.graph, first_numbers()).think(snapshot)
    assert found.needed[0, 1] == pytest.approx(4 * (8 * 0.5 + 7 * 1.0) / 15, rel=0.05)
    told = dict(zip(VERTEX_FACTS, found.vertex_facts[0, 1].tolist(), strict=True))
    needed = found.needed[0, 1]
    window = busy[0, -15:, 1]
    assert told == pytest.approx(
        {
            "is source": 0.0,
            "keyed": 1.0,
            "busy subtasks": np.log2(needed + 0.5) / 3,
            "place in the graph": 0.5,
            "input buffers full": 0.25,
            "needed against parallelism": np.log(needed / 0.65 / 4),
            "variation of busy time": min(window.std() / window.mean() / 0.25 - 1, 1),
        }
    )


@pytest.mark.parametrize(("change", "even"), [(0.0, 1.0), (0.05, 0.5), (0.2, 0.0), (0.4, 0.0)])
def test_how_even_arrivals_are(change: float, even: float) -> None:
    """Every minute differs by so much from the one before; a single rush on top hardly counts."""
    came = np.full((1, 60, 2), 300.0)
    came[:, ::2] *= 1 + change
    rate = float(came[0, -30:, 0].mean())
    snapshot = snapshot_of(chain_graph(2), history=60, parallelism=[4, 4], **{**BUSY, "records_in": came})
    found = CompactDecider(snapshot.graph, first_numbers()).think(snapshot)
    assert found.facts[0, EVENNESS] == pytest.approx(np.clip(1 - 300 * change / rate / 0.1, 0, 1))
    assert found.facts[0, EVENNESS] == pytest.approx(even, abs=0.03)
    assert found.facts[0, EVENNESS + 9] == pytest.approx(found.facts[0, EVENNESS] * found.facts[0, 9])


def test_arrivals_of_which_little_is_known_are_not_even() -> None:
    complete = np.zeros((1, 60, 2), np.bool_)
    complete[:, -15:] = True  # fourteen differences of thirty
    snapshot = snapshot_of(chain_graph(2), history=60, parallelism=[4, 4], complete=complete, **BUSY)
    found = CompactDecider(snapshot.graph, first_numbers()).think(snapshot)
    assert found.facts[0, 0] == 1.0 and found.facts[0, EVENNESS] == 0.0


def test_numbers_for_even_arrivals_count_only_there() -> None:
    random = np.random.default_rng(11)
    other = first_numbers() + np.where(for_even_arrivals(), 5 * widths() * random.standard_normal(SIZE), 0.0)
    graph, steps = chain_graph(2), np.array([1.0, 1.3] * 30)
    told = {}
    for name, times in (("even", np.ones(60)), ("uneven", steps)):
        came = 300.0 * times[None, :, None] * np.ones((1, 60, 2))
        snapshot = snapshot_of(graph, history=60, parallelism=[4, 4], **{**BUSY, "records_in": came})
        deciders = [CompactDecider(graph, numbers) for numbers in (first_numbers(), other)]
        told[name] = np.array([decider.think(snapshot).factors for decider in deciders])
    np.testing.assert_array_equal(told["uneven"][0], told["uneven"][1])
    assert (told["even"][0] != told["even"][1]).all()


def test_a_mean_parallelism_nobody_practised_counts_as_the_largest_practised() -> None:
    place = FACTS.index("mean parallelism")
    for parallelism, fact in ((4, 0.0), (7, np.log2(7) / 2 - 1), (8, MOST_PRACTISED), (100, MOST_PRACTISED)):
        snapshot = snapshot_of(chain_graph(2, most=128), history=60, parallelism=[parallelism] * 2, **BUSY)
        found = CompactDecider(snapshot.graph, first_numbers()).think(snapshot)
        assert found.facts[0, place] == pytest.approx(fact)


@pytest.mark.parametrize(("rush", "times"), [(300.0, 1.0), (1200.0, 1200 / 390)])
def test_no_more_is_given_than_was_learned_to_be_most(
    monkeypatch: pytest.MonkeyPatch, rush: float, times: float
) -> None:
    """Twenty for each busy subtask are learned, and two at most for each that the last minutes need."""
    monkeypatch.setattr(compact, "TRIED", np.zeros(1))
    came = np.full((1, 60, 2), 300.0)
    came[:, -3:] = rush
    graph = chain_graph(2, most=1000)
    snapshot = snapshot_of(graph, history=60, parallelism=[4, 4], **{**BUSY, "records_in": came})
    numbers = first_numbers()
    numbers[part("size")][0], numbers[part("most given")] = np.log(20.0), np.log(2.0)
    found = CompactDecider(graph, numbers).think(snapshot)
    assert found.goal.tolist() == np.ceil(2 * times * found.needed - 1e-9).tolist()
    numbers[part("most given")] = np.log(100.0)
    freely = CompactDecider(graph, numbers).think(snapshot)
    assert freely.goal.tolist() == np.ceil(20 * freely.needed - 1e-9).tolist()


def test_every_job_may_have_numbers_of_its_own() -> None:
    random = np.random.default_rng(2)
    rows = first_numbers() + 2 * widths() * random.standard_normal((3, SIZE))
    snapshot = rested(random, [5, 8, 11])
    together = CompactDecider(snapshot.graph, rows).decide(snapshot)
    for job in range(3):
        alone = CompactDecider(snapshot.graph, rows[job]).decide(snapshot)
        np.testing.assert_array_equal(together[job], alone[job])
    assert (together != snapshot.parallelism).any()


def test_with_whatever_numbers_it_stays_within_bounds_and_leaves_alone_what_nobody_knows() -> None:
    random = np.random.default_rng(3)
    for seen in (0, 1, 5, 60):
        graph = random_graph(random, [4, 9, 13])
        snapshot = random_snapshot(random, graph, history=60, seen=seen)
        rows = first_numbers() + 20 * widths() * random.standard_normal((3, SIZE))
        decider = CompactDecider(graph, rows)
        wanted, found = decider.decide(snapshot), decider.think(snapshot)
        real = graph.exists
        assert (wanted[real] >= graph.least[real]).all() and (wanted[real] <= graph.most[real]).all()
        unknown = real & np.isnan(found.needed)
        assert (wanted[unknown] == snapshot.parallelism[unknown]).all()
        assert (allowed(snapshot, wanted)[real] >= 1).all()
        if seen == 0:
            assert (wanted == snapshot.parallelism).all()


@pytest.mark.parametrize("rule", ["banded", "compact"])
def test_who_has_all_it_may_have_does_not_restart_the_others(rule: str) -> None:
    """All eight subtasks of the second are busy, and it may not have nine; the first could do with two."""
    graph = chain_graph(2, most=8)
    snapshot = snapshot_of(
        graph,
        history=60,
        parallelism=[3, 8],
        records_in=[1200.0, 1200.0],
        records_out=[1200.0, 0.0],
        busy=[0.4, 1.0],
    )
    policy = make_policy("banded") if rule == "banded" else CompactPolicy("compact", first_numbers())
    assert policy.begin(graph).decide(snapshot)[0].tolist() == [3, 8]
    free = snapshot._replace(graph=chain_graph(2, most=16))
    # 8 / 0.65 = 12.3; with 3 % less of everything twelve will do.
    assert policy.begin(free.graph).decide(free)[0].tolist() == [2, 13 if rule == "banded" else 12]


def test_of_sizes_near_the_target_the_one_that_wastes_least_is_taken() -> None:
    """Three vertices: sizes from 0.86 to 1.16 times, a per cent more for a per cent more subtasks."""
    needed = np.array([[4.1, 2.05, 0.5], [4.0, 2.0, 0.5], [3.5, 3.5, 0.5]])
    graph = chain_graph(3, environments=3)
    snapshot = snapshot_of(graph, parallelism=1)
    # 3 % less saves two of nine; nothing is lost; 14 % more costs nothing.
    assert thrifty(needed, snapshot).tolist() == [[4, 2, 1], [4, 2, 1], [4, 4, 1]]
    # Who wants more at any price, and who wants less.
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), worth=5.0).tolist() == [[5, 3, 1]]
    assert thrifty(needed[1:2], snapshot_of(chain_graph(3)), worth=0.0).tolist() == [[4, 2, 1]]
    # A tenth of a subtask may be missing, and another tenth over its number.
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), less=1.2).tolist() == [[3, 1, 1]]
    assert thrifty(needed[:1], snapshot_of(chain_graph(3)), less_if_few=1.2).tolist() == [[4, 2, 1]]


def test_totals_stay_near_rounding_up_and_what_nobody_knows_stays() -> None:
    """Of random jobs, those without key groups: at most 15 % from what was aimed at, and a subtask."""
    random = np.random.default_rng(5)
    graph = random_graph(random, [9, 9, 9, 9])
    snapshot = random_snapshot(random, graph, history=30, seen=30)
    needed = np.where(graph.exists, random.lognormal(1, 1, graph.exists.shape), 0.0)
    plain = np.clip(np.ceil(needed - 1e-9), graph.least, graph.most)
    keyed = graph.key_groups > 0
    found = thrifty(needed, snapshot)
    total = np.where(~keyed & graph.exists, found, 0).sum(1)
    bound = np.where(~keyed & graph.exists, plain, 0).sum(1)
    assert (total <= np.ceil(1.17 * bound)).all() and (total >= np.floor(0.85 * bound)).all()
    nobody = thrifty(np.full(graph.exists.shape, np.nan), snapshot)
    np.testing.assert_array_equal(nobody[graph.exists], snapshot.parallelism[graph.exists])


def test_rounding_may_leave_a_part_of_a_subtask_out() -> None:
    """Three busy subtasks at 65 % are 4.6: five, or four with 0.7 less."""
    snapshot = snapshot_of(chain_graph(2), history=60, parallelism=[1, 8], **{**BUSY, "busy": [0.3, 0.375]})
    numbers = first_numbers()
    numbers[part("saving")] = 0.0
    numbers[part("saving")][0] = np.log(0.01)
    assert CompactDecider(snapshot.graph, numbers).decide(snapshot)[0].tolist() == [1, 5]
    numbers[part("rounding")] = (0.7, 0.0)
    assert CompactDecider(snapshot.graph, numbers).decide(snapshot)[0].tolist() == [1, 4]


def test_an_explanation_says_what_was_decided_and_what_moved_it() -> None:
    snapshot = snapshot_of(
        chain_graph(2),
        history=60,
        parallelism=[1, 4],
        since_rescale_s=1350.0,
        **{**BUSY, "busy": [0.3, 0.75]},
    )
    numbers = first_numbers()
    numbers[part("size")][FACTS.index("not restarted for an hour")] = 0.5
    decider = CompactDecider(snapshot.graph, numbers)
    told = explain_compact(decider, snapshot)
    assert told.wanted.tolist() == decider.decide(snapshot)[0].tolist() == [1, 4]
    assert (told.aims_at, told.limit) == pytest.approx((0.65, 0.85))
    assert told.saving == pytest.approx(0.15 * np.exp(1.5)) and told.saved == pytest.approx(-0.2)
    assert not told.commits and told.goal.tolist() == [1, 5]
    first = told.influences[0]
    assert first.fact == "restarted within 45 minutes"
    assert (first.on_size, first.on_saving) == pytest.approx((1.0, np.exp(1.5)))


def test_a_fact_and_its_share_for_even_arrivals_are_one_influence() -> None:
    """Nothing varies in these arrivals: they are as even as can be."""
    snapshot = snapshot_of(chain_graph(2), history=60, parallelism=[1, 4], since_rescale_s=1350.0, **BUSY)
    numbers, fact = first_numbers(), "restarted within 45 minutes"
    numbers[part("size")][FACTS.index(f"{fact}, even")] = 0.5
    numbers[part("size")][EVENNESS] = -0.25
    told = explain_compact(CompactDecider(snapshot.graph, numbers), snapshot)
    found = {one.fact: one for one in told.influences}
    assert list(found) and set(found) == set(FACTS[1 : EVENNESS + 1])
    assert found[fact].on_size == pytest.approx(np.exp(0.5 * 0.5))
    assert found["how even arrivals are"].on_size == pytest.approx(np.exp(0.5 * 0.5 - 0.25))


def course(**changes) -> CompactCourse:
    usual = {"jobs": ("linear:2",), "stretches": 2, "hours": 0.25, "trace": TraceSettings(name="sine")}
    return CompactCourse.model_validate(usual | changes)


def small_settings(**changes) -> CompactSettings:
    training = {"iterations": 2, "pairs": 2, "validate_every": 1, "checkpoint_every": 1}
    whole = {"courses": (course(),), "validation": 1, "workers": 1, "training": training, **changes}
    return CompactSettings.model_validate(whole)


def test_a_trial_is_the_same_for_the_same_iteration_and_differs_between_them() -> None:
    task = CompactTask(small_settings())
    rows = np.stack([first_numbers(), first_numbers() + 3 * widths()])
    first, again, later = (task.trial(rows, iteration) for iteration in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert first[0] != first[1] and (first != later).all()
    assert task.decisions == 3 * 2 * 2 * 15
    swapped = task.trial(rows[::-1], 0)
    np.testing.assert_allclose(swapped, first[::-1])


def test_in_practice_it_may_be_dearer_to_be_late() -> None:
    """Every interval is late here, and counts three times; in validation as ever."""
    rows = first_numbers()[None]
    costs = []
    for times in (1.0, 3.0):
        task = CompactTask(
            small_settings(practice_lateness=times, deployment={"objective": {"slo_s": 0.001}})
        )
        usual, practised = task.settings.deployment.objective, task.settings.practice.objective
        assert practised == usual.model_copy(update={"violation_cost": times * usual.violation_cost})
        costs.append((float(np.exp(task.trial(rows, 0))[0]), task.score(rows[0])["score"]))
    (cheap, score), (dear, same) = costs
    assert score == same
    assert dear - cheap == pytest.approx(2 * usual.violation_cost)


def test_slots_may_count_in_a_course() -> None:
    """Twice the logarithm of what a stretch takes on average, on top of that of what it costs."""
    rows = np.stack([first_numbers(), first_numbers() + 3 * widths()])
    costs, both = (
        CompactTask(small_settings(courses=[course(slots=slots)])).trial(rows, 0) for slots in (0.0, 2.0)
    )
    task = CompactTask(small_settings())
    (ground,) = task._drawn(course(), 0)
    jobs = [make_job(ground.job)] * 2
    taken = []
    for row in rows:
        traces = [
            stretch_of(draw_trace(ground.trace, job, seed=seed, part="training"), 900, 60.0, seed=seed)
            for job, seed in zip(jobs, ground.seeds, strict=True)
        ]
        simulator = StreamSimulator(jobs, traces, Deployment(), seeds=list(ground.seeds))
        taken.append(play_out(simulator, np.stack([row, row])).slots.mean() / 15)
    np.testing.assert_allclose(both - costs, 2 * np.log(taken))
    assert (both != costs).all()


@pytest.mark.parametrize(("searched", "moves"), [("all", (1, 1)), ("even", (1, 0)), ("uneven", (0, 1))])
def test_a_part_of_the_numbers_may_be_searched_alone(searched: str, moves: tuple[int, int]) -> None:
    training = {"pairs": 8, "step": 2.0}
    task = CompactTask(small_settings(searched=searched, courses=(course(hours=2),), training=training))
    even = for_even_arrivals()
    for mask, move in ((even, moves[0]), (~even, moves[1])):
        np.testing.assert_array_equal(task.widths[mask], move * widths()[mask])
    state, _ = evolved(first_state(task.start), task, task.settings.training)
    assert bool((state.numbers[even] != task.start[even]).any()) == bool(moves[0])
    assert bool((state.numbers[~even] != task.start[~even]).any()) == bool(moves[1])


def test_jobs_of_a_course_take_turns() -> None:
    three = CompactCourse(jobs=("linear:2", "linear:3", "linear:4"), jobs_at_once=2, stretches=1)
    task = CompactTask(small_settings(courses=(three,)))
    played = [[one.job for one in task._drawn(three, iteration)] for iteration in range(3)]
    assert played == [["linear:2", "linear:3"], ["linear:4", "linear:2"], ["linear:3", "linear:4"]]
    seeds = [seed for iteration in range(6) for one in task._drawn(three, iteration) for seed in one.seeds]
    assert len(set(seeds)) == len(seeds)


def clock() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.slow
def test_a_run_leaves_a_bundle_that_plays_and_can_be_gone_on_from(tmp_path) -> None:
    settings = small_settings()
    bundle = load_bundle(COMPACT.train(settings, tmp_path / "run", name="mine", clock=clock))
    policy = compact_policy(bundle)
    assert policy.name == "mine" and policy.numbers.shape == (SIZE,)
    assert bundle.manifest["trained"]["jobs"] == ["linear:2"] and COMPACT.score in bundle.manifest["scores"]
    assert make_policy(str(tmp_path / "run" / "bundle")).begin is not None
    task = CompactTask(settings, start=bundle)
    np.testing.assert_array_equal(task.start, policy.numbers)


def test_bundles_of_other_kinds_and_versions_are_refused() -> None:
    with pytest.raises(
        BundleError, match="sure: a bundle of kind 'sure'; one of kind 'sure-compact' is needed"
    ):
        compact_policy(load_bundle(find_bundle("sure")))
    other = compact_bundle("mine", np.zeros(SIZE - 1), trained={}, scores={})
    with pytest.raises(BundleError, match="mine: its numbers are not those of this version; train it again"):
        compact_policy(other)
    other.manifest["features"]["job"].pop()
    with pytest.raises(BundleError, match="mine: it sees other facts than this version"):
        compact_policy(other)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rule": "oracle-static"}, "rule = 'oracle-static' knows what will come"),
        (
            {"practice_substep_ms": 7000},
            "practice_substep_ms = 7000 does not divide deployment.interval_s = 60",
        ),
        (
            {"practice_lateness": 75, "deployment": {"objective": {"violation_cost": 2}}},
            "practice_lateness = 75 makes a late interval cost more than 100 in practice; lower it",
        ),
        ({"courses": [{"hours": 0.01}]}, "courses.0.hours = 0.01 is less than an interval of 60 s"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, told) -> None:
    with pytest.raises(SettingsError, match=told):
        CompactTask(small_settings(**changes))
