"""A policy trained under the published rules, on numpy alone: load a bundle, decide."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError, TrimtabError
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.layers import Parameters
from trimtab.stream_autoscaling.problem import Graph, Integers, Snapshot
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.design import Design, design_from
from trimtab.stream_autoscaling.sure.network import answers, new_network
from trimtab.stream_autoscaling.sure.paper.features import PAPER_FEATURES, HourViews
from trimtab.stream_autoscaling.sure.policy import WING, likeliest_action

__all__ = ["KIND", "PaperDecider", "PaperPolicy", "load_paper_policy", "make_paper_bundle", "new_actor"]

KIND = "sure-paper"
"""Not that of other bundles: nothing else reads these features."""


def new_actor(design: Design) -> Parameters:
    """The actor's parameters before training, by name: what a bundle must have."""
    return flatten({"actor": new_network(design, 0, features=len(PAPER_FEATURES))["actor"]})


class PaperPolicy:
    """Decides as the bundle's network does, without JAX; a `StreamPolicy` under the published rules only."""

    def __init__(self, bundle: Bundle) -> None:
        if (bundle.wing, bundle.kind) != (WING, KIND):
            raise BundleError(
                f"{bundle.name}: a bundle of {bundle.wing}/{bundle.kind}; the published rules need "
                f"{WING}/{KIND}"
            )
        try:
            self.design = design_from(bundle.manifest["settings"]["design"])
            wanted = new_actor(self.design)
        except (KeyError, TypeError, ValueError, TrimtabError):
            raise BundleError(
                f"{bundle.name}: its manifest does not describe a network of this version; train it again"
            ) from None
        if bundle.manifest["features"].get("vertex") != list(PAPER_FEATURES):
            raise BundleError(f"{bundle.name}: made for other features than this version's; train it again")
        if {name: array.shape for name, array in wanted.items()} != {
            name: array.shape for name, array in bundle.tensors.items()
        }:
            raise BundleError(f"{bundle.name}: its tensors are not those of its network; copy it again")
        self.name = bundle.name
        self.bundle = bundle
        self.parameters: Parameters = unflatten(bundle.tensors)

    def begin(self, graph: Graph) -> PaperDecider:
        """Start on these jobs; an hour's metrics are in each snapshot, so there is nothing to remember."""
        return PaperDecider(self.parameters, self.design, graph)


class PaperDecider:
    """A policy at work."""

    def __init__(self, parameters: Parameters, design: Design, graph: Graph) -> None:
        self._parameters, self._design = parameters, design
        self._views = HourViews(graph, design)

    def decide(self, snapshot: Snapshot) -> Integers:
        """The likeliest answer of the network, as parallelism."""
        view, offered = self._views.see(snapshot)
        found = answers(self._parameters, view, self._design, PLAIN)
        return decode_action(likeliest_action(found, self._design), snapshot, offered, self._design)


def load_paper_policy(path: str | Path) -> PaperPolicy:
    """Load a policy from the folder of its bundle."""
    return PaperPolicy(load_bundle(path))


def make_paper_bundle(
    name: str, parameters: Any, design: Design, *, trained: dict[str, Any], scores: dict[str, Any]
) -> Bundle:
    """Pack trained parameters; the critic stays behind."""
    manifest = {
        "settings": {"design": asdict(design)},
        "features": {"vertex": list(PAPER_FEATURES)},
        "trained": trained,
        "scores": scores,
    }
    tensors = {
        key: np.asarray(tensor, np.float32) for key, tensor in flatten({"actor": parameters["actor"]}).items()
    }
    return Bundle(name, WING, KIND, manifest, tensors)
