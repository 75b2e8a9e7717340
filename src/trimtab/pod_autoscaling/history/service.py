"""What was measured of a service, from wherever it lies: the reader that fits the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.fitting.service_history import ServiceHistory
from trimtab.pod_autoscaling.history.service_csv import read_service_csv
from trimtab.pod_autoscaling.history.service_prometheus import read_service_prometheus
from trimtab.rates.reading import is_address

__all__ = ["ServiceReader", "reader_for"]

ServiceReader = Callable[..., tuple[ServiceHistory, ImportReport]]


def reader_for(source: str) -> ServiceReader:
    """Prometheus for an address or a folder of saved answers, otherwise a CSV.

    >>> reader_for("http://prometheus:9090").__name__, reader_for("shop.csv").__name__
    ('read_service_prometheus', 'read_service_csv')
    """
    return read_service_prometheus if is_address(source) or Path(source).is_dir() else read_service_csv
