"""Environments for learning: rewards, groups, ends and labels, against episodes of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trimtab.core.environment import BatchEnvironment
from trimtab.core.errors import ActionError, SettingsError
from trimtab.gpu_scheduling.das.compact import first_numbers, rule_of
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.executing import action_of_choice, action_of_scores, parts_of_action
from trimtab.gpu_scheduling.das.experience import gathered, no_experience
from trimtab.gpu_scheduling.das.network import new_network
from trimtab.gpu_scheduling.das.network_policy import best_choice
from trimtab.gpu_scheduling.das.rollouts import TRAINING_SEEDS, Course, Reward, RolloutEnvironment
from trimtab.gpu_scheduling.das.view import JOB_FACTS, NO_EXPERIENCE, View, empty_view, look
from trimtab.gpu_scheduling.policies import make_policy
from trimtab.gpu_scheduling.problem import HOLD, Action, Snapshot
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import Workload, make_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload, past_jobs

RULE: Any = make_policy("smallest+fast:neighbours=2,tightness=0.3")
CHOICES = Design(window=12)
SCORES = Design(actions="scores", window=12)
JOBS = 40
Shown = dict[str, np.ndarray]


def course(name: str = "das-small", *, factor: float = 1.3) -> Course:
    cluster = find_cluster(name)
    gpus = float(cluster.machine_table.gpus.sum())
    asked = WorkloadSettings(jobs=JOBS, load=factor * usual_load(name))

    def draw(seed: int) -> Workload:
        return draw_workload(asked, gpus=gpus, seed=seed)

    return Course(cluster, draw)


def playing(design: Design = CHOICES, *, size: int = 4, **told: Any) -> RolloutEnvironment:
    return RolloutEnvironment([course()], design, size=size, rule=RULE, **{"staggered": False, **told})


def newest_first(shown: Shown) -> np.ndarray:
    """The newest job that fits, where it has most room; now and then all are held back."""
    fits, window = shown["fits"], shown["fits"].shape[1]
    last = window - 1 - fits[:, ::-1].argmax(1)
    held = shown["may_hold"] & (shown["waits"].sum(1) % 3 == 0)
    row = np.where(held | ~fits.any(1), window, last)
    room = shown["pairs"][np.arange(len(row)), np.minimum(row, window - 1), :, 0]
    return np.concatenate([row[:, None], np.argsort(-room, 1, kind="stable")], axis=1)


def some_scores(shown: Shown) -> np.ndarray:
    """Scores that depend on what is seen alone."""
    of_jobs = np.where(shown["waits"], np.sin(50 * shown["jobs"][..., 0]) + shown["jobs"][..., 5], 99.0)
    of_machines = (
        np.cos(9 * shown["pairs"][..., 1]) - shown["pairs"][..., 2] + shown["machines"][:, None, :, 1]
    )
    return np.concatenate([of_jobs, of_machines.reshape(len(of_jobs), -1)], axis=1)


def played(env: RolloutEnvironment, seeds: list[int], policy: Callable[[Shown], np.ndarray]) -> np.ndarray:
    """Whole given episodes; the sum of their rewards."""
    env.reset_to(seeds)
    total = np.zeros(env.size)
    while env.going:
        total += env.step(policy(env.observe())).rewards
    return total


class Live:
    """The same answers on a single cluster, asked in plain Python."""

    name, timed = "live", False

    def __init__(
        self,
        design: Design,
        policy: Callable[[Shown], np.ndarray],
        machines: int,
        experience: np.ndarray = NO_EXPERIENCE,
    ) -> None:
        self.design, self.policy, self.experience = design, policy, experience
        self.view, self.slots = empty_view(design, 1, machines), np.zeros(design.window, np.int64)
        self.scored: tuple[int, np.ndarray, np.ndarray] | None = None

    def decide(self, snapshot: Snapshot) -> Action:
        if self.scored is None or self.scored[0] != snapshot.now_ms:
            look(snapshot, self.view, 0, self.slots, self.experience)
            if not self.view.fits.any():
                return HOLD
            answer = self.policy(self.view._asdict())[0]
            if self.design.actions == "choices":
                return action_of_choice(snapshot, self.slots, answer)
            self.scored = int(snapshot.now_ms), self.slots.copy(), answer
        return action_of_scores(snapshot, *self.scored[1:])


def test_it_is_a_batch_environment_whose_answers_are_looked_at() -> None:
    env = playing()
    assert isinstance(env, BatchEnvironment)
    with pytest.raises(SettingsError, match="have not begun"):
        env.observe()
    env.reset(seed=1, mean_episode_s=np.inf)
    with pytest.raises(ActionError, match=r"answers of shape \(4, 3\); choices here have \(4, 9\)"):
        env.step(np.zeros((4, 3), np.int32))
    answer = newest_first(env.observe())
    answer[2, 0] = 11
    with pytest.raises(ActionError, match="row 11 of the window has no job"):
        env.step(answer)


@pytest.mark.parametrize(
    ("design", "policy"), [(CHOICES, newest_first), (SCORES, some_scores)], ids=["choices", "scores"]
)
def test_an_episode_is_that_of_the_simulator(design: Design, policy: Callable[[Shown], np.ndarray]) -> None:
    """Times and fees agree with the same answers given one by one in plain Python."""
    env, where = playing(design, size=2), course()
    played(env, [5, 6], policy)
    for place, seed in enumerate((5, 6)):
        live = Live(design, policy, machines=8)
        episode = simulate(where.draw(seed), live, where.cluster, seed=seed)
        assert env.measured[place] == pytest.approx([episode.jct_ms.mean(), episode.fee.mean()], rel=1e-12)
        rule = simulate(where.draw(seed), RULE, where.cluster, seed=seed)
        assert env.usual[place] == pytest.approx([rule.jct_ms.mean(), rule.fee.mean()], rel=1e-12)


def test_rewards_add_up_to_completion_time_and_fee_beyond_the_least() -> None:
    env, where = playing(reward=Reward("little", fee_weight=0.5)), course()
    seeds = [1, 2, 3, 4]
    total = played(env, seeds, newest_first)
    price = where.cluster.machine_table.price.min() / 3.6e6
    least = np.array([where.draw(seed).gpu_ms.mean() for seed in seeds]) * price
    time, fee = (env.measured / env.usual).T
    assert total == pytest.approx(-JOBS * (time + 0.5 * (fee - least / env.usual[:, 1])), rel=1e-4)
    assert (time > 1).all()
    assert (env.measured[:, 1] > least).all()


def test_waiting_costs_time_and_no_fee() -> None:
    """While nobody runs, only the jobs in the system count, whatever they will cost."""
    dear, free = (playing(reward=Reward("little", fee_weight=weight)) for weight in (50.0, 0.0))
    first = []
    for env in (dear, free):
        env.reset_to([1, 2, 3, 4])
        hold = np.zeros_like(newest_first(env.observe()))
        hold[:, 0] = env.observe()["waits"].shape[1]
        first.append(env.step(hold).rewards)
    assert first[0] == pytest.approx(first[1], rel=1e-6)
    assert (first[0] < 0).all()


def test_whoever_follows_the_labels_plays_as_the_rule_does() -> None:
    env = playing(teacher=RULE)
    played(env, [1, 2, 3, 4], lambda shown: shown["teacher"])
    assert env.measured == pytest.approx(env.usual, rel=1e-12)


def test_a_label_names_all_machines_those_of_the_rule_first() -> None:
    env = playing(teacher=RULE)
    env.reset(seed=3, mean_episode_s=np.inf)
    for _ in range(30):
        labels = env.observe()["teacher"]
        assert labels.dtype == np.int32
        assert np.sort(labels[:, 1:], axis=1).tolist() == [list(range(8))] * 4
        env.step(labels)


def test_labels_are_worked_out_while_imitating_or_when_asked_for() -> None:
    env = playing(teacher=RULE, labelled=False)
    env.reset(seed=3, mean_episode_s=np.inf)
    assert (env.observe()["teacher"][:, 0] == CHOICES.window).all()
    env.reset(seed=3, mean_episode_s=np.inf, imitating=True)
    assert (env.observe()["teacher"][:, 0] < CHOICES.window).all()


def test_neighbours_live_through_the_same_and_groups_through_different_workloads() -> None:
    env = playing(size=4, rollouts=2)
    env.reset(seed=7, mean_episode_s=np.inf)
    for step in range(3 * JOBS):
        shown = env.observe()
        for name in ("jobs", "machines", "pairs", "fits"):
            assert (shown[name][0] == shown[name][1]).all()
        if step == 10:
            assert (shown["jobs"][0] != shown["jobs"][2]).any()
        outcome = env.step(newest_first(shown))
        assert outcome.rewards[0] == outcome.rewards[1]
        assert outcome.ended[2] == outcome.ended[3]


def test_neighbours_meet_again_in_the_next_episode_however_they_came_there() -> None:
    env = playing(size=2, rollouts=2, teacher=RULE)
    env.reset(seed=7, mean_episode_s=np.inf)
    first: list[Shown | None] = [None, None]
    while any(one is None for one in first):
        shown = env.observe()
        answers = newest_first(shown)
        answers[0] = shown["teacher"][0]
        ended = env.step(answers).ended
        for place in np.flatnonzero(ended):
            first[place] = first[place] or {name: one[place] for name, one in env.observe().items()}
    one, other = first
    assert one is not None
    assert other is not None
    assert (one["jobs"] == other["jobs"]).all()
    assert (one["teacher"] == other["teacher"]).all()


def test_the_same_seed_gives_the_same_episodes_and_another_others() -> None:
    env, seen = playing(size=2), []
    for seed in (1, 2, 1):
        env.reset(seed=seed, mean_episode_s=np.inf)
        for _ in range(20):
            env.step(newest_first(env.observe()))
        seen.append(env.observe()["jobs"])
    assert (seen[0] == seen[2]).all()
    assert (seen[0] != seen[1]).any()


def test_threads_change_nothing() -> None:
    seen = []
    for threads in (1, 3):
        env = playing(size=4, teacher=RULE, threads=threads)
        env.reset(seed=4, mean_episode_s=np.inf)
        rewards = [env.step(newest_first(env.observe())).rewards for _ in range(60)]
        seen.append((np.array(rewards), env.observe()["teacher"]))
    assert (seen[0][0] == seen[1][0]).all()
    assert (seen[0][1] == seen[1][1]).all()


def test_what_was_shown_is_never_overwritten() -> None:
    env = playing()
    env.reset(seed=1, mean_episode_s=np.inf)
    shown = env.observe()
    kept = {name: one.copy() for name, one in shown.items()}
    for _ in range(5):
        env.step(newest_first(env.observe()))
    for name, one in kept.items():
        assert (shown[name] == one).all()


def test_episodes_end_at_random_times_the_same_within_a_group() -> None:
    env = playing(size=4, rollouts=2, teacher=RULE)
    env.reset(seed=5, mean_episode_s=4 * 3600)
    seconds, lengths = np.zeros(4), [[], [], [], []]
    for _ in range(400):
        shown = env.observe()
        answers = newest_first(shown)
        answers[::2] = shown["teacher"][::2]
        outcome = env.step(answers)
        seconds += outcome.elapsed_s
        for place in np.flatnonzero(outcome.ended):
            lengths[place].append(seconds[place])
            seconds[place] = 0.0
    few = min(len(lengths[0]), len(lengths[1]))
    assert few > 5
    # From the first question to the limit, unless all jobs were done before it.
    same = np.isclose(lengths[0][:few], lengths[1][:few], atol=0.01)
    assert same.mean() > 0.7
    assert 0.3 < np.mean(np.concatenate(lengths)) / (4 * 3600) < 1.5


def test_first_episodes_begin_at_different_moments() -> None:
    env = playing(size=6, staggered=True)
    env.reset(seed=1, mean_episode_s=np.inf)
    ages = env.observe()["jobs"][:, 0, 5]
    empty = env.observe()["machines"][..., 2].mean(1)
    assert (empty < 1).any()
    assert len(np.unique(ages)) > 1


def test_rollouts_of_a_workload_begin_as_one_and_part_by_what_they_decide() -> None:
    env = playing(size=6, rollouts=3, staggered=True, teacher=RULE)
    env.reset(seed=1, mean_episode_s=np.inf)
    shown = env.observe()
    for values in shown.values():
        assert (values[:3] == values[0]).all() and (values[3:] == values[3]).all()
    assert (shown["machines"][0] != shown["machines"][3]).any()
    answers = shown["teacher"].copy()
    answers[0, 0] = CHOICES.window  # hold
    env.step(answers)
    parted = env.observe()["machines"]
    assert (parted[0] != parted[1]).any() and (parted[1] == parted[2]).all()


def test_even_episodes_are_as_long_as_asked_for() -> None:
    env = playing(size=4, rollouts=2, staggered=True, teacher=RULE, even=True)
    env.reset(seed=5, mean_episode_s=3600)
    seconds, lengths = np.zeros(4), []
    for _ in range(60):
        outcome = env.step(env.observe()["teacher"])
        seconds += outcome.elapsed_s
        lengths += seconds[outcome.ended].tolist()
        seconds[outcome.ended] = 0
    assert len(lengths) > 8
    # The clock starts when the first job comes, or where the rule left off; the first question may be later.
    assert max(lengths) <= 3600 + 1e-3
    assert np.median(lengths) > 3000


def test_clusters_of_different_sizes_play_side_by_side() -> None:
    courses = [course(name) for name in ("das-small", "das-medium", "das-large")]
    env = RolloutEnvironment(courses, CHOICES, size=6, rule=RULE, rollouts=2, teacher=RULE, staggered=False)
    env.reset(seed=1, mean_episode_s=np.inf)
    for _ in range(10):
        shown = env.observe()
        assert shown["real"].sum(1).tolist() == [8, 8, 10, 10, 13, 13]
        env.step(shown["teacher"])


def test_the_published_reward_by_hand() -> None:
    """Two gangs of all 32 GPUs, one after the other: each round starts one and leaves none behind."""
    cluster = find_cluster("das-small").model_copy(update={"contention": 0.0})
    jobs = make_workload([0, 60_000], duration_ms=[600_000, 600_000], gpus=[32, 32])
    reward = Reward("paper", waiting=0.01)
    env = RolloutEnvironment([Course(cluster, lambda seed: jobs)], SCORES, size=1, rule=RULE, reward=reward)
    env.reset_to([0])
    assert env.observe()["waits"].sum() == 1
    answer = np.zeros((1, parts_of_action("scores", SCORES.window, 8)), np.float32)
    first = env.step(answer)
    second = env.step(answer)
    assert second.ended[0]
    # Each runs for 600 s at 0.7 of the speed; the second comes a minute later and waits for the first.
    run_ms = 600_000 / 0.7
    usual_ms, usual_fee = env.usual[0]
    assert usual_ms == pytest.approx(run_ms + (run_ms - 60_000) / 2, rel=1e-4)
    assert first.rewards[0] == pytest.approx(usual_ms / run_ms, rel=1e-4)
    assert second.rewards[0] == pytest.approx(usual_ms / (2 * run_ms - 60_000), rel=1e-4)
    assert usual_fee == pytest.approx(env.measured[0, 1])


def test_the_published_reward_counts_who_waits() -> None:
    cluster = find_cluster("das-small").model_copy(update={"contention": 0.0})
    jobs = make_workload([0, 60_000, 120_000], duration_ms=[600_000, 600_000, 60_000], gpus=[28, 32, 4])
    reward = Reward("paper", waiting=0.01)
    env = RolloutEnvironment([Course(cluster, lambda seed: jobs)], SCORES, size=1, rule=RULE, reward=reward)
    env.reset_to([0])
    window = SCORES.window
    answer = np.zeros((1, parts_of_action("scores", window, 8)), np.float32)
    env.step(answer)
    shown = env.observe()
    assert shown["waits"].sum() == 2
    assert shown["fits"][0, :2].tolist() == [False, True]
    usual_ms, usual_fee = env.usual[0]
    earned = env.step(answer).rewards[0]
    # Four GPUs on the last machine, which is slow, for 60 s / 0.7; the gang of 32 has waited for a minute.
    run_ms = 60_000 / 0.7
    fee = 4 * float(cluster.machine_table.price[0]) * run_ms / 3.6e6
    gain = usual_ms * usual_fee / (run_ms * fee)
    assert earned == pytest.approx((gain - 0.01 * 1 * 32) / 2, rel=1e-4)


def test_whoever_holds_for_ever_is_made_to_start_in_the_end() -> None:
    env = playing(size=1)

    def lazy(shown: Shown) -> np.ndarray:
        answers = newest_first(shown)
        answers[shown["may_hold"], 0] = CHOICES.window
        return answers

    played(env, [1], lazy)
    assert np.isfinite(env.measured).all()
    assert env.measured[0, 0] > 3 * env.usual[0, 0]


def test_it_holds_by_itself_where_nothing_fits() -> None:
    env = playing()
    env.reset(seed=2, mean_episode_s=np.inf)
    for _ in range(2 * JOBS):
        shown = env.observe()
        assert shown["fits"].any(1).all()
        env.step(newest_first(shown))


def test_compact_agents_teach_as_rules_do() -> None:
    gang = rule_of(first_numbers(preemptive=False, seed=0), no_experience(), preemptive=False)
    env, where = playing(teacher=gang, size=2), course()
    played(env, [1, 2], lambda shown: shown["teacher"])
    for place, seed in enumerate((1, 2)):
        episode = simulate(where.draw(seed), gang, where.cluster, seed=seed)
        assert env.measured[place, 0] == pytest.approx(episode.jct_ms.mean(), rel=1e-12)


def test_rollouts_show_what_is_seen_live_with_experience() -> None:
    """What is decided depends on what is expected of jobs alone."""
    design = Design(window=12, experienced=True)
    known = gathered([past_jobs(WorkloadSettings())])

    def shortest_first(shown: Shown) -> np.ndarray:
        expected = np.where(shown["fits"], shown["jobs"][..., JOB_FACTS.index("expected duration")], 99.0)
        answers = newest_first(shown)
        answers[:, 0] = expected.argmin(1)
        return answers

    env, where = playing(design, size=2, experience=known), course()
    played(env, [5, 6], shortest_first)
    for place, seed in enumerate((5, 6)):
        live = Live(design, shortest_first, machines=8, experience=known.row)
        episode = simulate(where.draw(seed), live, where.cluster, seed=seed)
        assert env.measured[place] == pytest.approx([episode.jct_ms.mean(), episode.fee.mean()], rel=1e-12)
    blind = [
        simulate(where.draw(seed), Live(design, shortest_first, machines=8), where.cluster, seed=seed)
        for seed in (5, 6)
    ]
    assert [one.jct_ms.mean() for one in blind] != pytest.approx(env.measured[:, 0], rel=1e-6)


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no experience"):
        playing(Design(experienced=True))
    with pytest.raises(SettingsError, match="5 environments cannot be split into groups of 2 on each of 1"):
        playing(size=5, rollouts=2)
    with pytest.raises(SettingsError, match="reward = paper counts whole rounds"):
        playing(reward=Reward("paper"))
    with pytest.raises(SettingsError, match="a rule makes choices, not scores"):
        playing(SCORES, teacher=RULE)
    with pytest.raises(SettingsError, match="stops running jobs"):
        playing(teacher=make_policy("las+fast"))
    with pytest.raises(SettingsError, match="needs durations"):
        playing(teacher=make_policy("sjf+fast"))
    with pytest.raises(SettingsError, match="3 seeds for 4 environments"):
        playing().reset_to([1, 2, 3])


def test_training_seeds_are_not_those_of_tests() -> None:
    drawn: list[int] = []
    where = course()

    def noting(seed: int) -> Workload:
        drawn.append(seed)
        return where.draw(seed)

    env = RolloutEnvironment([Course(where.cluster, noting)], CHOICES, size=8, rule=RULE, staggered=False)
    env.reset(seed=1, mean_episode_s=np.inf)
    assert len(set(drawn)) == 8
    assert max(drawn) < TRAINING_SEEDS


def test_new_networks_that_know_places_decide_as_the_compact_agents_begin() -> None:
    """The same job, or to hold, on the same machine, nearly always: what is left is rounding and ties."""
    design = Design(window=24, width=16, layers=1, experienced=True, places=True)
    experience = gathered([past_jobs(WorkloadSettings(jobs=300))])
    rule = rule_of(first_numbers(preemptive=False, seed=0), experience, preemptive=False)
    env = RolloutEnvironment([course()], design, size=8, rule=RULE, teacher=rule, experience=experience)
    env.reset(seed=1, mean_episode_s=np.inf)
    network, same, placed = new_network(design, 0), [], []
    for _ in range(60):
        shown = env.observe()
        labels = shown.pop("teacher")
        for row, label in enumerate(labels):
            view = View(*(values[row : row + 1] for values in shown.values()))
            choice, machines = best_choice(network, view, design)
            same.append(choice == label[0])
            if same[-1] and choice < design.window:
                placed.append(machines[0] == label[1])
        env.step(labels)
    assert np.mean(same) > 0.97
    assert np.mean(placed) > 0.97
