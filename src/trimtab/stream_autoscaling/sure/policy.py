"""A trained autoscaler as a policy, on numpy alone: load a bundle, decide.

Where no rule like the base rule would change anything, the network has nothing to commit to: it holds
whatever it says, so for such jobs it is not asked.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError, TrimtabError
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.layers import Parameters, dense, leaky
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot
from trimtab.stream_autoscaling.sure.actions import CHOICES, decode_action
from trimtab.stream_autoscaling.sure.design import Design, design_from
from trimtab.stream_autoscaling.sure.encoders import encoder_of
from trimtab.stream_autoscaling.sure.features import FEATURES, FeatureHistory, Seen, View
from trimtab.stream_autoscaling.sure.network import (
    CHOICE_FEATURES,
    JOB_FEATURES,
    Answers,
    answers,
    new_network,
)

__all__ = [
    "Considered",
    "NetworkAtWork",
    "SureDecider",
    "SurePolicy",
    "best_action",
    "likeliest_action",
    "load_policy",
    "make_bundle",
    "rows_of",
]

WING, KIND = "stream_autoscaling", "sure"


class SurePolicy:
    """Decides as the bundle's network does, without JAX; a `StreamPolicy`."""

    def __init__(self, bundle: Bundle) -> None:
        if (bundle.wing, bundle.kind) != (WING, KIND):
            raise BundleError(
                f"{bundle.name}: a bundle of {bundle.wing}/{bundle.kind}; SURE needs {WING}/{KIND}"
            )
        try:
            self.design = design_from(bundle.manifest["settings"]["design"])
            wanted = flatten({"actor": new_network(self.design, 0)["actor"]})
        except (KeyError, TypeError, ValueError, TrimtabError):
            raise BundleError(
                f"{bundle.name}: its manifest does not describe a network of this version; train it again"
            ) from None
        if bundle.manifest["features"].get("vertex") != list(FEATURES):
            raise BundleError(f"{bundle.name}: made for other features than this version's; train it again")
        if {name: array.shape for name, array in wanted.items()} != {
            name: array.shape for name, array in bundle.tensors.items()
        }:
            raise BundleError(f"{bundle.name}: its tensors are not those of its network; copy it again")
        self.name = bundle.name
        self.bundle = bundle
        self.parameters: Parameters = unflatten(bundle.tensors)

    def begin(self, graph: Graph) -> SureDecider:
        """Start afresh on these jobs, with an empty history."""
        return SureDecider(self.parameters, self.design, graph)


class Considered(NamedTuple):
    """A snapshot as the network saw it, and all that it answered."""

    seen: Seen
    answers: Answers
    action: NDArray[Any]
    """The likeliest answer."""
    wanted: Integers
    """The same as parallelism, [E, V]."""


class SureDecider:
    """A policy at work: keeps the history of its jobs as features."""

    def __init__(self, parameters: Parameters, design: Design, graph: Graph) -> None:
        self._design = design
        self._history = FeatureHistory(graph, design)
        self._network = NetworkAtWork(parameters, design, graph)

    def decide(self, snapshot: Snapshot) -> Integers:
        """The likeliest answer of the network, as parallelism."""
        seen = self._history.see(snapshot)
        return decode_action(self._network.action(seen.view), snapshot, seen.offer, self._design)

    def consider(self, snapshot: Snapshot) -> Considered:
        """Decide, and show what it was decided from: in place of `decide`, for each snapshot enters once.

        The network is asked about every job, also where it can only hold.
        """
        seen = self._history.see(snapshot)
        found = self._network.answers(seen.view)
        action = likeliest_action(found, self._design)
        return Considered(seen, found, action, decode_action(action, snapshot, seen.offer, self._design))


class NetworkAtWork:
    """A network at work on some jobs; shown every view once, in order."""

    def __init__(self, parameters: Parameters, design: Design, graph: Graph) -> None:
        self._parameters, self._design = parameters, design
        self._embedded: _Embedded | None = None
        if encoder_of(design.history_encoder).embeds:
            self._embedded = _Embedded(parameters["actor"]["encoder"]["embed"], graph, design)

    def answers(self, view: View) -> Answers:
        """All that it answers."""
        return answers(self._parameters, view, self._design, PLAIN, hidden=self._hidden(view))

    def action(self, view: View) -> NDArray[Any]:
        """The likeliest answer; it is asked only about jobs where something may be done."""
        if self._design.actions == "gaussian" or view.may_commit.all():
            return likeliest_action(self.answers(view), self._design)
        hidden, asked = self._hidden(view), np.flatnonzero(view.may_commit)
        size, vertices = view.exists.shape
        action = np.zeros((size, 1 + vertices), np.int32)
        if asked.size:
            those = None if hidden is None else hidden[asked]
            action[asked] = best_action(self._parameters, rows_of(view, asked), self._design, those)
        return action

    def _hidden(self, view: View) -> NDArray[np.float32] | None:
        return None if self._embedded is None else self._embedded.see(view)


def rows_of(view: View, rows: slice | NDArray[np.intp]) -> View:
    """Some jobs of a view."""
    return View._make(field[rows] for field in view)


class _Embedded:
    """The window after the encoder's first layer: of an hour only the last minute is new at each decision."""

    def __init__(self, layer: Parameters, graph: Graph, design: Design) -> None:
        size, vertices = graph.exists.shape
        self._layer, self._length, self._seen = layer, design.history, 0
        self._ring = np.zeros((size, 2 * design.history, vertices, design.hidden), np.float32)

    def see(self, view: View) -> NDArray[np.float32]:
        """Take in the newest interval; a view, valid until the next call."""
        shown = view.present[:, -1, None, None] & view.exists[..., None]
        newest = leaky(dense(self._layer, view.window[:, -1].astype(np.float32) * shown), np)
        place = self._seen % self._length
        self._ring[:, place] = self._ring[:, place + self._length] = newest
        self._seen += 1
        return self._ring[:, place + 1 : place + 1 + self._length]


def best_action(
    parameters: Parameters, view: View, design: Design, hidden: NDArray[np.float32] | None = None
) -> NDArray[Any]:
    """The likeliest answer, as the agent's `best` gives it, by numpy."""
    return likeliest_action(answers(parameters, view, design, PLAIN, hidden=hidden), design)


def likeliest_action(found: Answers, design: Design) -> NDArray[Any]:
    """Of all that the network answers; in the form that `actions.decode_action` reads."""
    if design.actions == "gaussian":
        return np.asarray(found.mean)
    commits = (found.commit > 0).astype(np.int32)
    return np.concatenate([commits[:, None], found.choices.argmax(-1).astype(np.int32)], axis=1)


def load_policy(path: str | Path) -> SurePolicy:
    """Load a policy from the folder of its bundle."""
    return SurePolicy(load_bundle(path))


def make_bundle(
    name: str, parameters: Any, design: Design, *, trained: dict[str, Any], scores: dict[str, Any]
) -> Bundle:
    """Pack trained parameters; the critic stays behind, it is of no use outside training."""
    manifest = {
        "settings": {"design": asdict(design)},
        "features": {
            "vertex": list(FEATURES),
            "choice": list(CHOICE_FEATURES),
            "job": list(JOB_FEATURES),
            "choices": list(CHOICES),
        },
        "trained": trained,
        "scores": scores,
    }
    tensors = {
        key: np.asarray(tensor, np.float32) for key, tensor in flatten({"actor": parameters["actor"]}).items()
    }
    return Bundle(name, WING, KIND, manifest, tensors)
