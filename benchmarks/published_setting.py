"""The setting in which the published simulator was measured: public TPC-H profile, compat rules."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchmarks.results import shared_data
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.history.wave_profile import read_wave_profile
from trimtab.dag_scheduling.workload import Profile, Provenance, Workload, build_profile, poisson

SIZES_GB = (2, 5, 10, 20, 50, 100)
CLUSTER = Cluster(executors=50, rules="compat")


@lru_cache(maxsize=1)
def published_profile() -> Profile:
    path = shared_data() / "tpch_spark_profile" / "profiles.json.gz"
    return build_profile(read_wave_profile(path, sizes_gb=SIZES_GB))


def published_batch(seed: int) -> Workload:
    """20 jobs at once, drawn as the published measurements drew them."""
    profile = published_profile()
    place = {name: kind for kind, name in enumerate(profile.names)}
    random = np.random.RandomState(seed)
    kinds = []
    for _ in range(20):
        query = random.randint(22) + 1
        size = SIZES_GB[random.randint(6)]
        kinds.append(place[f"tpch-q{query}-{size}g"])
    return Workload(profile, np.array(kinds), np.zeros(20, np.int64), Provenance(f"published batch {seed}"))


def published_stream(seed: int, *, jobs: int, gap_s: float) -> Workload:
    return poisson(published_profile(), jobs=jobs, mean_gap_ms=gap_s * 1000, seed=seed)
