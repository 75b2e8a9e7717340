"""Context encoders: step by step = all at once, forgetting by hand, what the axes mean, numpy = JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.core.errors import SettingsError
from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.networks.actor_critic import ActorCriticDesign, actor_actions, new_actor
from trimtab.networks.array_tools import PLAIN
from trimtab.networks.context_encoder import (
    ContextDesign,
    contexts,
    embedding,
    new_context_encoder,
    new_memory,
    predicted_profile,
    remembered,
)
from trimtab.networks.contextual_actor import ContextualActor

KINDS = ("gru", "bidirectional", "features")
SIZES = {"token": 5, "width": 6, "state": 4, "embedding": 3, "window": 7, "memory": 10}


def made(kind, **changes):
    design = ContextDesign(**{**SIZES, "kind": kind, **changes})
    return design, new_context_encoder(np.random.default_rng(0), design)


def drawn(steps, systems=3, token=5):
    return np.random.default_rng(1).normal(size=(steps, systems, token)).astype(np.float32)


def flags(steps, systems=3, at=()):
    renewed = np.zeros((steps, systems, 1), np.float32)
    for place in at:
        renewed[place] = 1
    return renewed


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_at_a_time_and_all_at_once_agree(kind: str) -> None:
    """What `contexts` gives before its first trained step is what a memory of the same steps amounts to.

    System 1 is renewed after step 3: nothing before counts. System 2 has no steps before step 5.
    """
    design, encoder = made(kind)
    tokens, renewed = drawn(8), flags(8, at=[(3, 1)])
    real = np.ones((8, 3, 1), np.float32)
    real[:5, 2] = 0
    before, _ = contexts(encoder, tokens * real, real, renewed, design, PLAIN, trained=1)
    memory = new_memory(design, 3, np)
    for step in range(7):
        after = remembered(encoder, memory, tokens[step], renewed[step], design, PLAIN)
        memory = {name: np.where(real[step], after[name], memory[name]) for name in memory}
    assert before[0] == pytest.approx(embedding(encoder, memory, design, PLAIN), abs=1e-5)


def test_the_causal_encoder_agrees_at_every_step_and_before_and_after_a_renewal() -> None:
    design, encoder = made("gru")
    tokens, renewed = drawn(9), flags(9, at=[(6, 0), (2, 1)])
    real = np.ones((9, 3, 1), np.float32)
    before, after = contexts(encoder, tokens, real, renewed, design, PLAIN, trained=8)
    memory = new_memory(design, 3, np)
    nothing = embedding(encoder, memory, design, PLAIN)
    for step in range(9):
        if step:
            now = embedding(encoder, memory, design, PLAIN)
            assert before[step - 1] == pytest.approx(now, abs=1e-5)
        kept = remembered(encoder, memory, tokens[step], 0 * renewed[step], design, PLAIN)
        memory = remembered(encoder, memory, tokens[step], renewed[step], design, PLAIN)
        if step:
            # After a last step the context is still that of its system, though the next begins from nothing.
            assert after[step - 1] == pytest.approx(embedding(encoder, kept, design, PLAIN), abs=1e-5)
    assert before[6, 0] == pytest.approx(nothing[0], abs=1e-6)
    assert after[5, 0] != pytest.approx(nothing[0], abs=1e-2)


def test_old_steps_count_less_by_the_pace_of_the_memory() -> None:
    """With equal scores and a state that only says which step it is, pooling is a geometric mean of ages."""
    design, encoder = made("gru", state=1, memory=4)
    unit = encoder["unit"]
    unit["input"]["weights"][:] = 0
    unit["input"]["bias"][:] = [-50, 0, 50]  # the new state is tanh(50) = 1, whatever was before
    encoder["score"]["weights"][:] = 0
    memory = new_memory(design, 1, np)
    for _ in range(3):
        memory = remembered(encoder, memory, np.ones((1, 5), np.float32), flags(1, 1)[0], design, PLAIN)
    assert memory["weight"].item() == pytest.approx(1 + 0.75 + 0.75**2)
    assert memory["total"].item() == pytest.approx(memory["weight"].item())
    assert memory["state"].item() == pytest.approx(1)


def test_the_order_of_time_matters_to_all_but_the_encoder_with_swapped_axes() -> None:
    """Swapping two steps, and the two rows of weights that read them, changes nothing for ``features``."""
    tokens, none, real = drawn(8), flags(8), np.ones((8, 3, 1), np.float32)
    swap = [0, 4, 2, 3, 1, 5, 6]

    def read(kind, sequence, encoder, design):
        return contexts(encoder, sequence, real, none, design, PLAIN, trained=1)[0][0]

    swapped = tokens.copy()
    swapped[:7] = tokens[swap]
    for kind in KINDS:
        design, encoder = made(kind)
        found = read(kind, tokens, encoder, design)
        assert read(kind, swapped, encoder, design) != pytest.approx(found, abs=1e-4)
        if kind == "features":
            for direction in ("forward", "backward"):
                layer = encoder[direction]["input"]
                layer["weights"] = layer["weights"][swap]
            assert read(kind, swapped, encoder, design) == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("kind", ["bidirectional", "features"])
def test_windows_are_held_through_the_trained_steps_and_dropped_with_their_system(kind: str) -> None:
    design, encoder = made(kind)
    tokens, renewed = drawn(10), flags(10, at=[(8, 1)])
    before, after = contexts(encoder, tokens, np.ones_like(renewed), renewed, design, PLAIN, trained=3)
    assert before[0] == pytest.approx(before[1])
    assert (before == after).all()
    nothing = embedding(encoder, new_memory(design, 3, np), design, PLAIN)
    assert before[2, 1] == pytest.approx(nothing[1], abs=1e-6)
    assert before[2, 0] == pytest.approx(before[0, 0], abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_jax_give_the_same_contexts(kind: str) -> None:
    design, encoder = made(kind, profile=2)
    tokens, renewed, real = drawn(12), flags(12, at=[(4, 2)]), np.ones((12, 3, 1), np.float32)
    real[:2, 0] = 0
    ours = contexts(encoder, tokens, real, renewed, design, PLAIN, trained=5)
    there = jax.tree.map(jnp.asarray, (encoder, tokens, real, renewed))
    theirs = contexts(*there, design, JAX_TOOLS, trained=5)
    for our, their in zip(ours, theirs, strict=True):
        assert our == pytest.approx(np.asarray(their), abs=1e-5)
        assert our.shape == (5, 3, 3) and abs(our).max() < 1
    assert predicted_profile(encoder, ours[0]).shape == (5, 3, 2)


def test_an_actor_at_work_remembers_and_forgets_each_system() -> None:
    """Two systems with the same past are treated alike until one of them is another."""
    design, encoder = made("gru", profile=2)
    networks = ActorCriticDesign(observation=2, actions=1, context=3, hidden=(4,))
    actor = new_actor(np.random.default_rng(0), networks)
    actor["last"]["weights"] *= 100
    work = ContextualActor({"actor": actor, "encoder": encoder}, networks, design, systems=2)
    seen, no = np.ones((2, 2), np.float32), np.zeros(2, bool)
    first = work.decide(seen)
    for renewed in (no, no, np.array([False, True])):
        done = work.decide(seen)
        work.tell(seen, done, np.array([0.5, 0.5]), no, renewed)
    last = work.decide(seen)
    assert last[0] != pytest.approx(first[0], abs=1e-3)
    assert last[1] == pytest.approx(first[1], abs=1e-6)
    assert work.profile is not None and work.profile.shape == (2, 2)
    assert last == pytest.approx(actor_actions(actor, seen, work.context, networks, np))


def test_impossible_designs_are_refused() -> None:
    with pytest.raises(SettingsError, match="state = 0 of a context encoder"):
        ContextDesign(token=3, state=0)
    with pytest.raises(
        SettingsError, match="no context encoder 'lstm'; there are gru, bidirectional, features"
    ):
        ContextDesign(token=3, kind="lstm")  # pyright: ignore[reportArgumentType]
    design, encoder = made("features")
    real = np.ones((6, 3, 1), np.float32)
    with pytest.raises(SettingsError, match="4 steps before the trained ones and a window of 7"):
        contexts(encoder, drawn(6), real, 0 * real, design, PLAIN, trained=2)
