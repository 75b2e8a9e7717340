"""Made-up rewards of a policy: steady for a while, and then a change."""

from __future__ import annotations

import numpy as np

BEFORE, AFTER = 1000, 300
CHANGES = ("none", "step -.19", "step -.06", "ramp -.19")


def rewards(change: str, seed: int, *, mean: float = 0.87) -> np.ndarray:
    """Mean .87, AR(1) noise of deviation .023, a daily wave of .015; after 1000 steps the change."""
    draw = np.random.default_rng([seed, 7])
    steps = BEFORE + AFTER
    noise, persistence = np.zeros(steps), 0.6
    noise[0] = draw.normal(0, 0.023)
    for at in range(1, steps):
        noise[at] = persistence * noise[at - 1] + draw.normal(0, 0.023 * np.sqrt(1 - persistence**2))
    time = np.arange(steps)
    wave = 0.015 * np.sin(2 * np.pi * time / 240 + draw.uniform(0, 2 * np.pi))
    after = time >= BEFORE
    drop = {
        "none": 0.0 * time,
        "step -.19": -0.19 * after,
        "step -.06": -0.06 * after,
        "ramp -.19": -0.19 * np.clip((time - BEFORE) / 60, 0, 1),
    }[change]
    return (0.87 + noise + wave + drop) * mean / 0.87
