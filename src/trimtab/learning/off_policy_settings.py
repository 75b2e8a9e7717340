"""Everything off-policy learning can be told, and what it then does at which iteration.

The defaults are ours (TD3). A run has up to three phases, each of so many iterations; what distinguishes ways
of learning is which phases it has, what it begins from and what it is given::

    from scratch           iterations
    from a log             cloning_iterations, then offline_iterations (TD3+BC); a log
    online continuation    begins from parameters; logged_share, anchor that fades; a log
    fine-tuning            begins from parameters, on a task with one environment, or with as many as members
    zero-shot              begins from parameters, updates_per_step = 0: the context fills, nothing is learned
"""

import math
from typing import Any, Literal, NamedTuple, TypeAlias

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Presets, Settings, model_validator
from trimtab.networks.actor_critic import ActorCriticDesign
from trimtab.networks.context_encoder import ContextDesign

__all__ = ["OFF_POLICY_PRESETS", "ActorWeights", "OffPolicySchedule", "OffPolicySettings"]

Phase: TypeAlias = Literal["cloning", "offline", "online"]


class ActorWeights(NamedTuple):
    """What an actor learns from: weights that may change in the course of a run (`td3.actor_loss`)."""

    worth: Any
    """Of the critic's opinion."""
    scaled: Any
    """1: that opinion divided by its mean size, 0: as it is."""
    cloning: Any
    """Of copying the guide, by the Huber loss."""
    guide: Any
    """Of the squared distance to the guide."""
    start: Any
    """Of the squared distance to what the actor would have done when it began."""


class OffPolicySchedule(NamedTuple):
    """What one iteration does: everything that changes in the course of a run."""

    phase: Phase
    weights: ActorWeights
    actor_moves: bool
    logged_share: float
    resets: bool
    exploration: float


