"""Compile quickly and each program once: most of a learning test's time is compiling."""

from collections.abc import Generator

import jax
import pytest

QUICKLY = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="package", autouse=True)
def quick_compilation(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    folder = str(tmp_path_factory.mktemp("compiled"))
    before = {name: jax.config.values[name] for name in ("jax_compilation_cache_dir", *QUICKLY)}
    for name, value in {"jax_compilation_cache_dir": folder, **QUICKLY}.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
