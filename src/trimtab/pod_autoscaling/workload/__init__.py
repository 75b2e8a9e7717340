"""What runs and what arrives: applications by name, rate traces by name, and their split by time."""

from trimtab.pod_autoscaling.workload.applications import (
    APPLICATIONS,
    application_names,
    load_application,
    make_application,
    save_application,
)
from trimtab.pod_autoscaling.workload.traces import Provenance, RateTrace, load_trace, save_trace

__all__ = [
    "APPLICATIONS",
    "Provenance",
    "RateTrace",
    "application_names",
    "load_application",
    "load_trace",
    "make_application",
    "save_application",
    "save_trace",
]
