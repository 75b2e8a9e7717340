"""An actor at work, on numpy: it decides, is told what came of it, and so learns what each system is like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.networks.actor_critic import ActorCriticDesign, actor_actions
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.context_encoder import (
    ContextDesign,
    embedding,
    new_memory,
    predicted_profile,
    remembered,
)
from trimtab.networks.layers import Parameters

__all__ = ["ContextualActor"]


class ContextualActor:
    """An actor for several systems at once, each with a memory of its own; parameters never change.

    >>> from trimtab.networks.actor_critic import new_actor
    >>> design = ActorCriticDesign(observation=2, actions=1, hidden=(4,))
    >>> actor = ContextualActor({"actor": new_actor(np.random.default_rng(0), design)}, design, None)
    >>> actor.decide(np.zeros((1, 2), np.float32)).shape
    (1, 1)
    """

    def __init__(
        self,
        parameters: Parameters,
        networks: ActorCriticDesign,
        encoder: ContextDesign | None,
        *,
        systems: int = 1,
    ) -> None:
        self._parameters = {
            name: _on_numpy(parameters[name]) for name in ("actor", "encoder") if name in parameters
        }
        self._networks, self._encoder = networks, encoder
        self._memory = {} if encoder is None else new_memory(encoder, systems, np)

    @property
    def context(self) -> NDArray[np.float32] | None:
        """What is known of each system by now, if anything is read from their past: [systems, numbers]."""
        if self._encoder is None:
            return None
        return embedding(self._parameters["encoder"], self._memory, self._encoder, PLAIN)

    @property
    def profile(self) -> NDArray[np.float32] | None:
        """What each system seems to be like, in the terms of the true profile; where that was learned."""
        if self._encoder is None or not self._encoder.profile:
            return None
        return predicted_profile(self._parameters["encoder"], self.context)

    def decide(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Actions [systems, actions] for observations [systems, numbers]."""
        return actor_actions(self._parameters["actor"], observation, self.context, self._networks, np)

    def tell(
        self,
        observation: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        ended: NDArray[Any],
        renewed: NDArray[Any],
    ) -> None:
        """What was seen, done and earned; `renewed` [systems] where another system comes in its place."""
        if self._encoder is None:
            return
        flags = np.stack([reward, ended], axis=-1)
        token = np.concatenate([observation, action, flags], axis=-1, dtype=np.float32)
        forgets = np.asarray(renewed, np.float32)[:, None]
        encoder = self._parameters["encoder"]
        self._memory = remembered(encoder, self._memory, token, forgets, self._encoder, PLAIN)


def _on_numpy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _on_numpy(part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [_on_numpy(part) for part in tree]
    return np.asarray(tree)
