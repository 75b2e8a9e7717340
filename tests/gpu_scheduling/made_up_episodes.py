"""Episodes made up by hand, so that what pictures and reports show can be checked by counting."""

from __future__ import annotations

import numpy as np

from trimtab.gpu_scheduling.episode import Episode, RunLog

MINUTE_MS = 60_000


def made_up_episode(policy: str = "mine", *, seed: int = 0, late_min: int = 0) -> Episode:
    """Two machines of two GPUs, four jobs; times in minutes.

    Job 0 holds both GPUs of m0 from 0 to 10. Jobs 1 and 2 share GPU 0 of m1 from 0 to 6 and from 2 to 10, a
    half and a quarter of it. Job 3 (two GPUs) comes at 1, runs on m1 from 10 to 12, is stopped, and runs on
    m0 from 14 to 20 (`late_min` later).
    """
    rows = [  # job, machine, GPUs as bits, thousandths, from, to, complete
        (1, 1, 0b01, 500, 0, 6, True),
        (0, 0, 0b11, 2000, 0, 10, True),
        (2, 1, 0b01, 250, 2, 10, True),
        (3, 1, 0b11, 2000, 10, 12, False),
        (3, 0, 0b11, 2000, 14 + late_min, 20 + late_min, True),
    ]
    job, machine, mask, milli, start, end, completed = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    gpus = np.array([2.0, 0.5, 0.25, 2.0])
    run_min = np.array([10, 6, 8, 8])
    busy = float((milli / 1000 * (end - start)).sum())
    return Episode(
        policy=policy,
        seed=seed,
        machine_names=("m0", "m1"),
        machine_gpus=np.array([2, 2]),
        gpus=gpus,
        arrival_ms=np.array([0, 0, 2, 1]) * MINUTE_MS,
        first_start_ms=np.array([0, 0, 2, 10]) * MINUTE_MS,
        completion_ms=np.array([10, 6, 10, 20 + late_min]) * MINUTE_MS,
        duration_ms=run_min * MINUTE_MS,
        alone_ms=run_min * MINUTE_MS,
        run_ms=run_min * MINUTE_MS,
        fee=gpus * run_min / 60,
        preemptions=np.array([0, 0, 0, 1]),
        busy_gpu_ms=busy * MINUTE_MS,
        stranded_gpu_ms=0.0,
        reward=-1,
        decisions=6,
        events=8,
        runs=RunLog(
            job=job,
            machine=machine,
            gpu_mask=mask.astype(np.uint64),
            milli=milli,
            start_ms=start * MINUTE_MS,
            end_ms=end * MINUTE_MS,
            completed=completed,
        ),
    )
