import numpy as np
import pytest
from benchmarks.load_balance import MEAN_GAP_S, RATES, LoadBalance, gradient_variance

from trimtab.core.environment import BatchEnvironment


def play(field: LoadBalance, servers: np.ndarray) -> dict[str, np.ndarray]:
    """One whole episode with given choices; sizes, times, rewards and seconds, each [jobs, size]."""
    rows = []
    for server in servers:
        seen = field.observe()
        outcome = field.step(np.full((field.size, 1), server))
        rows.append(
            (np.exp(seen["features"][:, 0]) * 100, seen["time_s"], outcome.rewards, outcome.elapsed_s)
        )
    assert outcome.ended.all()
    return dict(
        zip(("sizes", "times", "rewards", "seconds"), map(np.array, zip(*rows, strict=True)), strict=True)
    )


def test_rewards_sum_to_minus_the_time_jobs_spend() -> None:
    """Served one after the other in order of arrival, each job's completion time is known at once."""
    field = LoadBalance(size=3, rollouts=1, jobs=20)
    assert isinstance(field, BatchEnvironment)
    field.reset(5, np.inf)
    servers = np.arange(20) // 3 % 2
    played = play(field, servers)
    for one in range(3):
        free, spent = np.zeros(2), 0.0
        for server, size, now in zip(servers, played["sizes"][:, one], played["times"][:, one], strict=True):
            free[server] = max(free[server], now) + size / RATES[server]
            spent += free[server] - now
        assert played["rewards"][:, one].sum() == pytest.approx(-spent, rel=1e-4)
        assert played["seconds"][:, one].sum() == pytest.approx(free.max(), rel=1e-4)


def test_rollouts_of_a_group_meet_the_same_jobs_again_in_the_next_episode_other_ones() -> None:
    field = LoadBalance(size=4, rollouts=2, jobs=300)
    field.reset(1, np.inf)
    first, second = play(field, np.zeros(300, int)), play(field, np.ones(300, int))
    for played in (first, second):
        np.testing.assert_array_equal(played["sizes"][:, 0], played["sizes"][:, 1])
        assert not np.isin(played["sizes"][:, 0], played["sizes"][:, 2]).any()
    assert not np.isin(first["sizes"], second["sizes"]).any()
    # 1,196 different gaps: five standard errors are 14 %.
    assert np.diff(first["times"], axis=0).mean() == pytest.approx(MEAN_GAP_S, rel=0.2)
    assert first["sizes"].min() >= 100


def test_fixed_workloads_come_back() -> None:
    field = LoadBalance(size=40, rollouts=1, jobs=2, sequences=3)
    field.reset(1, np.inf)
    seen = field.observe()
    assert sorted(set(seen["sequence"].tolist())) == [0, 1, 2]
    assert len(np.unique(seen["features"][:, 0])) == 3


def test_random_ends_are_shared_by_a_group() -> None:
    field = LoadBalance(size=60, rollouts=2, jobs=1000)
    field.reset(3, mean_episode_s=500.0)
    ages = np.zeros(60)
    lengths = []
    for number in range(400):
        field.observe()
        outcome = field.step(np.full((60, 1), number % 2))
        ages += outcome.elapsed_s
        np.testing.assert_array_equal(outcome.ended[0::2], outcome.ended[1::2])
        lengths += ages[outcome.ended].tolist()
        ages[outcome.ended] = 0
    assert np.mean(lengths) == pytest.approx(500, rel=0.1)


def test_knowing_the_input_takes_most_of_the_noise_out_of_the_gradient() -> None:
    """Pooled over two batches, since one giant job can decide a single one."""
    sizes = {"groups": 32, "rollouts": 8, "jobs": 64}
    blind = sum(gradient_variance("state_value", **sizes, warm_up=8, seed=seed) for seed in range(2))
    knowing = sum(gradient_variance("same_sequence", **sizes, seed=seed) for seed in range(2))
    assert knowing <= blind / 5
