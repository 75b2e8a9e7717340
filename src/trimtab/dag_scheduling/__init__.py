"""DAG scheduling: which stage runs next and on how many executors, for jobs on a Spark-like cluster.

Names are loaded when first used, so ``import trimtab.dag_scheduling.problem`` stays free of numba,
pydantic and polars:

>>> from trimtab.dag_scheduling import Cluster, make_policy, simulate, tiny_workload
>>> episode = simulate(tiny_workload("two-jobs"), make_policy("fair"), Cluster(executors=2))
>>> episode.policy
'fair'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
    from trimtab.dag_scheduling.episode import Episode
    from trimtab.dag_scheduling.heuristics import Parameter, Rule
    from trimtab.dag_scheduling.policies import POLICIES, make_policy
    from trimtab.dag_scheduling.problem import (
        LEAVE_IDLE,
        NOWHERE,
        Action,
        Snapshot,
        choices,
        observe,
    )
    from trimtab.dag_scheduling.simulator.simulator import Simulator, simulate
    from trimtab.dag_scheduling.workload import (
        JobRecord,
        Profile,
        StageRecord,
        Workload,
        batch,
        build_profile,
        load_workload,
        poisson,
        save_workload,
    )
    from trimtab.dag_scheduling.workload.presets import WORKLOADS, WorkloadSettings, draw_workload
    from trimtab.dag_scheduling.workload.tiny import tiny_workload

__all__ = [
    "LEAVE_IDLE",
    "NOWHERE",
    "POLICIES",
    "WORKLOADS",
    "Action",
    "Cluster",
    "Episode",
    "ExecutorClass",
    "JobRecord",
    "Parameter",
    "Profile",
    "Rule",
    "Simulator",
    "Snapshot",
    "StageRecord",
    "Workload",
    "WorkloadSettings",
    "batch",
    "build_profile",
    "choices",
    "draw_workload",
    "load_workload",
    "make_policy",
    "observe",
    "poisson",
    "save_workload",
    "simulate",
    "tiny_workload",
]

_HOMES = {
    "cluster": ("Cluster", "ExecutorClass"),
    "episode": ("Episode",),
    "heuristics": ("Parameter", "Rule"),
    "policies": ("POLICIES", "make_policy"),
    "problem": ("LEAVE_IDLE", "NOWHERE", "Action", "Snapshot", "choices", "observe"),
    "simulator.simulator": ("Simulator", "simulate"),
    "workload": (
        "JobRecord",
        "Profile",
        "StageRecord",
        "Workload",
        "batch",
        "build_profile",
        "load_workload",
        "poisson",
        "save_workload",
    ),
    "workload.presets": ("WORKLOADS", "WorkloadSettings", "draw_workload"),
    "workload.tiny": ("tiny_workload",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trimtab.dag_scheduling' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
