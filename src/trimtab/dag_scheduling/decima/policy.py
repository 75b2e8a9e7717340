"""A trained Decima as a policy, on numpy alone: load a bundle, decide, say why."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.features import children_of
from trimtab.dag_scheduling.decima.network import (
    Design,
    feature_names,
    limit_scores,
    new_network,
    stage_scores,
)
from trimtab.dag_scheduling.decima.view import Shown
from trimtab.dag_scheduling.problem import Action, Snapshot
from trimtab.networks.graph_rows import Packed, packed

__all__ = ["Considered", "DecimaPolicy", "load_policy", "make_bundle"]

WING, KIND = "dag_scheduling", "decima"


class Considered(NamedTuple):
    """Everything the network thought at one decision."""

    shown: Shown
    choice_logits: NDArray[np.float32]  # by (job, stage, class), last: leave the rest idle
    choice_mask: NDArray[np.bool_]
    choice: int
    limit_logits: NDArray[np.float32]
    limit_mask: NDArray[np.bool_]
    limits: NDArray[np.float32]
    limit: int


class DecimaPolicy:
    """Decides as the bundle's network does, without JAX."""

    def __init__(self, bundle: Bundle) -> None:
        if (bundle.wing, bundle.kind) != (WING, KIND):
            raise BundleError(
                f"{bundle.name}: a bundle of {bundle.wing}/{bundle.kind}; Decima needs {WING}/{KIND}"
            )
        try:
            self.design = Design(**bundle.manifest["settings"]["design"])
            self._most = int(bundle.manifest["settings"]["most_executors"])
            self._room = int(bundle.manifest["settings"]["jobs_shown"])
        except (KeyError, TypeError, ValueError):
            raise BundleError(
                f"{bundle.name}: its manifest does not describe a network of this version; train it again"
            ) from None
        self.name = bundle.name
        self.bundle = bundle
        wanted = flatten({"actor": new_network(self.design, 0)["actor"]})
        if {name: array.shape for name, array in wanted.items()} != {
            name: array.shape for name, array in bundle.tensors.items()
        }:
            raise BundleError(f"{bundle.name}: its tensors are not those of its network; copy it again")
        self.parameters = unflatten(bundle.tensors)
        self._bits: tuple[NDArray[np.int64], NDArray[np.uint32]] | None = None
        self._packed: tuple[NDArray[np.uint32], NDArray[np.int64], Packed] | None = None

    def decide(self, snapshot: Snapshot) -> Action:
        """The likeliest choice and, for it, the likeliest limit."""
        thought = self.consider(snapshot)
        return v.action_of(thought.shown, snapshot, thought.choice, int(thought.limits[thought.limit]))

    def consider(self, snapshot: Snapshot) -> Considered:
        """Score everything that may be chosen now."""
        if len(snapshot.free_executors) != self.design.classes:
            raise BundleError(
                f"{self.name} was trained for {self.design.classes} executor classes, the cluster has "
                f"{len(snapshot.free_executors)}; train one for it"
            )
        shown = v.view_of(snapshot, self._child_words(snapshot), self._room)
        scores = stage_scores(
            self.parameters, shown.view, self.design, np, self._packed_rows(shown, snapshot)
        )
        choice = scores.logits.argmax(1)
        most = max(self._most, int(snapshot.executor_count)) if self.design.limits == 0 else self._most
        logits, mask, limits = limit_scores(self.parameters, scores, choice, self.design, most, np)
        limit = int(logits[0].argmax())
        return Considered(
            shown,
            scores.logits[0],
            scores.mask[0],
            int(choice[0]),
            logits[0],
            mask[0],
            limits[0],
            limit,
        )

    def _child_words(self, snapshot: Snapshot) -> NDArray[np.uint32]:
        """The graph of the profile as bits, made anew only when the profile changes."""
        if self._bits is None or self._bits[0] is not snapshot.child_offset:
            words = v.words_for(len(snapshot.scratch))
            self._bits = (snapshot.child_offset, v.child_words(snapshot.child_offset, snapshot.child, words))
        return self._bits[1]

    def _packed_rows(self, shown: Shown, snapshot: Snapshot) -> Packed:
        """The arrangement of the stages, made anew only when a job comes or goes."""
        graphs, counts = shown.view.children, snapshot.stage_count[shown.slots]
        known = self._packed
        if known is None or not (np.array_equal(known[0], graphs) and np.array_equal(known[1], counts)):
            real = np.arange(graphs.shape[2]) < counts[:, None]
            known = self._packed = (graphs, counts, packed(children_of(shown.view, np)[0], real))
        return known[2]


def load_policy(path: str | Path) -> DecimaPolicy:
    """Load a policy from the folder of its bundle."""
    return DecimaPolicy(load_bundle(path))


def make_bundle(
    name: str,
    parameters: Any,
    design: Design,
    *,
    most_executors: int,
    jobs_shown: int = 0,
    trained: dict[str, Any],
    scores: dict[str, Any],
) -> Bundle:
    """Pack trained parameters; the critic stays behind, it is of no use outside training.

    The policy looks at `jobs_shown` jobs at most, as it did in training; 0: at all of them.
    """
    actor = {"actor": parameters["actor"]}
    parts = ("stage", "job", "cluster", "limit")
    features = {part: list(names) for part, names in zip(parts, feature_names(design), strict=True)}
    manifest = {
        "settings": {
            "design": asdict(design),
            "most_executors": most_executors,
            "jobs_shown": jobs_shown,
        },
        "features": features,
        "trained": trained,
        "scores": scores,
    }
    tensors = {name: np.asarray(value, np.float32) for name, value in flatten(actor).items()}
    return Bundle(name, WING, KIND, manifest, tensors)
