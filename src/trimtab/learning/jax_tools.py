"""What networks that are written once for two array modules (decision 004) need of JAX."""

from multiprocessing import parent_process

import jax
import jax.numpy as jnp

from trimtab.networks.array_tools import Tools

__all__ = ["JAX_TOOLS", "device_name", "leave_the_gpu_to_the_run"]


def device_name() -> str:
    """What JAX computes on, such as "NVIDIA H200"; "cpu" where it has nothing else."""
    return jax.devices()[0].device_kind


def leave_the_gpu_to_the_run() -> None:
    """Compute on the CPU in processes that share a run's work, before anything else is computed in them."""
    if parent_process() is not None:
        jax.config.update("jax_platforms", "cpu")


def _largest(values: jax.Array, count: int) -> jax.Array:
    return jax.lax.top_k(values, count)[1]


def _limit(counts: jax.Array, limit: int) -> int:
    """Compiled code has one shape for all."""
    return limit


JAX_TOOLS = Tools(jnp, jax.lax.scan, jax.lax.stop_gradient, _largest, _limit)
