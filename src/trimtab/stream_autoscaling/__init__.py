"""Stream autoscaling: how parallel each operator of a streaming job is, on a Flink-like cluster.

Names are loaded when first used, so ``import trimtab.stream_autoscaling.problem`` stays free of numba,
pydantic and polars:

>>> from trimtab.stream_autoscaling import TraceSettings, draw_trace, make_job, make_policy, simulate
>>> job = make_job("linear:3")
>>> trace = draw_trace(TraceSettings(name="sine"), job, seed=0)
>>> episode = simulate(job, trace, make_policy("ds2"), seed=0)
>>> len(episode.rewards)
1440
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.stream_autoscaling.deployment import Deployment, Objective
    from trimtab.stream_autoscaling.episode import Episode
    from trimtab.stream_autoscaling.heuristics.rule import Rule
    from trimtab.stream_autoscaling.job import Edge, Job, Vertex, load_job, save_job
    from trimtab.stream_autoscaling.policies import POLICIES, make_policy
    from trimtab.stream_autoscaling.problem import Decider, Graph, Samples, Snapshot, StreamPolicy, allowed
    from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator, simulate, simulate_batch
    from trimtab.stream_autoscaling.workload.jobs import JOBS, make_job
    from trimtab.stream_autoscaling.workload.presets import TRACES, TraceSettings, draw_trace
    from trimtab.stream_autoscaling.workload.traces import RateTrace, load_trace, save_trace

_HOMES = {
    "deployment": ("Deployment", "Objective"),
    "episode": ("Episode",),
    "heuristics.rule": ("Rule",),
    "job": ("Edge", "Job", "Vertex", "load_job", "save_job"),
    "policies": ("POLICIES", "make_policy"),
    "problem": ("Decider", "Graph", "Samples", "Snapshot", "StreamPolicy", "allowed"),
    "simulator.simulator": ("StreamSimulator", "simulate", "simulate_batch"),
    "workload.jobs": ("JOBS", "make_job"),
    "workload.presets": ("TRACES", "TraceSettings", "draw_trace"),
    "workload.traces": ("RateTrace", "load_trace", "save_trace"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "JOBS",
    "POLICIES",
    "TRACES",
    "Decider",
    "Deployment",
    "Edge",
    "Episode",
    "Graph",
    "Job",
    "Objective",
    "RateTrace",
    "Rule",
    "Samples",
    "Snapshot",
    "StreamPolicy",
    "StreamSimulator",
    "TraceSettings",
    "Vertex",
    "allowed",
    "draw_trace",
    "load_job",
    "load_trace",
    "make_job",
    "make_policy",
    "save_job",
    "save_trace",
    "simulate",
    "simulate_batch",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'trimtab.stream_autoscaling' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
