"""Pod autoscaling: replicas, CPU and memory of services, on a Kubernetes-like cluster.

Names are loaded when first used, so ``import trimtab.pod_autoscaling.problem`` stays free of numba,
pydantic and polars:

>>> from trimtab.pod_autoscaling import TraceSettings, draw_trace, make_application, make_policy, simulate
>>> web = make_application("web")
>>> trace = draw_trace(TraceSettings(name="diurnal", mean_cores=1, hours=0.25), web, seed=0)
>>> episode = simulate(web, trace, make_policy("hpa:target=70"), seed=0)
>>> len(episode.rewards)
60
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.pod_autoscaling.application import Application, Segment
    from trimtab.pod_autoscaling.deployment import Deployment, Objective
    from trimtab.pod_autoscaling.drift import Change, Drift
    from trimtab.pod_autoscaling.episode import Episode
    from trimtab.pod_autoscaling.fitting.fit import fit_application
    from trimtab.pod_autoscaling.guarding import GuardedPolicy
    from trimtab.pod_autoscaling.heuristics.oracle import Oracle
    from trimtab.pod_autoscaling.heuristics.rule import Rule
    from trimtab.pod_autoscaling.policies import POLICIES, make_policy
    from trimtab.pod_autoscaling.problem import Decider, PodPolicy, Pods, Samples, Services, Snapshot, allowed
    from trimtab.pod_autoscaling.simulator.drawn import Drawn
    from trimtab.pod_autoscaling.simulator.simulator import Simulator, simulate, simulate_batch
    from trimtab.pod_autoscaling.workload.applications import (
        APPLICATIONS,
        application_names,
        load_application,
        make_application,
        save_application,
    )
    from trimtab.pod_autoscaling.workload.presets import TRACES, TraceSettings, draw_trace
    from trimtab.pod_autoscaling.workload.traces import RateTrace, load_trace, save_trace

_HOMES = {
    "application": (
        "Application",
        "Segment",
    ),
    "deployment": (
        "Deployment",
        "Objective",
    ),
    "drift": (
        "Change",
        "Drift",
    ),
    "episode": ("Episode",),
    "fitting.fit": ("fit_application",),
    "guarding": ("GuardedPolicy",),
    "heuristics.oracle": ("Oracle",),
    "heuristics.rule": ("Rule",),
    "policies": (
        "POLICIES",
        "make_policy",
    ),
    "problem": (
        "Decider",
        "PodPolicy",
        "Pods",
        "Samples",
        "Services",
        "Snapshot",
        "allowed",
    ),
    "simulator.drawn": ("Drawn",),
    "simulator.simulator": (
        "Simulator",
        "simulate",
        "simulate_batch",
    ),
    "workload.applications": (
        "APPLICATIONS",
        "application_names",
        "load_application",
        "make_application",
        "save_application",
    ),
    "workload.presets": (
        "TRACES",
        "TraceSettings",
        "draw_trace",
    ),
    "workload.traces": (
        "RateTrace",
        "load_trace",
        "save_trace",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "APPLICATIONS",
    "POLICIES",
    "TRACES",
    "Application",
    "Change",
    "Decider",
    "Deployment",
    "Drawn",
    "Drift",
    "Episode",
    "GuardedPolicy",
    "Objective",
    "Oracle",
    "PodPolicy",
    "Pods",
    "RateTrace",
    "Rule",
    "Samples",
    "Segment",
    "Services",
    "Simulator",
    "Snapshot",
    "TraceSettings",
    "allowed",
    "application_names",
    "draw_trace",
    "fit_application",
    "load_application",
    "load_trace",
    "make_application",
    "make_policy",
    "save_application",
    "save_trace",
    "simulate",
    "simulate_batch",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trimtab.pod_autoscaling' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
