"""A trained autoscaler of services as a policy, on numpy alone: load a bundle, decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError, TrimtabError
from trimtab.networks.actor_critic import new_actor
from trimtab.networks.context_encoder import new_context_encoder
from trimtab.networks.contextual_actor import ContextualActor
from trimtab.networks.layers import Parameters
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, actuator_of
from trimtab.pod_autoscaling.aware.design import Design, design_from
from trimtab.pod_autoscaling.aware.features import Observer, Seen, numbers_of
from trimtab.pod_autoscaling.aware.profile import PROFILE
from trimtab.pod_autoscaling.aware.surprise import Familiar, Lately, parted
from trimtab.pod_autoscaling.problem import Floats, Services, Snapshot

__all__ = ["AwareDecider", "AwarePolicy", "Considered", "LearnedPolicy", "load_policy", "make_bundle"]

WING, KIND = "pod_autoscaling", "aware"


class LearnedPolicy:
    """Decides as some parameters do, without JAX; a `PodPolicy`."""

    def __init__(
        self, name: str, parameters: Parameters, design: Design, familiar: Familiar | None = None
    ) -> None:
        self.name, self.parameters, self.design, self.familiar = name, parameters, design, familiar

    def begin(self, services: Services) -> AwareDecider:
        """Start afresh on these services, of which nothing is known."""
        return AwareDecider(self.parameters, self.design, services, self.familiar)


class AwarePolicy(LearnedPolicy):
    """The policy of a bundle."""

    def __init__(self, bundle: Bundle) -> None:
        if (bundle.wing, bundle.kind) != (WING, KIND):
            raise BundleError(
                f"{bundle.name}: a bundle of {bundle.wing}/{bundle.kind}; AWARE needs {WING}/{KIND}"
            )
        try:
            design = design_from(bundle.manifest["settings"]["design"])
            wanted = flatten(_acting(_drawn(design)))
            parts = ACTION_PARTS[design.actions]
        except (KeyError, TypeError, ValueError, TrimtabError):
            raise BundleError(
                f"{bundle.name}: its manifest does not describe a network of this version; train it again"
            ) from None
        features = bundle.manifest["features"]
        if features.get("service") != list(numbers_of(design)) or features.get("action") != list(parts):
            raise BundleError(f"{bundle.name}: made for other features than this version's; train it again")
        own, familiar = parted(bundle.name, bundle.tensors, _numbers_seen(design))
        if {name: array.shape for name, array in wanted.items()} != {
            name: array.shape for name, array in own.items()
        }:
            raise BundleError(f"{bundle.name}: its tensors are not those of its network; copy it again")
        super().__init__(bundle.name, unflatten(own), design, familiar)
        self.bundle = bundle


class Considered(NamedTuple):
    """A snapshot as the network saw it, and what it made of it."""

    seen: Seen
    context: NDArray[np.float32] | None
    """What is known of each service from its past, [E, numbers]."""
    profile: NDArray[np.float32] | None
    """What each service seems to be like, in the terms of `profile.PROFILE`."""
    answer: NDArray[np.float32]
    """Of the network."""
    action: NDArray[np.float32]
    """What is done: the action before, moved towards the answer."""
    wanted: Floats
    """The same as sizes, [E, 3]."""
    share: Floats
    """How far the action went towards the answer, [E]."""


class AwareDecider:
    """A policy at work: remembers what each of its services did."""

    def __init__(
        self,
        parameters: Parameters,
        design: Design,
        services: Services,
        familiar: Familiar | None = None,
    ) -> None:
        self._observer = Observer(services, design)
        self._actuator = actuator_of(services, design, self._observer)
        self._actor = ContextualActor(
            parameters, design.networks, design.encoder, systems=len(services.slo_s)
        )
        self._before: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self._familiar = familiar
        self.lately = Lately(len(services.slo_s), _numbers_seen(design))
        """What was seen of the services lately: observations, and contexts where there are any."""

    @property
    def surprise(self) -> Floats:
        """How unlike training each service is by now, [E]: above 1 it is out of what was trained for.

        0 while little is known of it, and where a bundle does not say what is familiar.
        """
        if self._familiar is None:
            return np.zeros(len(self.lately.mean))
        return np.where(self.lately.known, self._familiar.score(self.lately.mean), 0.0)

    def decide(self, snapshot: Snapshot) -> Floats:
        """The network's answer, as sizes."""
        return self.consider(snapshot).wanted

    def consider(self, snapshot: Snapshot) -> Considered:
        """Decide, and show what it was decided from: in place of `decide`, for each snapshot enters once."""
        seen = self._observer.see(snapshot)
        if self._before is not None:
            never = np.zeros(len(seen.reward))
            self._actor.tell(*self._before, seen.reward, never, seen.fresh)
        context = self._actor.context
        shown = seen.observation if context is None else np.concatenate([seen.observation, context], axis=1)
        self.lately.see(shown, seen.fresh)
        answer = self._actor.decide(seen.observation)
        share = self._observer.shares
        action = self._observer.moved_towards(answer)
        self._observer.acted(action)
        self._before = (seen.observation, action)
        wanted = self._actuator.sized(action, snapshot, seen)
        return Considered(seen, context, self._actor.profile, answer, action, wanted, share)


def load_policy(path: str | Path) -> AwarePolicy:
    """Load a policy from the folder of its bundle."""
    return AwarePolicy(load_bundle(path))


def make_bundle(
    name: str,
    parameters: Any,
    design: Design,
    *,
    trained: dict[str, Any],
    scores: dict[str, Any],
) -> Bundle:
    """Pack trained parameters; critics stay behind, they are of no use outside training.

    What is familiar to the policy is added when it has been seen at work (`training.with_familiar`).
    """
    manifest = {
        "settings": {"design": design.as_manifest()},
        "features": {
            "service": list(numbers_of(design)),
            "action": list(ACTION_PARTS[design.actions]),
            "profile": list(PROFILE),
        },
        "trained": trained,
        "scores": scores,
    }
    tensors = {key: np.asarray(tensor, np.float32) for key, tensor in flatten(_acting(parameters)).items()}
    return Bundle(name, WING, KIND, manifest, tensors)


def _numbers_seen(design: Design) -> int:
    """Of an observation, and of a context where there is one."""
    return design.networks.observation + design.networks.context


def _acting(parameters: Parameters) -> Parameters:
    """The parts of parameters that decide."""
    return {name: parameters[name] for name in ("actor", "encoder") if name in parameters}


def _drawn(design: Design) -> Parameters:
    """Parameters of this design, whatever their values."""
    random = np.random.default_rng(0)
    drawn: dict[str, Any] = {"actor": new_actor(random, design.networks)}
    if design.encoder is not None:
        drawn["encoder"] = new_context_encoder(random, design.encoder)
    return drawn
