"""A GPU cluster for any library that speaks Gymnasium: which job starts next, and where.

>>> from trimtab.gpu_scheduling import Cluster, make_workload
>>> from trimtab.gpu_scheduling.gymnasium_env import EnvSettings, GpuSchedulingEnv
>>> jobs = make_workload([0, 5], duration_ms=[60_000, 30_000], gpus=[4, 2])
>>> env = GpuSchedulingEnv(lambda seed: jobs, Cluster(), EnvSettings(max_jobs=4))
>>> observation, info = env.reset(seed=0)
>>> ended = False
>>> while not ended:
...     action = env.action_space.sample(mask=info["action_mask"])
...     observation, reward, ended, truncated, info = env.step(action)
>>> info["metrics"]["mean_jct_min"] > 0
True
"""

from trimtab import gymnasium_base  # first: it says what to install
from trimtab.gpu_scheduling.gymnasium_env.filling import CLUSTER_FACTS, PLACE_FACTS
from trimtab.gpu_scheduling.gymnasium_env.single import GpuSchedulingEnv, WorkloadSampler
from trimtab.gpu_scheduling.gymnasium_env.view import OWN_FACTS, EnvSettings

__all__ = [
    "CLUSTER_FACTS",
    "ENV_ID",
    "OWN_FACTS",
    "PLACE_FACTS",
    "EnvSettings",
    "GpuSchedulingEnv",
    "WorkloadSampler",
    "register",
]

ENV_ID = "trimtab/GpuScheduling-v0"


def register() -> str:
    """Make `gymnasium.make` and `gymnasium.make_vec` know the environment; returns its id.

    >>> register()
    'trimtab/GpuScheduling-v0'
    """
    return gymnasium_base.registered(ENV_ID, f"{__name__}:GpuSchedulingEnv")
