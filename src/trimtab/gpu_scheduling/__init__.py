"""GPU scheduling: which training job goes first, and on which machines.

Names are loaded when first used, so ``import trimtab.gpu_scheduling.problem`` stays free of numba,
pydantic and polars:

>>> from trimtab.gpu_scheduling import Cluster, make_policy, make_workload, simulate
>>> jobs = make_workload([0, 5], duration_ms=[60_000, 30_000], gpus=[4, 2])
>>> simulate(jobs, make_policy("fifo"), Cluster()).policy
'fifo'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.gpu_scheduling.cluster import Cluster, GpuType, MachineGroup, load_machines
    from trimtab.gpu_scheduling.episode import Episode
    from trimtab.gpu_scheduling.heuristics.rule import Rule
    from trimtab.gpu_scheduling.policies import POLICIES, make_policy
    from trimtab.gpu_scheduling.problem import (
        HOLD,
        NOWHERE,
        Action,
        Snapshot,
        fits_on,
        gang_fits,
        preempt,
        start,
    )
    from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
    from trimtab.gpu_scheduling.workload import Workload, load_workload, make_workload, save_workload
    from trimtab.gpu_scheduling.workload.presets import WORKLOADS, WorkloadSettings, draw_workload

__all__ = [
    "HOLD",
    "NOWHERE",
    "POLICIES",
    "WORKLOADS",
    "Action",
    "Cluster",
    "Episode",
    "GpuType",
    "MachineGroup",
    "Rule",
    "Simulator",
    "Snapshot",
    "Workload",
    "WorkloadSettings",
    "draw_workload",
    "fits_on",
    "gang_fits",
    "load_machines",
    "load_workload",
    "make_policy",
    "make_workload",
    "preempt",
    "save_workload",
    "simulate",
    "start",
]

_HOMES = {
    "cluster": ("Cluster", "GpuType", "MachineGroup", "load_machines"),
    "episode": ("Episode",),
    "heuristics.rule": ("Rule",),
    "policies": ("POLICIES", "make_policy"),
    "problem": ("HOLD", "NOWHERE", "Action", "Snapshot", "fits_on", "gang_fits", "preempt", "start"),
    "simulator.simulator": ("Simulator", "simulate"),
    "workload": ("Workload", "load_workload", "make_workload", "save_workload"),
    "workload.presets": ("WORKLOADS", "WorkloadSettings", "draw_workload"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trimtab.gpu_scheduling' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
