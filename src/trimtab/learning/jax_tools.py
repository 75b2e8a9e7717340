"""What networks that are written once for two array modules (decision 004) need of JAX."""

import jax
import jax.numpy as jnp

from trimtab.networks.array_tools import Tools

__all__ = ["JAX_TOOLS", "device_name"]


def device_name() -> str:
    """What JAX computes on, such as "NVIDIA H200"; "cpu" where it has nothing else."""
    return jax.devices()[0].device_kind


def _largest(values: jax.Array, count: int) -> jax.Array:
    return jax.lax.top_k(values, count)[1]


def _limit(counts: jax.Array, limit: int) -> int:
    """Compiled code has one shape for all."""
    return limit


JAX_TOOLS = Tools(jnp, jax.lax.scan, jax.lax.stop_gradient, _largest, _limit)
