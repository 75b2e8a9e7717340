"""`make bench-decima-variance`: how much noise a baseline that knows the input takes out of the gradient.

Two servers, jobs of heavy-tailed size (see `load_balance.py`), a fixed policy. The variance of the gradient
with the same-sequence baseline, which compares rollouts of one and the same job sequence, over that with a
baseline that knows the state alone. Both are measured on the same batches, one for each seed.
"""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np

from benchmarks.decima_settings import PROCESSES, finish_after
from benchmarks.load_balance import gradient_variance
from benchmarks.results import Row
from trimtab.core.statistics import paired_ratio

SEEDS = range(5)
GROUPS, ROLLOUTS, JOBS = 64, 8, 256
WARM_UP = 200
"""Batches the state-value network learns from first; the other baseline has nothing to learn."""
BAR = 0.2


def variances(seed: int, *, groups: int, rollouts: int, jobs: int, warm_up: int) -> tuple[float, float]:
    """Variance of the gradient with the same-sequence and with the state-value baseline."""
    knowing = gradient_variance("same_sequence", groups=groups, rollouts=rollouts, jobs=jobs, seed=seed)
    blind = gradient_variance(
        "state_value", groups=groups, rollouts=rollouts, jobs=jobs, warm_up=warm_up, seed=seed
    )
    return knowing, blind


def main() -> None:
    started = time.perf_counter()
    measure = partial(variances, groups=GROUPS, rollouts=ROLLOUTS, jobs=JOBS, warm_up=WARM_UP)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        knowing, blind = np.array(list(pool.map(measure, SEEDS))).T
    share = paired_ratio(knowing, blind, seed=0)
    rows = [
        Row(
            "same-sequence baseline: variance of the gradient / state-value baseline's",
            share.value,
            f"<= {BAR:g}",
            share.value <= BAR,
            share.low,
            share.high,
        )
    ]
    finish_after("decima-variance", rows, started)


if __name__ == "__main__":
    main()
