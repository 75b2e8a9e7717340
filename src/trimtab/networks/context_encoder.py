"""What a system is like, read from what it did: (observation, action, reward) in time, into a few numbers.

Each step is a token. A linear layer and a recurrent unit read tokens in the order of time, attention pools
what the unit said, and a last layer makes of it the context: numbers within (-1, 1) that actor and critic see
beside the observation. A linear head on top predicts what only a simulator knows (the true profile), so that
the context can be interpreted.

Three encoders:

``gru``            causal. Attention forgets: a step of age n counts ``(1 - 1/memory)**n`` times the
                   exponential of its score, so that sums are all it must remember, and a step costs the same
                   however long the past is. Beside the pooled past the context sees the unit's present state.
``bidirectional``  a window of the last steps, read in both directions, pooled by a softmax; it is read anew
                   at every step. As in AWARE (Qiu et al., ATC 2023), whose encoder reads past episodes whole.
``features``       the same with the axes swapped: the unit runs over the numbers of a token, and time is what
                   it sees at once. This is what the released code of AWARE does by mistake; for comparison.

A memory holds what an encoder needs of the past, one row per system. Everything runs on numpy and on JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array, Parameters, dense, new_dense
from trimtab.networks.recurrent import gated_unit, new_gated_unit

__all__ = [
    "ContextDesign",
    "Memory",
    "contexts",
    "embedding",
    "new_context_encoder",
    "new_memory",
    "predicted_profile",
    "remembered",
]

Memory = dict[str, Array]
"""What is kept of the past: arrays whose last axis but one is the systems'."""

# exp of +-5 is 148 and 0.007: one step may outweigh 20,000 others, and sums of any length stay finite.
_LARGEST_SCORE = 5.0


@dataclass(frozen=True)
class ContextDesign:
    """Kind and sizes of a context encoder; stored in the manifest of a bundle.

    >>> ContextDesign(token=27).embedding
    16
    """

    token: int
    """Numbers per step: observation, action, reward and whether the episode ended with it."""
    kind: Literal["gru", "bidirectional", "features"] = "gru"
    width: int = 64
    """Of a token after the linear layer (not of ``features``, which sees time in its place)."""
    state: int = 64
    """Of the recurrent unit."""
    embedding: int = 16
    profile: int = 0
    """Numbers of the true profile that the head predicts; 0: no head."""
    window: int = 64
    """Steps that the two window encoders look back."""
    memory: int = 256
    """Steps after which a step counts 1/e for ``gru``."""

    def __post_init__(self) -> None:
        for name in ("token", "width", "state", "embedding", "window", "memory"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} of a context encoder; at least 1")
        if self.kind not in _ENCODERS:
            raise SettingsError(f"no context encoder {self.kind!r}; there are {', '.join(_ENCODERS)}")


class _Encoder(NamedTuple):
    """One kind: its parameters below the embedding, its memory, and what it makes of the past."""

    new: Callable[[np.random.Generator, ContextDesign], dict[str, Parameters]]
    new_memory: Callable[[ContextDesign, int, Any], Memory]
    remembered: Callable[[Parameters, Memory, Array, ContextDesign, Tools], Memory]
    summarised: Callable[[Parameters, Memory, Tools], Array]
    summaries: Callable[[Parameters, Array, Array, Array, ContextDesign, Tools, int], tuple[Array, Array]]


def new_context_encoder(random: np.random.Generator, design: ContextDesign) -> Parameters:
    """Draw the parameters of an encoder with its head."""
    tree = _ENCODERS[design.kind].new(random, design)
    # Two states make a summary: the pooled past and the present, or those of the two directions.
    tree["embedding"] = new_dense(random, 2 * design.state, design.embedding)
    if design.profile:
        tree["profile"] = new_dense(random, design.embedding, design.profile)
    return tree


def new_memory(design: ContextDesign, systems: int, xp: Any) -> Memory:
    """The memory of systems of which nothing is known yet."""
    return _ENCODERS[design.kind].new_memory(design, systems, xp)


def remembered(
    encoder: Parameters, memory: Memory, token: Array, renewed: Array, design: ContextDesign, tools: Tools
) -> Memory:
    """The memory after one more step [systems, token]; where `renewed` [systems, 1] another system begins.

    >>> from trimtab.networks.array_tools import PLAIN
    >>> design = ContextDesign(token=3, state=4, embedding=2)
    >>> encoder = new_context_encoder(np.random.default_rng(0), design)
    >>> token, no = np.ones((5, 3), np.float32), np.zeros((5, 1), np.float32)
    >>> memory = remembered(encoder, new_memory(design, 5, np), token, no, design, PLAIN)
    >>> embedding(encoder, memory, design, PLAIN).shape
    (5, 2)
    """
    after = _ENCODERS[design.kind].remembered(encoder, memory, token, design, tools)
    return {name: (1 - renewed) * values for name, values in after.items()}


