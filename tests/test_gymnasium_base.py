"""What all environments do alike: actions that are none or not allowed, and life without gymnasium."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces

from trimtab.core.errors import ActionError
from trimtab.gymnasium_base.actions import action_inside, checked_action

DISCRETE = spaces.Discrete(7)
PARTS = spaces.MultiDiscrete([3, 5])
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize("space", [DISCRETE, PARTS, BOX])
def test_every_action_of_a_space_is_taken_as_it_is(space: spaces.Space) -> None:
    for _ in range(20):
        action = space.sample()
        taken = checked_action(space, action)
        assert taken in space
        np.testing.assert_array_equal(taken, action)


def test_plain_numbers_and_other_precisions_are_taken() -> None:
    assert checked_action(DISCRETE, 6) == 6
    assert checked_action(PARTS, (2, 4)).tolist() == [2, 4]
    assert checked_action(BOX, np.array([[0.5, -1.0]])).tolist() == [0.5, -1.0]
    assert checked_action(BOX, [0, 1]).dtype == np.float32


@pytest.mark.parametrize(
    ("space", "action", "said"),
    [
        (DISCRETE, 7, "action = 7; it must be 0 to 6"),
        (DISCRETE, -1, "action = -1; it must be 0 to 6"),
        (DISCRETE, 1.0, r"type float64 and shape \(\); give 1 whole number\(s\)"),
        (DISCRETE, True, r"type bool and shape \(\); give 1 whole number\(s\)"),
        (PARTS, [2, 5], r"action\[1\] = 5; it must be 0 to 4"),
        (PARTS, [2], r"shape \(1,\); give 2 whole number\(s\)"),
        (PARTS, [2, 2**70], r"type object and shape \(2,\); give 2 whole number\(s\)"),
        (BOX, [0.0, 1.5], r"action\[1\] = 1.5; it must be -1 to 1"),
        (BOX, [np.nan, 0.0], r"action\[0\] = nan; it must be -1 to 1"),
        (BOX, ["a", "b"], r"type <U1 and shape \(2,\); give 2 number\(s\)"),
    ],
)
def test_what_is_no_action_is_refused_in_one_line(space: spaces.Space, action: object, said: str) -> None:
    with pytest.raises(ActionError, match=said) as refused:
        checked_action(space, action)  # pyright: ignore[reportArgumentType]
    assert "\n" not in str(refused.value)


def test_an_action_outside_the_mask_is_refused_or_the_nearest_inside_is_taken() -> None:
    mask = np.array([0, 1, 0, 0, 0, 1, 0], np.int8)
    assert [action_inside(mask, action, "nearest") for action in range(7)] == [1, 1, 1, 1, 5, 5, 5]
    for action in (1, 5):
        assert action_inside(mask, action, "raise") == action
    said = r"here: action 4 is outside the mask; 2 are inside, such as \[1, 5\]: see info\['action_mask'\]"
    with pytest.raises(ActionError, match=f"^{said}$"):
        action_inside(mask, 4, "raise", where="here: ")


@pytest.mark.parametrize("wing", ["stream_autoscaling", "pod_autoscaling", "gpu_scheduling"])
def test_without_gymnasium_the_import_says_what_to_install(wing: str) -> None:
    code = f"""import sys
sys.modules["gymnasium"] = None
import trimtab.{wing} as wing
wing.simulate
import trimtab.{wing}.gymnasium_env"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last == "ImportError: gymnasium is not installed; in the checkout of trimtab, pip install '.[gym]'"


def test_an_import_registers_nothing() -> None:
    code = """import gymnasium
before = set(gymnasium.registry)
import trimtab.gpu_scheduling.gymnasium_env as gpus
import trimtab.pod_autoscaling.gymnasium_env as pods, trimtab.stream_autoscaling.gymnasium_env as streams
assert set(gymnasium.registry) == before
assert gpus.register() == gpus.register()
assert pods.register() == pods.register()
assert streams.register() == streams.register()
assert set(gymnasium.registry) - before == {gpus.ENV_ID, pods.ENV_ID, streams.ENV_ID}"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
