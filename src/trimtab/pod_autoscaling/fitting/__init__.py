"""Fit an application to what was measured of a real service."""

from trimtab.pod_autoscaling.fitting.fit import fit_application
from trimtab.pod_autoscaling.fitting.report import Estimate, FitReport
from trimtab.pod_autoscaling.fitting.service_history import COLUMNS, ServiceHistory, service_history

__all__ = ["COLUMNS", "Estimate", "FitReport", "ServiceHistory", "fit_application", "service_history"]
