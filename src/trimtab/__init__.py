"""trimtab: learned schedulers and autoscalers for clusters.

Public names are loaded when first used, so ``import trimtab`` costs milliseconds and pulls in
neither numba nor polars:

>>> import trimtab
>>> trimtab.__version__
'0.1.0'
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> "module:object". A wing adds its lines here; nothing is imported until asked for.
_PUBLIC: dict[str, str] = {
    "LEAVE_IDLE": "trimtab.dag_scheduling.problem:LEAVE_IDLE",
    "Action": "trimtab.dag_scheduling.problem:Action",
    "ActionError": "trimtab.core.errors:ActionError",
    "Cluster": "trimtab.dag_scheduling.cluster:Cluster",
    "Comparison": "trimtab.benchmark.compare:Comparison",
    "Environment": "trimtab.core.environment:Environment",
    "Episode": "trimtab.dag_scheduling.episode:Episode",
    "Estimate": "trimtab.core.statistics:Estimate",
    "HistoryError": "trimtab.core.errors:HistoryError",
    "Policy": "trimtab.core.policy:Policy",
    "Registry": "trimtab.core.registry:Registry",
    "RegistryError": "trimtab.core.errors:RegistryError",
    "Rule": "trimtab.dag_scheduling.heuristics:Rule",
    "RunFolder": "trimtab.core.run_folder:RunFolder",
    "Settings": "trimtab.core.settings:Settings",
    "SettingsError": "trimtab.core.errors:SettingsError",
    "Simulator": "trimtab.dag_scheduling.simulator.simulator:Simulator",
    "Snapshot": "trimtab.dag_scheduling.problem:Snapshot",
    "Transition": "trimtab.core.environment:Transition",
    "TrimtabError": "trimtab.core.errors:TrimtabError",
    "Workload": "trimtab.dag_scheduling.workload:Workload",
    "WorkloadError": "trimtab.core.errors:WorkloadError",
    "WorkloadSettings": "trimtab.dag_scheduling.workload.presets:WorkloadSettings",
    "compare": "trimtab.benchmark.compare:compare",
    "draw_workload": "trimtab.dag_scheduling.workload.presets:draw_workload",
    "load_workload": "trimtab.dag_scheduling.workload:load_workload",
    "make_policy": "trimtab.dag_scheduling.policies:make_policy",
    "save_workload": "trimtab.dag_scheduling.workload:save_workload",
    "simulate": "trimtab.dag_scheduling.simulator.simulator:simulate",
    "tiny_workload": "trimtab.dag_scheduling.workload.tiny:tiny_workload",
}

__all__ = ["__version__", *_PUBLIC]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    try:
        module_name, object_name = _PUBLIC[name].split(":")
    except KeyError:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}") from None
    value = getattr(import_module(module_name), object_name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
