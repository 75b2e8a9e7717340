"""What proximal policy optimisation is told where a task is one of off-policy learning.

Networks, phases, times and exploration are told once, in `OffPolicySettings`, whoever learns; the numbers
that only this algorithm has are told here. Both make the `TrainingSettings` of the common training.
"""

import math

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Settings
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.settings import TrainingSettings

__all__ = ["PpoSettings", "refuse_meaningless", "training_settings"]

_SAME = (
    "anchor", "anchor_iterations", "iterations", "horizon", "reset_every", "validate_every",
    "checkpoint_every", "minutes",
)  # fmt: skip
"""What `TrainingSettings` has by the same name."""
_SHARED = (
    *_SAME, "hidden", "normalisation", "initialisation", "sees_privileged", "context", "context_size",
    "context_width", "context_state", "context_memory", "context_steps", "auxiliary_weight", "discount",
    "exploration", "final_exploration", "cloning_iterations",
)  # fmt: skip
"""What both ways of learning go by; the rest is about replays, several critics and their targets."""


class PpoSettings(Settings):
    """The numbers of proximal policy optimisation alone.

    >>> PpoSettings(clip=0.1).epochs
    10
    """

    epochs: int = Field(default=10, ge=1, le=100, description="Passes over the experience of one iteration.")
    minibatches: int = Field(
        default=8, ge=1, le=100_000, description="Parts of each pass; must divide horizon x environments."
    )
    learning_rate: float = Field(
        default=3e-4, gt=0, le=1, description="Step size of Adam at the first iteration."
    )
    final_learning_rate: float = Field(
        default=3e-5, ge=0, le=1, description="Step size right after the last iteration."
    )
    clip: float = Field(
        default=0.2, gt=0, lt=1, description="How far a probability ratio may move and still count."
    )
    target_kl: float = Field(
        default=0,
        ge=0,
        description="Stop the passes of an iteration once the policy moved this far; 0: never.",
    )
    smoothing: float = Field(
        default=0.9, ge=0, le=1, description="Lambda: 0 trusts the critic, 1 the rewards."
    )
    entropy: float = Field(
        default=1e-3, ge=0, description="Reward for staying undecided, at the first iteration."
    )
    final_entropy: float = Field(default=0, ge=0, description="The same right after the last iteration.")
    value_weight: float = Field(default=0.5, ge=0, description="Weight of the critic's error in the loss.")
    gradient_norm: float = Field(default=0.5, gt=0, description="Longer gradients are shortened to this.")


def refuse_meaningless(training: OffPolicySettings) -> None:
    """Refuse what was set and would not be looked at, and what this algorithm cannot do.

    >>> refuse_meaningless(OffPolicySettings(policy_delay=3))
    Traceback (most recent call last):
    trimtab.core.errors.SettingsError: training.policy_delay = 3 means nothing to PPO; leave it out
    """
    usual = OffPolicySettings()
    for name in OffPolicySettings.model_fields:
        value = getattr(training, name)
        if name not in _SHARED and value != getattr(usual, name):
            raise SettingsError(f"training.{name} = {value} means nothing to PPO; leave it out")
    if training.normalisation == "batch":
        raise SettingsError("training.normalisation = batch goes by replayed batches; use layer or none")
    if not training.discount or not training.final_exploration:
        name = "final_exploration" if training.discount else "discount"
        raise SettingsError(f"training.{name} = 0 leaves PPO nothing to learn from; set it above 0")


def training_settings(
    training: OffPolicySettings, ppo: PpoSettings, *, interval_s: float, seed: int
) -> TrainingSettings:
    """The settings of the common training; a step of the task takes `interval_s`.

    >>> both = OffPolicySettings(discount=0.9), PpoSettings()
    >>> round(training_settings(*both, interval_s=15, seed=0).discount_s)
    142
    """
    return TrainingSettings(
        **ppo.model_dump(),
        **{name: getattr(training, name) for name in _SAME},
        imitation_iterations=training.cloning_iterations,
        imitation_learning_rate=ppo.learning_rate,
        discount_s=-interval_s / math.log(training.discount),
        seed=seed,
    )
