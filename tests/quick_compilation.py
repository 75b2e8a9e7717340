"""Compile in half the time what then runs slower: for trainings of a few steps, which is all compiling."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["compiling_quickly"]


@contextmanager
def compiling_quickly() -> Generator[None]:
    """Let JAX leave out most optimisations; what is compiled already stays as it is."""
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
