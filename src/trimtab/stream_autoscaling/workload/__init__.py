"""What runs and what arrives: jobs by name, rate traces by name, and their split by days."""

from trimtab.stream_autoscaling.workload.jobs import FROZEN, JOBS, make_job
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace, load_trace, save_trace

__all__ = [
    "FROZEN",
    "JOBS",
    "Provenance",
    "RateTrace",
    "load_trace",
    "make_job",
    "save_trace",
]
