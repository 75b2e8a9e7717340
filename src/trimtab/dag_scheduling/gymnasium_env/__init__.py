"""The DAG scheduling problem for any library that speaks Gymnasium: one environment, or many at once.

>>> from trimtab.dag_scheduling.gymnasium_env import DagSchedulingEnv, EnvSettings
>>> from trimtab.dag_scheduling.cluster import Cluster
>>> from trimtab.dag_scheduling.workload import JobRecord, StageRecord, batch, build_profile
>>> profile = build_profile([JobRecord("one", [StageRecord(tasks=4, later_wave={1: [1000]})])])
>>> env = DagSchedulingEnv(lambda seed: batch(profile, jobs=2, seed=seed), Cluster(executors=2))
>>> observation, info = env.reset(seed=0)
>>> ended = False
>>> while not ended:
...     action = env.action_space.sample(mask=info["action_mask"])
...     observation, reward, ended, truncated, info = env.step(action)
>>> info["metrics"]["mean_jct_s"] > 0
True
"""

from trimtab import gymnasium_base  # first: it says what to install
from trimtab.dag_scheduling.gymnasium_env.single import DagSchedulingEnv
from trimtab.dag_scheduling.gymnasium_env.vector import DagSchedulingVectorEnv
from trimtab.dag_scheduling.gymnasium_env.view import EnvSettings, WorkloadSampler

__all__ = [
    "ENV_ID",
    "DagSchedulingEnv",
    "DagSchedulingVectorEnv",
    "EnvSettings",
    "WorkloadSampler",
    "register",
]

ENV_ID = "trimtab/DagScheduling-v0"


def register() -> str:
    """Make `gymnasium.make` and `gymnasium.make_vec` know the environment; returns its id.

    >>> register()
    'trimtab/DagScheduling-v0'
    """
    return gymnasium_base.registered(
        ENV_ID, f"{__name__}:DagSchedulingEnv", f"{__name__}:DagSchedulingVectorEnv"
    )