def embedding(encoder: Parameters, memory: Memory, design: ContextDesign, tools: Tools) -> Array:
    """The context that a memory amounts to: [systems, embedding]."""
    return _embedded(encoder, _ENCODERS[design.kind].summarised(encoder, memory, tools), tools)


def predicted_profile(encoder: Parameters, context: Array) -> Array:
    """What the head makes of a context: [..., profile]."""
    return dense(encoder["profile"], context)


def contexts(
    encoder: Parameters,
    tokens: Array,
    real: Array,
    renewed: Array,
    design: ContextDesign,
    tools: Tools,
    *,
    trained: int,
) -> tuple[Array, Array]:
    """Contexts before and after each of the last `trained` steps: both [trained, systems, embedding].

    `tokens` [time, systems, token] are consecutive steps; where `real` [time, systems, 1] is 0 there was none
    yet, and after a step where `renewed` is 1 another system begins. What comes after such a step is still
    the context of the system it was made in. Window encoders read the window before the trained steps, once.
    """
    before, after = _ENCODERS[design.kind].summaries(encoder, tokens, real, renewed, design, tools, trained)
    return _embedded(encoder, before, tools), _embedded(encoder, after, tools)


def _embedded(encoder: Parameters, summary: Array, tools: Tools) -> Array:
    return tools.xp.tanh(dense(encoder["embedding"], summary))


def _attention(encoder: Parameters, states: Array, xp: Any) -> Array:
    """How much each state counts, [..., 1]: the exponential of a score bent to stay in range."""
    score = dense(encoder["score"], states)
    return xp.exp(_LARGEST_SCORE * xp.tanh(score / _LARGEST_SCORE))


def _read(encoder: Parameters, tokens: Array, xp: Any) -> Array:
    return xp.maximum(dense(encoder["token"], tokens), 0)


# --- gru ----------------------------------------------------------------------------------------


def _new_gru(random: np.random.Generator, design: ContextDesign) -> dict[str, Parameters]:
    return {
        "token": new_dense(random, design.token, design.width),
        "unit": new_gated_unit(random, design.width, design.state),
        "score": new_dense(random, design.state, 1),
    }


def _new_gru_memory(design: ContextDesign, systems: int, xp: Any) -> Memory:
    sizes = {"state": design.state, "total": design.state, "weight": 1}
    return {name: xp.zeros((systems, size), xp.float32) for name, size in sizes.items()}


def _gru_step(encoder: Parameters, memory: Memory, prepared: Array, design: ContextDesign, xp: Any) -> Memory:
    state = gated_unit(encoder["unit"], memory["state"], prepared, xp)
    weight, keep = _attention(encoder, state, xp), 1 - 1 / design.memory
    return {
        "state": state,
        "total": keep * memory["total"] + weight * state,
        "weight": keep * memory["weight"] + weight,
    }


def _gru_remembered(
    encoder: Parameters, memory: Memory, token: Array, design: ContextDesign, tools: Tools
) -> Memory:
    prepared = dense(encoder["unit"]["input"], _read(encoder, token, tools.xp))
    return _gru_step(encoder, memory, prepared, design, tools.xp)


def _gru_summarised(encoder: Parameters, memory: Memory, tools: Tools) -> Array:
    """The pooled past and the present; both 0 of an empty memory."""
    pooled = memory["total"] / tools.xp.maximum(memory["weight"], 1e-6)
    return tools.xp.concatenate([pooled, memory["state"]], axis=-1)


def _gru_summaries(
    encoder: Parameters,
    tokens: Array,
    real: Array,
    renewed: Array,
    design: ContextDesign,
    tools: Tools,
    trained: int,
) -> tuple[Array, Array]:
    xp = tools.xp
    states = _states(encoder["unit"], _read(encoder, tokens, xp), real, tools, renewed)
    # What `_gru_step` adds up one by one: how much each step counts after each of the last ones.
    age = xp.arange(len(tokens))[-trained - 1 :, None] - xp.arange(len(tokens))
    counts = xp.where(age >= 0, (1 - 1 / design.memory) ** xp.maximum(age, 0), 0.0)[..., None]
    system = (xp.cumsum(renewed, axis=0) - renewed)[..., 0]
    same = system[-trained - 1 :, None] == system[None]
    weight = counts * same * (_attention(encoder, states, xp) * real)[None, ..., 0]
    total = xp.einsum("tib,ibs->tbs", weight, states)
    pooled = total / xp.maximum(weight.sum(1)[..., None], 1e-6)
    after = xp.concatenate([pooled, states[-trained - 1 :]], axis=-1)
    before = ((1 - renewed[-trained - 1 :]) * after)[:-1]
    return before, after[1:]


