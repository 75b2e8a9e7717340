"""What an agent sees of a streaming job and what its answers mean: spaces, masks, and the way between."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trimtab.core.settings import Field, Settings
from trimtab.gymnasium_base.actions import Mask
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot
from trimtab.stream_autoscaling.sure.actions import CHOICES, Bands, Offer, decode_action, ladders, offer
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FEATURES, LARGEST_FEATURE, features_of

__all__ = ["EnvSettings", "Moment", "View"]


class EnvSettings(Settings):
    """What an action is.

    >>> EnvSettings(actions="residual").actions
    'residual'
    """

    actions: Literal["parallelism", "residual", "gaussian"] = Field(
        default="parallelism",
        description="A parallelism for every vertex, 0 to keep it; or one of the two kinds that SURE has: "
        "steps around what a rule suggests, or a change of up to the present parallelism.",
    )


class Moment(NamedTuple):
    """Jobs at a decision."""

    snapshot: Snapshot
    observations: NDArray[np.float32]  # [E, V, features]
    offer: Offer


class View:
    """Spaces of one job, and everything that depends on them; the graph may hold the job many times."""

    def __init__(self, graph: Graph, settings: EnvSettings) -> None:
        self._kind = settings.actions
        self._design = Design(actions="gaussian" if self._kind == "gaussian" else "residual")
        self._bands, self._ladder = Bands(graph, self._design), ladders(graph)
        vertices, most = graph.exists.shape[1], graph.most[0]
        self.observation_space = spaces.Box(
            -LARGEST_FEATURE, LARGEST_FEATURE, (vertices, len(FEATURES)), np.float32
        )
        kinds: dict[str, spaces.Space[Any]] = {
            "parallelism": spaces.MultiDiscrete(most + 1),
            "residual": spaces.MultiDiscrete([2] + vertices * [len(CHOICES)]),
            "gaussian": spaces.Box(-1.0, 1.0, (vertices,), np.float32),
        }
        self.action_space = kinds[self._kind]

    def look(self, snapshot: Snapshot) -> Moment:
        """Look at the jobs."""
        suggestion = self._bands.suggest(snapshot)
        observations = features_of(snapshot, suggestion).astype(np.float32)
        return Moment(snapshot, observations, offer(snapshot, suggestion, self._ladder))

    def wanted(self, actions: NDArray[Any], moment: Moment) -> Integers:
        """The parallelism that actions mean, [E, V]."""
        if self._kind == "parallelism":
            return np.where(actions > 0, actions, moment.snapshot.parallelism)
        return decode_action(actions, moment.snapshot, moment.offer, self._design)

    def masks(self, moment: Moment) -> tuple[Mask, ...] | None:
        """What each part of each job's action may be now; None where actions are no whole numbers.

        Slots are shared by all vertices, and no mask of single vertices can say what fits: what is too much
        is cut down as for every policy (`problem.allowed`).
        """
        if self._kind == "gaussian":
            return None
        if self._kind == "residual":
            commits = np.stack([np.ones_like(moment.offer.may_commit), moment.offer.may_commit], axis=1)
            each = zip(commits.astype(np.int8), moment.offer.mask.astype(np.int8), strict=True)
            return tuple((commit, *choices) for commit, choices in each)
        return tuple(_parallelism_masks(moment.snapshot))


def _parallelism_masks(snapshot: Snapshot) -> list[Mask]:
    """Of each vertex: to keep what there is, and all that `problem.allowed` lets through but for slots."""
    graph, samples, now = snapshot.graph, snapshot.samples, snapshot.parallelism
    known = samples.complete[:, -1] & samples.present[:, -1, None]
    free = ~snapshot.rescaling & (snapshot.cooldown_s <= 0)
    least = np.where(known, graph.least, np.maximum(graph.least, now))
    numbers = np.arange(graph.most.max() + 1)
    inside = (numbers >= least[..., None]) & free[:, None, None]
    marks = (inside | (numbers == 0)).astype(np.int8)
    return [
        tuple(mask[: most + 1] for mask, most in zip(*one, strict=True))
        for one in zip(marks, graph.most.tolist(), strict=True)
    ]
