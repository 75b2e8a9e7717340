"""What a learned autoscaler of services is made of; stored in the manifest of its bundle."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from trimtab.networks.actor_critic import ActorCriticDesign
from trimtab.networks.context_encoder import ContextDesign
from trimtab.pod_autoscaling.heuristics.multi import multi

__all__ = ["ActionKind", "Design", "RewardKind", "design_from"]

ActionKind = Literal["around3", "logratio3", "discrete7", "knobs2"]
RewardKind = Literal["lagrangian", "aware"]


@dataclass(frozen=True)
class Design:
    """Actions, networks, what a step is worth, and the settings of the rule that is stepped around.

    >>> Design(ActorCriticDesign(observation=49, actions=3)).base["slack"]
    1.0
    """

    networks: ActorCriticDesign
    encoder: ContextDesign | None = None
    actions: ActionKind = "around3"
    """See `actions`."""
    reward: RewardKind = "lagrangian"
    utilisation_weight: float = 0.3
    memory_price: float = 0.12
    multiplier: float = 20.0
    """The three are those of `deployment.Objective`."""
    least_price: float = 4.0
    most_price: float = 80.0
    """With the lagrangian reward the network is told the multiplier, which at work moves within these two to
    hold the budget of late requests (see `features.Observer`)."""
    smoothing: float = 1.0
    """At work an answer is gone towards by this share of the way from the one before."""
    base_slack: float = 1.0
    """Of the rule `multi`, as are the next three; the rest is as usual."""
    base_cpu: float = 4.0
    base_margin: float = 1.15
    base_reserve: float = 2.0

    @property
    def priced(self) -> bool:
        """Whether the network is told the price of lateness."""
        return self.reward == "lagrangian"

    @property
    def base(self) -> dict[str, float]:
        """Settings of the rule that is stepped around."""
        own = {"slack": self.base_slack, "cpu": self.base_cpu}
        return multi().values | own | {"margin": self.base_margin, "reserve": self.base_reserve}

    @property
    def teacher(self) -> str:
        """That rule by name."""
        return (
            f"multi:slack={self.base_slack:g},cpu={self.base_cpu:g},margin={self.base_margin:g},"
            f"reserve={self.base_reserve:g}"
        )

    def as_manifest(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


def design_from(content: Any) -> Design:
    """A design from what a manifest holds; unknown or missing fields raise TypeError."""
    networks = {**content["networks"], "hidden": tuple(content["networks"]["hidden"])}
    encoder = None if content["encoder"] is None else ContextDesign(**content["encoder"])
    return Design(**{**content, "networks": ActorCriticDesign(**networks), "encoder": encoder})
