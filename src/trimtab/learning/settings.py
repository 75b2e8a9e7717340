"""Everything a training run can be told, and what it then does at which iteration."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["BaselineName", "Schedule", "TrainingSettings", "board_module", "check_lessons_from"]

BaselineName: TypeAlias = Literal[
    "critic",
    "foreseen",
    "none",
    "state_value",
    "same_sequence",
    "same_sequence_value",
    "multi_value",
    "meta",
]


class Schedule(NamedTuple):
    """What one iteration does: everything that changes in the course of a run."""

    imitating: bool
    learning_rate: float
    averaging: float
    entropy: float
    anchor: float
    teacher_share: float
    resets: bool
    mean_episode_s: float


class TrainingSettings(Settings):
    """How to train, whatever is trained.

    >>> settings = TrainingSettings(iterations=100, learning_rate=1e-3, final_learning_rate=0)
    >>> round(settings.schedule(50).learning_rate, 6)
    0.0005
    """

    algorithm: Literal["ppo", "reinforce", "natural", "weighing"] = Field(
        default="ppo",
        description="ppo: several clipped steps per iteration; reinforce: one step on whole episodes; "
        "natural: one step along the natural gradient, averaged over iterations, where luck is large; "
        "weighing: from what several actions would have earned, where the task looks ahead for each.",
    )
    iterations: int = Field(
        default=200, ge=0, le=10_000_000, description="Iterations of reinforcement learning."
    )
    horizon: int = Field(
        default=128,
        ge=1,
        le=1_000_000,
        description="Decisions per environment and iteration (reinforce: at most).",
    )
    epochs: int = Field(default=2, ge=1, le=100, description="Passes over the experience of one iteration.")
    minibatches: int = Field(
        default=8, ge=1, le=100_000, description="Parts of each pass; must divide horizon x environments."
    )
    learning_rate: float = Field(
        default=3e-4,
        gt=0,
        le=1,
        description="Step size of Adam at the first iteration; natural: how far each step moves the policy, "
        "as the root of twice the divergence (0.1: by 0.005).",
    )
    final_learning_rate: float = Field(
        default=3e-5, ge=0, le=1, description="Step size right after the last iteration."
    )
    warmup_iterations: int = Field(
        default=0, ge=0, description="Iterations in which the step size grows from near 0, after copying."
    )
    decay: Literal["linear", "cosine"] = Field(
        default="linear",
        description="How the step size and the entropy bonus move from first to final value.",
    )
    clip: float = Field(
        default=0.2, gt=0, lt=1, description="How far a probability ratio may move and still count."
    )
    value_clip: float = Field(
        default=0, ge=0, description="The same for the critic, in scaled returns; 0: free."
    )
    target_kl: float = Field(
        default=0,
        ge=0,
        description="Stop the passes of an iteration once the policy moved this far; 0: never.",
    )
    damping: float = Field(
        default=1,
        gt=0,
        description="natural: how much steps avoid what hardly changes decisions (near 0: not at all, large: "
        "the plain gradient). Raised within an iteration where its step would move the policy too far.",
    )
    scored: int = Field(
        default=4096,
        ge=1,
        le=10_000_000,
        description="natural: decisions by which steps are measured; each needs the memory of a gradient.",
    )
    smoothing: float = Field(
        default=0.95, ge=0, le=1, description="Lambda: 0 trusts the critic, 1 the rewards."
    )
    discount_s: float = Field(
        default=0, ge=0, description="Seconds after which a reward counts 1/e; 0: never less."
    )
    differential: bool = Field(
        default=False, description="Subtract the average reward per second: for systems that never finish."
    )
    average_over: int = Field(
        default=100_000, ge=1, description="Decisions over which that average is taken, roughly."
    )
    scale_rewards: bool = Field(
        default=True, description="Divide rewards by the running deviation of their sums."
    )
    normalise_advantages: bool = Field(
        default=True, description="Bring advantages to deviation 1 in each iteration."
    )
    advantage_clip: float = Field(
        default=0, ge=0, description="Cut advantages at so many mean absolute ones; 0: do not."
    )
    entropy: float = Field(
        default=0.01, ge=0, description="Reward for staying undecided, at the first iteration."
    )
    final_entropy: float = Field(default=0, ge=0, description="The same right after the last iteration.")
    averaging: float = Field(
        default=0,
        ge=0,
        lt=1,
        description="Score and keep an average of the parameters that forgets so slowly; 0: the latest.",
    )
    anchor: float = Field(
        default=0, ge=0, description="Weight of agreeing with the teacher; needs a task with a teacher."
    )
    anchor_iterations: int = Field(
        default=0, ge=0, description="Iterations until that weight has fallen to 0; 0: it stays."
    )
    imitation_iterations: int = Field(
        default=0, ge=0, description="Iterations of copying the teacher beforehand."
    )
    imitation_learning_rate: float = Field(default=1e-3, gt=0, le=1, description="Step size while copying.")
    final_imitation_learning_rate: float = Field(
        default=0, ge=0, le=1, description="The same right after the last such iteration; 0: it stays."
    )
    teacher_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Decisions the teacher carries out at first; falls to 0 while copying.",
    )
    doubt: float = Field(
        default=1,
        gt=0,
        le=1,
        description="Factor on scores when reinforcement begins: a copy too sure of itself tries nothing.",
    )
    value_weight: float = Field(default=0.5, ge=0, description="Weight of the critic's error in the loss.")
    gradient_norm: float = Field(default=1.0, gt=0, description="Longer gradients are shortened to this.")
    baseline: BaselineName = Field(default="critic", description="What advantages are measured against.")
    baseline_learning_rate: float = Field(
        default=1e-3,
        gt=0,
        le=1,
        description="Step size of the value networks of a baseline that has its own.",
    )
    baseline_steps: int = Field(
        default=10, ge=1, le=10_000, description="Their gradient steps per iteration."
    )
    sequences: int = Field(
        default=10, ge=1, le=10_000, description="Fixed workloads that multi_value keeps a network for each."
    )
    adaptation_rate: float = Field(
        default=0.1,
        gt=0,
        le=10,
        description="Step size with which meta adapts to a workload's first rollouts.",
    )
    mean_episode_s: float = Field(
        default=0,
        ge=0,
        description="Mean of the random, memoryless length of episodes at first; 0: no limit.",
    )
    final_mean_episode_s: float = Field(
        default=0, ge=0, description="The same after `episode_growth` iterations; 0: no limit from then on."
    )
    episode_growth: int = Field(
        default=0, ge=0, description="Iterations in which episodes grow; 0: they do not."
    )
    reset_every: int = Field(
        default=10, ge=1, description="Iterations between restarts of all environments; checkpoints need one."
    )
    validate_every: int = Field(
        default=10, ge=1, description="Iterations between scores on validation workloads."
    )
    checkpoint_every: int = Field(
        default=10, ge=1, description="Iterations between checkpoints; a multiple of reset_every."
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of everything random.")
    minutes: float = Field(
        default=0, ge=0, description="Stop at the first checkpoint after this long; 0: run to the end."
    )
    tensorboard: bool = Field(default=False, description="Also write TensorBoard files (needs tensorboardX).")

    @model_validator(mode="after")
    def _combinations(self) -> "TrainingSettings":
        if self.checkpoint_every % self.reset_every:
            raise ValueError(
                f"checkpoint_every = {self.checkpoint_every} is no multiple of reset_every = "
                f"{self.reset_every}, and only there a run can be continued exactly; change one of them"
            )
        if self.whole_episodes and self.reset_every != 1:
            which = "reinforce" if self.algorithm == "reinforce" else f"baseline = {self.baseline}"
            raise ValueError(
                f"{which} plays whole episodes, which all begin with the iteration; "
                f"set reset_every = 1, not {self.reset_every}"
            )
        if self.algorithm != "ppo" and self.anchor:
            raise ValueError("anchor belongs to algorithm = ppo; set anchor = 0, or use ppo")
        if self.algorithm != "ppo" and self.target_kl:
            raise ValueError("target_kl belongs to algorithm = ppo; set target_kl = 0, or use ppo")
        if self.algorithm == "natural" and self.baseline == "critic":
            raise ValueError(
                "algorithm = natural steps by what changes decisions, which teaches no critic; "
                "choose another baseline, such as same_sequence"
            )
        if self.algorithm == "natural" and "learning_rate" not in self.model_fields_set:
            raise ValueError(
                "algorithm = natural has steps of another unit than Adam's; set learning_rate (usual: 0.1)"
            )
        if self.algorithm == "weighing" and self.baseline != "foreseen":
            raise ValueError(
                f"algorithm = weighing judges actions by looking ahead; set baseline = foreseen, not "
                f"{self.baseline}"
            )
        if self.iterations + self.imitation_iterations == 0:
            raise ValueError("iterations and imitation_iterations are both 0; nothing would be trained")
        if self.episode_growth and not self.mean_episode_s:
            raise ValueError(
                "episode_growth without mean_episode_s: nothing to grow from; set mean_episode_s"
            )
        if self.final_mean_episode_s and not self.episode_growth:
            raise ValueError(
                "final_mean_episode_s without episode_growth: episodes never grow; set episode_growth"
            )
        return self

    @property
    def total_iterations(self) -> int:
        """Copying and reinforcement together."""
        return self.imitation_iterations + self.iterations

    @property
    def whole_episodes(self) -> bool:
        """Whether returns must reach to the end: a critic or a foresight stands in for what lies beyond."""
        return self.algorithm == "reinforce" or self.baseline not in ("critic", "foreseen")

    @property
    def discount_time_s(self) -> float:
        """The discount as arithmetic wants it: infinite where nothing is discounted."""
        return self.discount_s or math.inf

    def check_batch(self, environments: int) -> None:
        """Refuse a batch that does not divide, before anything is played."""
        decisions = self.horizon * environments
        fixed = self.imitation_iterations > 0 or not self.whole_episodes
        if fixed and decisions % self.minibatches:
            raise SettingsError(
                f"minibatches = {self.minibatches} does not divide horizon x environments = "
                f"{self.horizon} x {environments} = {decisions}; choose a divisor"
            )

    def check_lessons(self) -> None:
        """Refuse what does not go with lessons, before hours are spent on collecting them."""
        if self.algorithm != "weighing" or self.imitation_iterations:
            raise SettingsError("lessons are learned from by algorithm = weighing alone, without imitation")
        if self.doubt < 1:
            raise SettingsError(
                f"doubt = {self.doubt:g} makes an agent try more, and with lessons none plays; set doubt = 1"
            )

    def check_board(self) -> None:
        """Refuse TensorBoard files without the package that writes them, before anything is done."""
        if self.tensorboard:
            board_module()

    def schedule(self, iteration: int) -> Schedule:
        """Say what iteration number `iteration` does; copying comes first and counts too."""
        imitating = iteration < self.imitation_iterations
        number = iteration - self.imitation_iterations
        gone = 0.0 if imitating else self._decayed(number, self.iterations)
        rate = self.learning_rate + gone * (self.final_learning_rate - self.learning_rate)
        # Adam's first steps are as long as its step size, whatever the gradient: a copy would be forgotten.
        rate *= min(1.0, (max(0, number) + 1) / (self.warmup_iterations + 1))
        fading = max(0.0, 1 - max(0, number) / self.anchor_iterations) if self.anchor_iterations else 1.0
        last_reset = iteration - iteration % self.reset_every
        return Schedule(
            imitating=imitating,
            learning_rate=self._copying_rate(iteration) if imitating else rate,
            # A plain mean until it has become as long as wanted.
            averaging=0.0 if imitating else min(self.averaging, number / (number + 1)),
            entropy=self.entropy + gone * (self.final_entropy - self.entropy),
            anchor=self.anchor * fading,
            teacher_share=self.teacher_share * max(0.0, 1 - iteration / max(1, self.imitation_iterations)),
            resets=iteration in (last_reset, self.imitation_iterations),
            mean_episode_s=self._mean_episode_s(last_reset),
        )

    def _decayed(self, iteration: int, iterations: int) -> float:
        """Which share of a fall, in the form that is wanted, lies behind."""
        gone = iteration / max(1, iterations)
        return 0.5 - 0.5 * math.cos(math.pi * gone) if self.decay == "cosine" else gone

    def _copying_rate(self, iteration: int) -> float:
        first = self.imitation_learning_rate
        last = self.final_imitation_learning_rate or first
        return first + self._decayed(iteration, self.imitation_iterations) * (last - first)

    def _mean_episode_s(self, iteration: int) -> float:
        if not self.mean_episode_s:
            return math.inf
        if not self.episode_growth:
            return self.mean_episode_s
        gone = iteration / self.episode_growth
        if gone >= 1:
            return self.final_mean_episode_s or math.inf
        # Growing towards "no limit" passes through twice, three times ... the first mean.
        final = self.final_mean_episode_s or self.mean_episode_s / (1 - gone)
        return self.mean_episode_s + gone * (final - self.mean_episode_s)


def board_module() -> Any:
    """The package that writes TensorBoard files, which need not be there."""
    try:
        return import_module("tensorboardX")
    except ImportError:
        raise SettingsError(
            "tensorboard = true needs the package tensorboardX; install it, or turn this off"
        ) from None


def check_lessons_from(folder: str, lessons: int) -> None:
    """Refuse a folder of earlier lessons that is not there, or from which nothing would be learned."""
    if folder and not lessons:
        raise SettingsError(f"lessons_from = {folder} without lessons; set lessons too")
    if folder and not Path(folder).is_dir():
        raise SettingsError(f"lessons_from = {folder}: no such folder; leave it out to collect")