class OffPolicySettings(Settings):
    """How to learn from replayed steps, whatever is learned.

    >>> settings = OffPolicySettings(iterations=10, cloning_iterations=5)
    >>> settings.schedule(0).phase, settings.schedule(5).phase
    ('cloning', 'online')
    """

    hidden: tuple[int, ...] = Field(
        default=(256, 256), min_length=1, max_length=8, description="Sizes of the hidden layers."
    )
    normalisation: Literal["layer", "batch", "none"] = Field(
        default="layer", description="Of hidden layers; batch: as FIRM has it."
    )
    output: Literal["tanh", "softmax"] = Field(
        default="tanh", description="Of the actor; softmax: shares that add up to 1, as in FIRM."
    )
    action_enters: int = Field(
        default=0, ge=0, le=7, description="Hidden layer of the critics that first sees the action."
    )
    critics: int = Field(default=2, ge=1, le=16, description="Critics; the least of their opinions counts.")
    initialisation: Literal["glorot", "firm"] = Field(
        default="glorot", description="How first weights are drawn."
    )
    sees_privileged: bool = Field(
        default=False, description="Whether critics see, in training, what only a simulator knows."
    )
    context: Literal["none", "gru", "bidirectional", "features"] = Field(
        default="none", description="Encoder of what the system did before; see networks.context_encoder."
    )
    context_size: int = Field(default=16, ge=1, le=1024, description="Numbers in a context.")
    context_width: int = Field(default=64, ge=1, le=4096, description="Size of a token after its layer.")
    context_state: int = Field(default=64, ge=1, le=4096, description="Size of the recurrent state.")
    context_memory: int = Field(
        default=256, ge=1, le=1_000_000, description="Steps after which a step counts 1/e."
    )
    context_steps: int = Field(
        default=64, ge=1, le=10_000, description="Steps before the trained ones that a replayed window has."
    )
    sequence_steps: int = Field(
        default=16, ge=1, le=10_000, description="Trained steps of a replayed window; must divide batch."
    )
    auxiliary_weight: float = Field(
        default=1.0, ge=0, description="Weight of predicting the true profile from the context; 0: no head."
    )
    frozen_encoder: bool = Field(default=False, description="Keep the context encoder as it is.")
    discount: float = Field(default=0.97, ge=0, lt=1, description="Worth of the next step's value now.")
    target_rate: float = Field(
        default=0.005, gt=0, le=1, description="How far targets move towards what they follow."
    )
    targets_apart: bool = Field(
        default=False, description="Draw targets on their own at first, as FIRM does; else they are copies."
    )
    target_noise: float = Field(default=0.2, ge=0, le=2, description="Blur of the next action.")
    target_noise_limit: float = Field(default=0.5, ge=0, le=2, description="The largest such blur.")
    policy_delay: int = Field(
        default=2, ge=1, le=100, description="Updates of the critics per update of actor and targets."
    )
    actor_learning_rate: float = Field(default=3e-4, gt=0, le=1, description="Step size of the actor.")
    critic_learning_rate: float = Field(
        default=3e-4, gt=0, le=1, description="Step size of critics and context encoder."
    )
    gradient_norm: float = Field(
        default=0, ge=0, description="Longer gradients are shortened to this; 0: never."
    )
    batch: int = Field(default=256, ge=1, le=1_000_000, description="Steps per update.")
    capacity: int = Field(
        default=1_000_000, ge=1, le=10**9, description="Steps a replay holds, of all environments together."
    )
    warmup: int = Field(
        default=1000, ge=1, le=10**9, description="Steps of its own a run gathers before it learns online."
    )
    random_steps: int = Field(
        default=0, ge=0, description="Steps of each environment at first with actions drawn evenly."
    )
    noise: Literal["normal", "walk"] = Field(
        default="normal", description="Exploration: each decision its own, or a walk (Ornstein-Uhlenbeck)."
    )
    exploration: float = Field(
        default=0.1, ge=0, le=2, description="At first: deviation of normal noise, factor on that of a walk."
    )
    final_exploration: float = Field(default=0.02, ge=0, le=2, description="The same at the end.")
    exploration_decay: float = Field(
        default=0, ge=0, le=1, description="Its fall per update; 0: evenly over the online iterations."
    )
    walk_pull: float = Field(default=0.15, ge=0, le=10, description="Pull of a walk towards 0.")
    walk_spread: float = Field(default=0.2, ge=0, le=10, description="Spread of a walk.")
    walk_step: float = Field(default=0.01, gt=0, le=1, description="Time that passes in a walk per decision.")
    clips_actions: bool = Field(
        default=True, description="Whether actions with noise are cut to [-1, 1]; FIRM's are not."
    )
    cloning_iterations: int = Field(default=0, ge=0, description="Iterations of copying the log's guide.")
    offline_iterations: int = Field(default=0, ge=0, description="Iterations of TD3+BC on the log.")
    iterations: int = Field(default=200, ge=0, le=10_000_000, description="Iterations online.")
    horizon: int = Field(
        default=40, ge=1, le=1_000_000, description="Steps of each environment per iteration."
    )
    updates_per_step: int = Field(
        default=8, ge=0, le=100_000, description="Updates after each step of all environments."
    )
    behaviour_alpha: float = Field(
        default=2.5, gt=0, description="Weight of worth against closeness to the log (TD3+BC)."
    )
    logged_share: float = Field(
        default=0.5, ge=0, le=1, description="Share of the log, where there is one, in online batches."
    )
    logged_iterations: int = Field(
        default=0, ge=0, description="Online iterations with that share, then none; 0: all."
    )
    anchor: float = Field(
        default=0, ge=0, description="Weight of the squared distance to what the actor is held to, online."
    )
    anchor_to: Literal["teacher", "start"] = Field(
        default="teacher", description="Held to the teacher's actions, or to the actor a run began with."
    )
    anchor_iterations: int = Field(
        default=0, ge=0, description="Online iterations until that weight has fallen to 0; 0: it stays."
    )
    held_iterations: int = Field(
        default=0, ge=0, description="Online iterations in which the actor rests until critics are sure."
    )
    members: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Learners side by side, each with parameters and a share of the environments of its own.",
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
    minutes: float = Field(
        default=0, ge=0, description="Stop at the first checkpoint after this long; 0: run to the end."
    )

    @model_validator(mode="after")
    def _combinations(self) -> "OffPolicySettings":
        if self.checkpoint_every % self.reset_every:
            raise ValueError(
                f"checkpoint_every = {self.checkpoint_every} is no multiple of reset_every = "
                f"{self.reset_every}, and only there a run can be continued exactly; change one of them"
            )
        if self.total_iterations == 0:
            raise ValueError("there are no iterations of any phase; nothing would be done")
        if self.needs_log and not self.updates_per_step:
            raise ValueError("updates_per_step = 0 learns nothing, and a log is only learned from; raise it")
        if self.context != "none" and self.batch % self.sequence_steps:
            raise ValueError(
                f"sequence_steps = {self.sequence_steps} does not divide batch = {self.batch}; "
                "choose a divisor"
            )
        if self.final_exploration > self.exploration:
            raise ValueError(
                f"final_exploration = {self.final_exploration} is more than exploration = "
                f"{self.exploration}; lower it"
            )
        if self.learns_online and self.warmup > self.capacity:
            raise ValueError(
                f"warmup = {self.warmup} is more than capacity = {self.capacity}; no step would be learned "
                "from; lower warmup or raise capacity"
            )
        return self

    @property
    def total_iterations(self) -> int:
        """All phases together."""
        return self.cloning_iterations + self.offline_iterations + self.iterations

    @property
    def learns_online(self) -> bool:
        """Whether anything is learned while playing."""
        return self.iterations > 0 and self.updates_per_step > 0

    @property
    def steps_at_once(self) -> int:
        """Consecutive steps that are learned from together: only contexts need more than one."""
        return 1 if self.context == "none" else self.sequence_steps

    @property
    def needs_log(self) -> bool:
        """Whether some phase learns from a log alone."""
        return self.cloning_iterations + self.offline_iterations > 0

    def check_environments(self, environments: int) -> None:
        """Refuse so many environments as cannot be shared out or remembered, before anything is played."""
        if environments % self.members:
            raise SettingsError(
                f"members = {self.members} cannot share {environments} environments evenly; choose a divisor"
            )
        kept = self.capacity // environments
        needed = max(self.steps_at_once, math.ceil(self.warmup / environments))
        if self.learns_online and kept < needed:
            raise SettingsError(
                f"capacity = {self.capacity} keeps {kept} steps of each of {environments} environments, and "
                f"learning (warmup = {self.warmup}, {self.steps_at_once} steps at once) needs {needed}; "
                "raise capacity"
            )

    def actor_critic(self, *, observation: int, actions: int, privileged: int) -> ActorCriticDesign:
        """The networks for a task of these sizes."""
        return ActorCriticDesign(
            observation,
            actions,
            context=0 if self.context == "none" else self.context_size,
            privileged=privileged if self.sees_privileged else 0,
            hidden=self.hidden,
            normalisation=self.normalisation,
            output=self.output,
            action_enters=self.action_enters,
            critics=self.critics,
            initialisation=self.initialisation,
        )

    def context_encoder(self, *, token: int, privileged: int) -> ContextDesign | None:
        """The context encoder for a task of these sizes, if one is wanted."""
        if self.context == "none":
            return None
        return ContextDesign(
            token,
            kind=self.context,
            width=self.context_width,
            state=self.context_state,
            embedding=self.context_size,
            profile=privileged if self.auxiliary_weight else 0,
            window=self.context_steps,
            memory=self.context_memory,
        )

    def schedule(self, iteration: int, updates: int = 0) -> OffPolicySchedule:
        """Say what iteration number `iteration` does, after so many updates."""
        number = iteration - self.cloning_iterations - self.offline_iterations
        phase: Phase = (
            "online" if number >= 0 else "cloning" if iteration < self.cloning_iterations else "offline"
        )
        fading = max(0.0, 1 - number / self.anchor_iterations) if self.anchor_iterations else 1.0
        anchor = self.anchor * fading
        to_guide, to_start = (anchor, 0.0) if self.anchor_to == "teacher" else (0.0, anchor)
        weights = {
            "cloning": ActorWeights(0.0, 0.0, 1.0, 0.0, 0.0),
            "offline": ActorWeights(self.behaviour_alpha, 1.0, 0.0, 1.0, 0.0),
            # Something to hold on to needs worth in a size that does not depend on rewards.
            "online": ActorWeights(1.0, float(self.anchor > 0), 0.0, to_guide, to_start),
        }
        logged = not self.logged_iterations or number < self.logged_iterations
        return OffPolicySchedule(
            phase=phase,
            weights=weights[phase],
            actor_moves=phase != "online" or number >= self.held_iterations,
            logged_share=(self.logged_share if logged else 0.0) if phase == "online" else 1.0,
            resets=iteration % self.reset_every == 0 or number == 0,
            exploration=self._exploration(max(number, 0), updates),
        )

    def _exploration(self, number: int, updates: int) -> float:
        if self.exploration_decay:
            return max(self.final_exploration, self.exploration - self.exploration_decay * updates)
        # Learners on live services go on for longer than that.
        gone = min(number / max(1, self.iterations), 1.0)
        return self.exploration + gone * (self.final_exploration - self.exploration)


OFF_POLICY_PRESETS = Presets("trimtab.learning", OffPolicySettings)
"""``td3`` (ours) and ``firm`` (DDPG exactly as FIRM has it)."""
