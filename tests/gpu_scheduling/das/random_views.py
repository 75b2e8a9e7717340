"""Views made up of random numbers, in which some rows have no job, some no machine, and some gangs fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.network import new_network
from trimtab.gpu_scheduling.das.view import JOB_FACTS, MACHINE_FACTS, PAIR_FACTS, View

SMALL = {"window": 6, "width": 8, "layers": 1, "heads": 2, "rank": 3}


def small_design(**changes: Any) -> Design:
    settings: dict[str, Any] = SMALL | changes
    return Design(**settings)


def random_views(count: int, *, window: int = 6, machines: int = 7, seed: int = 0) -> View:
    """The first job of every view waits and fits, and its first machine is there; others may be missing."""
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        return random.normal(size=(count, *shape)).astype(np.float32)

    waits = np.arange(window) < random.integers(1, window + 1, (count, 1))
    real = np.arange(machines) < random.integers(1, machines + 1, (count, 1))
    pairs = numbers(window, machines, len(PAIR_FACTS))
    needed = random.integers(1, 5, (count, window, 1))
    pairs[..., 0] = np.minimum(random.integers(0, 5, (count, window, machines)), needed) / needed
    pairs[:, 0, 0, 0] = 1
    pairs *= (waits[:, :, None] & real[:, None, :])[..., None]
    fits = waits & (pairs[..., 0].sum(-1) >= 1 - 1e-6)
    return View(
        jobs=numbers(window, len(JOB_FACTS)) * waits[..., None],
        waits=waits,
        fits=fits,
        machines=numbers(machines, len(MACHINE_FACTS)) * real[..., None],
        real=real,
        rack=(np.arange(machines) // 2 * real).astype(np.float32),
        pairs=pairs,
        seen=(random.integers(0, 60, (count, machines)) * real).astype(np.float32),
        speed=(random.uniform(0.5, 1.5, (count, machines)) * real).astype(np.float32),
        may_hold=random.random(count) < 0.5,
    )


def mapped(function: Callable[[Any], Any], view: View) -> View:
    """The view with all its arrays put through a function."""
    return View(*(function(values) for values in view))


def padded(view: View, *, jobs: int = 0, machines: int = 0, rubbish: float = 99.0) -> View:
    """The same views with more rows of no job and no machine, in which anything may stand."""
    sizes = {"W": jobs, "M": machines}
    axes = {
        "jobs": "W",
        "waits": "W",
        "fits": "W",
        "machines": "M",
        "real": "M",
        "rack": "M",
        "pairs": "WM",
        "seen": "M",
        "speed": "M",
        "may_hold": "",
    }

    def wider(name: str, values: np.ndarray) -> np.ndarray:
        ends = [(0, 0), *((0, sizes[axis]) for axis in axes[name])]
        ends += [(0, 0)] * (values.ndim - len(ends))
        return np.pad(values, ends, constant_values=False if values.dtype == bool else rubbish)

    return View(*(wider(name, values) for name, values in view._asdict().items()))


def moved_network(design: Design, seed: int = 0) -> Any:
    """Parameters as after some training: every score matters, no bias is 0."""
    random = np.random.default_rng(seed + 1)

    def moved(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: moved(branch) for name, branch in tree.items()}
        if isinstance(tree, list):
            return [moved(branch) for branch in tree]
        return (tree + random.normal(0, 0.3, np.shape(tree))).astype(np.float32)

    return moved(new_network(design, seed))


def hasty(function: Any) -> Any:
    """Compiled in a fifth of the time, to run more slowly."""
    quick = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
    return jax.jit(function, compiler_options=quick)
