"""Actors that answer with numbers, and critics that value them: dense networks for continuous actions.

An actor maps an observation (and what is known of the system from its past, the context) to actions within
[-1, 1]; a choice among several is the largest of as many numbers. A critic maps observation, action, context
and, in training alone, what only a simulator knows to one number.

Hidden layers are normalised in one of two ways. ``layer`` is ours: dense, layer normalisation, rectifier.
``batch`` is that of FIRM (Qiu et al., OSDI 2020) after DDPG (Lillicrap et al., ICLR 2016): dense, rectifier,
batch normalisation (Ioffe and Szegedy 2015), which goes by the rows at hand while learning and by running
means when served. Running means are leaves of the same tree of parameters; no gradient reaches them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.networks.layers import Array, Parameters, dense
from trimtab.networks.temporal import new_normalisation, normalised

__all__ = [
    "ActorCriticDesign",
    "Moments",
    "action_values",
    "actor_actions",
    "new_actor",
    "new_critic",
    "with_moments",
]

Moments = list[tuple[Array, Array]]
"""Means and variances of a batch, one pair for each batch normalisation on the way."""

_LAST_REACH = 0.003
_EPSILON = 1e-5
_MOMENTUM = 0.1


@dataclass(frozen=True)
class ActorCriticDesign:
    """Sizes and kinds of an actor and its critics; stored in the manifest of a bundle.

    >>> ActorCriticDesign(observation=22, actions=3).hidden
    (256, 256)
    """

    observation: int
    actions: int
    context: int = 0
    """Numbers known of the system from its past, beside the observation."""
    privileged: int = 0
    """Numbers only a simulator knows, which the critics see in training."""
    hidden: tuple[int, ...] = (256, 256)
    normalisation: Literal["layer", "batch", "none"] = "layer"
    output: Literal["tanh", "softmax"] = "tanh"
    """softmax: shares that add up to 1, as in FIRM; tanh: each within [-1, 1], as in AWARE."""
    action_enters: int = 0
    """The hidden layer of the critics that first sees the action: 0 is the first, FIRM has 1."""
    critics: int = 2
    initialisation: Literal["glorot", "firm"] = "glorot"
    """firm: weights within 1 / sqrt(outputs), which FIRM takes for the inputs, biases 1 / sqrt(inputs)."""

    def __post_init__(self) -> None:
        for name in ("observation", "actions", "critics"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} of an actor; it must be at least 1")
        if not self.hidden or min(self.hidden) < 1:
            raise SettingsError(f"hidden = {list(self.hidden)} of an actor; give at least one layer's size")
        if not 0 <= self.action_enters < len(self.hidden):
            raise SettingsError(
                f"action_enters = {self.action_enters}, and there are {len(self.hidden)} hidden layers; "
                "count them from 0"
            )


def new_actor(random: np.random.Generator, design: ActorCriticDesign) -> Parameters:
    """Parameters whose first actions are all nearly 0: nothing is preferred before anything is known.

    >>> design = ActorCriticDesign(observation=4, actions=2, hidden=(8,))
    >>> actor = new_actor(np.random.default_rng(0), design)
    >>> bool(abs(actor_actions(actor, np.ones((3, 4), np.float32), None, design, np)).max() < 0.05)
    True
    """
    inputs = design.observation + design.context
    tree = _new_layers(random, [inputs, *design.hidden], design)
    if design.normalisation == "batch":
        tree["input"] = _new_batch_normalisation(inputs)
    return tree | {"last": _new_last(random, design.hidden[-1], design.actions, design)}


def new_critic(random: np.random.Generator, design: ActorCriticDesign) -> Parameters:
    """Parameters of one critic, which at first values everything at nearly 0."""
    sizes = [design.observation + design.context + design.privileged, *design.hidden]
    tree = _new_layers(random, sizes, design, extra_at=design.action_enters, extra=design.actions)
    if design.normalisation == "batch":
        # FIRM's critic has none after its last hidden layer, nor before its first.
        tree["norms"] = tree["norms"][:-1]
        if not tree["norms"]:
            del tree["norms"]
    return tree | {"last": _new_last(random, design.hidden[-1], 1, design)}


def actor_actions(
    actor: Parameters,
    observation: Array,
    context: Array | None,
    design: ActorCriticDesign,
    xp: Any,
    moments: Moments | None = None,
) -> Array:
    """[rows, observation], [rows, context] -> [rows, actions].

    A list of `moments` means learning: batch normalisation goes by these rows and appends what it found.
    """
    values = _joined(xp, observation, context)
    if "input" in actor:
        values = _batch_normalised(actor["input"], values, xp, moments)
    values = _hidden(actor, values, design, xp, moments)
    raw = dense(actor["last"], values)
    if design.output == "tanh":
        return xp.tanh(raw)
    grown = xp.exp(raw - raw.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def action_values(
    critic: Parameters,
    observation: Array,
    action: Array,
    context: Array | None,
    privileged: Array | None,
    design: ActorCriticDesign,
    xp: Any,
    moments: Moments | None = None,
) -> Array:
    """What one critic thinks of actions: [rows]. `moments` are those of `actor_actions`."""
    seen = _joined(xp, observation, context, privileged if design.privileged else None)
    values = _hidden(critic, seen, design, xp, moments, joins=action, joins_at=design.action_enters)
    return dense(critic["last"], values)[..., 0]


def with_moments(network: Parameters, moments: Moments) -> Parameters:
    """Fold what a batch was like into the running means, by a tenth; unchanged where nothing was found.

    `moments` lists the normalisations in the order they are met: that of the input first.
    """
    if not moments:
        return network
    left = list(moments)
    after = dict(network)
    if "input" in network:
        after["input"] = _folded(network["input"], left.pop(0))
    if "norms" in network:
        after["norms"] = [_folded(norm, left.pop(0)) for norm in network["norms"]]
    return after


def _joined(xp: Any, *parts: Array | None) -> Array:
    there = [part for part in parts if part is not None]
    return there[0] if len(there) == 1 else xp.concatenate(there, axis=-1)


def _hidden(
    network: Parameters,
    values: Array,
    design: ActorCriticDesign,
    xp: Any,
    moments: Moments | None,
    *,
    joins: Array | None = None,
    joins_at: int = 0,
) -> Array:
    norms: Sequence[Parameters] = network.get("norms", ())
    for number, layer in enumerate(network["layers"]):
        if joins is not None and number == joins_at:
            values = xp.concatenate([values, joins], axis=-1)
        values = dense(layer, values)
        if design.normalisation == "layer":
            values = normalised(norms[number], values, xp)
        values = xp.maximum(values, 0)
        if design.normalisation == "batch" and number < len(norms):
            values = _batch_normalised(norms[number], values, xp, moments)
    return values


def _batch_normalised(norm: Mapping[str, Array], values: Array, xp: Any, moments: Moments | None) -> Array:
    mean, variance = norm["mean"], norm["variance"]
    if moments is not None:
        mean, variance = values.mean(0), values.var(0)
        # As running variance the one of the population the rows are drawn from is kept.
        moments.append((mean, variance * (len(values) / max(len(values) - 1, 1))))
    return (values - mean) / xp.sqrt(variance + _EPSILON) * norm["gain"] + norm["shift"]


def _folded(norm: Mapping[str, Array], found: tuple[Array, Array]) -> dict[str, Array]:
    mean, variance = (
        (1 - _MOMENTUM) * norm[name] + _MOMENTUM * one
        for name, one in zip(("mean", "variance"), found, strict=True)
    )
    return {**norm, "mean": mean, "variance": variance}


def _new_batch_normalisation(size: int) -> dict[str, Array]:
    still = {"mean": np.zeros(size, np.float32), "variance": np.ones(size, np.float32)}
    return new_normalisation(size) | still


def _new_layers(
    random: np.random.Generator,
    sizes: Sequence[int],
    design: ActorCriticDesign,
    *,
    extra_at: int = 0,
    extra: int = 0,
) -> dict[str, Any]:
    layers = [
        _new_hidden(random, inputs + (extra if number == extra_at else 0), outputs, design)
        for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes))
    ]
    if design.normalisation == "none":
        return {"layers": layers}
    new_norm = new_normalisation if design.normalisation == "layer" else _new_batch_normalisation
    return {"layers": layers, "norms": [new_norm(size) for size in sizes[1:]]}


def _new_hidden(
    random: np.random.Generator, inputs: int, outputs: int, design: ActorCriticDesign
) -> Parameters:
    if design.initialisation == "glorot":
        # Without biases a normalised layer would tell the direction of its inputs, never their size.
        reach = math.sqrt(6 / (inputs + outputs))
        return _uniform_dense(random, inputs, outputs, reach, 1 / math.sqrt(inputs))
    return _uniform_dense(random, inputs, outputs, 1 / math.sqrt(outputs), 1 / math.sqrt(inputs))


def _new_last(
    random: np.random.Generator, inputs: int, outputs: int, design: ActorCriticDesign
) -> Parameters:
    bias_reach = 0.0 if design.initialisation == "glorot" else 1 / math.sqrt(inputs)
    return _uniform_dense(random, inputs, outputs, _LAST_REACH, bias_reach)


def _uniform_dense(
    random: np.random.Generator, inputs: int, outputs: int, reach: float, bias_reach: float
) -> Parameters:
    return {
        "weights": random.uniform(-reach, reach, (inputs, outputs)).astype(np.float32),
        "bias": random.uniform(-bias_reach, bias_reach, outputs).astype(np.float32),
    }