# --- windows ------------------------------------------------------------------------------------


def _new_bidirectional(random: np.random.Generator, design: ContextDesign) -> dict[str, Parameters]:
    return {
        "token": new_dense(random, design.token, design.width),
        "forward": new_gated_unit(random, design.width, design.state),
        "backward": new_gated_unit(random, design.width, design.state),
        "score": new_dense(random, 2 * design.state, 1),
    }


def _new_features(random: np.random.Generator, design: ContextDesign) -> dict[str, Parameters]:
    return {
        "forward": new_gated_unit(random, design.window, design.state),
        "backward": new_gated_unit(random, design.window, design.state),
        "score": new_dense(random, 2 * design.state, 1),
    }


def _new_window(design: ContextDesign, systems: int, xp: Any) -> Memory:
    sizes = {"tokens": design.token, "real": 1}
    return {name: xp.zeros((design.window, systems, size), xp.float32) for name, size in sizes.items()}


def _window_remembered(
    encoder: Parameters, memory: Memory, token: Array, design: ContextDesign, tools: Tools
) -> Memory:
    xp = tools.xp
    new = {"tokens": token, "real": xp.ones_like(token[..., :1])}
    return {name: xp.concatenate([memory[name][1:], new[name][None]]) for name in memory}


def _bidirectional_summarised(encoder: Parameters, memory: Memory, tools: Tools) -> Array:
    return _pooled_both_ways(encoder, _read(encoder, memory["tokens"], tools.xp), memory["real"], tools)


def _features_summarised(encoder: Parameters, memory: Memory, tools: Tools) -> Array:
    swapped = tools.xp.transpose(memory["tokens"] * memory["real"], (2, 1, 0))
    return _pooled_both_ways(encoder, swapped, tools.xp.ones_like(swapped[..., :1]), tools)


def _pooled_both_ways(encoder: Parameters, sequence: Array, real: Array, tools: Tools) -> Array:
    xp = tools.xp
    forth = _states(encoder["forward"], sequence, real, tools)
    back = _states(encoder["backward"], sequence[::-1], real[::-1], tools)[::-1]
    states = xp.concatenate([forth, back], axis=-1)
    weight = _attention(encoder, states, xp) * real
    return (weight * states).sum(0) / xp.maximum(weight.sum(0), 1e-6)


def _states(
    unit: Parameters, sequence: Array, real: Array, tools: Tools, renewed: Array | None = None
) -> Array:
    """States after each item of a sequence; after one that is `renewed` the next begins from nothing."""
    prepared = dense(unit["input"], sequence)
    begin = tools.xp.zeros((sequence.shape[1], prepared.shape[-1] // 3), tools.xp.float32)
    keeps = tools.xp.ones_like(real) if renewed is None else 1 - renewed

    def step(state: Array, item: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        told, counts, goes_on = item
        state = state + counts * (gated_unit(unit, state, told, tools.xp) - state)
        return goes_on * state, state

    return tools.scan(step, begin, (prepared, real, keeps))[1]


def _window_summaries(
    encoder: Parameters,
    tokens: Array,
    real: Array,
    renewed: Array,
    design: ContextDesign,
    tools: Tools,
    trained: int,
) -> tuple[Array, Array]:
    xp = tools.xp
    seen = len(tokens) - trained
    if seen != design.window:
        raise SettingsError(
            f"{seen} steps before the trained ones and a window of {design.window}; make them equal"
        )
    # A step counts unless it, or one between it and the trained ones, was the last of its system.
    follows = xp.cumprod(1 - renewed[:seen][::-1], axis=0)[::-1]
    window = {"tokens": tokens[:seen], "real": real[:seen] * follows}
    summarised = _ENCODERS[design.kind].summarised
    found = summarised(encoder, window, tools)
    nothing = summarised(encoder, _new_window(design, tokens.shape[1], xp), tools)
    lasts = xp.cumprod(1 - renewed[seen:], axis=0)
    same = xp.concatenate([xp.ones_like(lasts[:1]), lasts[:-1]])
    held = nothing + same * (found - nothing)
    return held, held


_ENCODERS: Mapping[str, _Encoder] = {
    "gru": _Encoder(_new_gru, _new_gru_memory, _gru_remembered, _gru_summarised, _gru_summaries),
    "bidirectional": _Encoder(
        _new_bidirectional, _new_window, _window_remembered, _bidirectional_summarised, _window_summaries
    ),
    "features": _Encoder(
        _new_features, _new_window, _window_remembered, _features_summarised, _window_summaries
    ),
}
