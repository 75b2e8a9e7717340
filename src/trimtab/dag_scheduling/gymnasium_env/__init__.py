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

try:
    import gymnasium
except ModuleNotFoundError as missing:
    if missing.name != "gymnasium":
        raise
    raise ImportError(
        "gymnasium is not installed; in the checkout of trimtab, pip install '.[gym]'"
    ) from None

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

    >>> gymnasium.spec(register()).id
    'trimtab/DagScheduling-v0'
    """
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point=f"{__name__}:DagSchedulingEnv",
            vector_entry_point=f"{__name__}:DagSchedulingVectorEnv",
        )
    return ENV_ID
