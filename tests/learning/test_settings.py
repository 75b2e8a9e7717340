import math
from pathlib import Path
from typing import Any

import pytest

from trimtab.core.errors import SettingsError
from trimtab.core.settings import load_settings, settings_as_toml
from trimtab.learning.settings import TrainingSettings


def test_rates_move_from_first_to_final_value() -> None:
    settings = TrainingSettings(iterations=100, learning_rate=0.4, final_learning_rate=0.2, entropy=1.0)
    assert [settings.schedule(at).learning_rate for at in (0, 50, 75)] == pytest.approx([0.4, 0.3, 0.25])
    assert settings.schedule(25).entropy == pytest.approx(0.75)
    cosine = settings.model_copy(update={"decay": "cosine"})
    assert [cosine.schedule(at).learning_rate for at in (0, 50)] == pytest.approx([0.4, 0.3])
    # A third of the way, half of (1 - cos 60 degrees) = 1/4 of the fall is done.
    assert cosine.model_copy(update={"iterations": 150}).schedule(50).learning_rate == pytest.approx(0.35)


def test_whoever_falls_to_nothing_still_learns_at_the_last_iteration() -> None:
    settings = TrainingSettings(iterations=100, learning_rate=0.4, final_learning_rate=0, entropy=1.0)
    assert settings.schedule(99).learning_rate == pytest.approx(0.004)
    assert settings.schedule(99).entropy == pytest.approx(0.01)


def test_after_copying_the_step_size_grows_at_first() -> None:
    settings = TrainingSettings(
        iterations=1000,
        imitation_iterations=2,
        learning_rate=0.4,
        final_learning_rate=0.4,
        warmup_iterations=3,
    )
    rates = [settings.schedule(at).learning_rate for at in (2, 3, 4, 5, 6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])


def test_the_average_is_a_plain_mean_at_first() -> None:
    settings = TrainingSettings(imitation_iterations=5, iterations=100, averaging=0.9)
    kept = [settings.schedule(iteration).averaging for iteration in range(105)]
    assert kept[:6] == [0.0] * 6  # nothing of the copying is kept
    assert kept[6:8] == [1 / 2, 2 / 3]
    assert kept[-1] == 0.9
    assert TrainingSettings().schedule(100).averaging == 0.0


def test_copying_comes_first_and_has_its_own_rate() -> None:
    settings = TrainingSettings(
        iterations=100,
        imitation_iterations=20,
        imitation_learning_rate=0.7,
        learning_rate=0.4,
        final_learning_rate=0.2,
        teacher_share=0.5,
        anchor=2.0,
        anchor_iterations=10,
    )
    assert settings.total_iterations == 120
    copying, middle, own = (settings.schedule(at) for at in (0, 10, 20))
    assert copying.imitating and middle.imitating and not own.imitating
    assert (copying.learning_rate, own.learning_rate) == (0.7, 0.4)
    assert [one.teacher_share for one in (copying, middle, own)] == [0.5, 0.25, 0]
    assert [settings.schedule(at).anchor for at in (20, 25, 30, 119)] == [2.0, 1.0, 0, 0]
    assert middle.learning_rate == 0.7  # it stays, unless it is told to fall
    falling = settings.model_copy(update={"final_imitation_learning_rate": 0.1})
    assert [falling.schedule(at).learning_rate for at in (0, 10, 20)] == pytest.approx([0.7, 0.4, 0.4])
    cosine = falling.model_copy(update={"decay": "cosine"})
    assert [cosine.schedule(at).learning_rate for at in (10, 15)] == pytest.approx([0.4, 0.188], abs=1e-3)


def test_episodes_grow_at_restarts_only() -> None:
    settings = TrainingSettings(
        mean_episode_s=100, final_mean_episode_s=1000, episode_growth=30, reset_every=10
    )
    assert [settings.schedule(at).mean_episode_s for at in (0, 9, 10, 15, 29, 30, 99)] == pytest.approx(
        [100, 100, 400, 400, 700, 1000, 1000]
    )
    assert [at for at in range(25) if settings.schedule(at).resets] == [0, 10, 20]


def test_no_limit_is_infinite() -> None:
    assert TrainingSettings().schedule(0).mean_episode_s == math.inf
    assert TrainingSettings().discount_time_s == math.inf
    growing = TrainingSettings(mean_episode_s=100, episode_growth=30, reset_every=10)
    means = [growing.schedule(at).mean_episode_s for at in (0, 10, 20, 30)]
    assert means[0] == 100 and means[0] < means[1] < means[2] < means[3] == math.inf


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"checkpoint_every": 15}, "checkpoint_every = 15 is no multiple of reset_every = 10"),
        ({"algorithm": "reinforce"}, "reinforce plays whole episodes.*set reset_every = 1, not 10"),
        ({"baseline": "meta"}, "baseline = meta plays whole episodes"),
        ({"iterations": 0}, "nothing would be trained"),
        ({"episode_growth": 10}, "nothing to grow from"),
        (
            {"mean_episode_s": 10, "final_mean_episode_s": 100},
            "final_mean_episode_s without episode_growth: .*; set episode_growth",
        ),
        (
            {"algorithm": "reinforce", "reset_every": 1, "target_kl": 0.1},
            "target_kl belongs to algorithm = ppo; set target_kl = 0, or use ppo",
        ),
        (
            {"algorithm": "weighing", "baseline": "foreseen", "target_kl": 0.1},
            "target_kl belongs to algorithm = ppo",
        ),
        (
            {"algorithm": "natural"},
            "natural steps by what changes decisions, which teaches no critic; choose",
        ),
        (
            {"algorithm": "natural", "baseline": "same_sequence", "reset_every": 1},
            "steps of another unit than Adam's; set learning_rate",
        ),
        ({"clip": 1.5}, r"clip = 1.5: .*less than 1"),
        ({"baseline": "critics"}, 'baseline = "critics"'),
        ({"learning_rat": 0.1}, "did you mean 'learning_rate'"),
    ],
)
def test_bad_combinations_are_refused_in_one_line(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        load_settings(TrainingSettings, None, wrong)
    assert "\n" not in str(refused.value)


def test_settings_survive_the_run_folder(tmp_path: Path) -> None:
    settings = TrainingSettings(baseline="meta", reset_every=1, discount_s=30, seed=2**62)
    path = tmp_path / "settings.toml"
    path.write_text(settings_as_toml(settings))
    assert load_settings(TrainingSettings, path) == settings


def test_batches_divide_wherever_the_horizon_is_fixed() -> None:
    with pytest.raises(SettingsError, match="choose a divisor"):
        TrainingSettings(horizon=10, minibatches=4).check_batch(3)
    TrainingSettings(horizon=10, minibatches=4).check_batch(2)
    # Whole episodes come in any number, and are filled up with rows that do not count.
    TrainingSettings(horizon=10, minibatches=4, baseline="none", reset_every=1).check_batch(3)
