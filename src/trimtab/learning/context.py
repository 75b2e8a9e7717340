"""Contexts in learning: what a system is like, learned together with what its actions are worth.

The encoder (`trimtab.networks.context_encoder`) reads (observation, action, reward, ended) in time. The
choices made here, and why:

- *Online* the memory of the causal encoder is carried along, so a decision costs the same at any age.
- *In replay* windows are drawn: some steps that led there, then the steps to learn from. The encoder begins
  empty at the first of a window and is run anew, so contexts are always those of the present parameters;
  contexts stored with the steps, or recurrent states as in R2D2 (Kapturowski et al., ICLR 2019), would be
  stale and, at 129 numbers a step, three times as large as the steps themselves. Unlike a burn-in the steps
  before do carry gradients: they are what is to be understood. What is lost is what happened more than a
  window ago; the encoder forgets at about that pace anyway.
- *Gradients* reach the encoder from the critics' errors and from the head that predicts the true profile, as
  in PEARL (Rakelly et al., ICML 2019) and VariBAD (Zintgraf et al., ICLR 2020). The actor takes contexts as
  given: its gradient is large where the critics are wrong, and would bend the meaning of contexts under them.
- *Targets* use the same encoder, without gradient: contexts of a slow copy would double the cost of what is
  already the larger part of an update, and the head keeps the meaning of contexts steady.
- Critics that see the true profile need no context, so that encoder then learns from the head alone.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.learning.replay import Layout
from trimtab.networks.context_encoder import ContextDesign, contexts, predicted_profile

__all__ = ["WindowContexts", "profile_loss", "window_contexts"]


class WindowContexts(NamedTuple):
    """Contexts of the trained steps of a batch of windows, as rows; `after` carries no gradient."""

    before: jax.Array
    after: jax.Array


def window_contexts(
    encoder: Any, past: jax.Array, design: ContextDesign, layout: Layout, trained: int
) -> WindowContexts:
    """Contexts before and after each trained step of windows [time, windows, token + 2]."""
    tokens = past[..., : layout.token]
    renewed, real = past[..., layout.token : layout.token + 1], past[..., layout.token + 1 :]
    before, after = contexts(encoder, tokens, real, renewed, design, JAX_TOOLS, trained=trained)
    size = design.embedding
    return WindowContexts(before.reshape(-1, size), jax.lax.stop_gradient(after.reshape(-1, size)))


def profile_loss(encoder: Any, context: jax.Array, profile: jax.Array) -> jax.Array:
    """Mean squared error of the head that predicts the true profile [rows, numbers] from contexts."""
    return jnp.mean(jnp.square(predicted_profile(encoder, context) - profile))
