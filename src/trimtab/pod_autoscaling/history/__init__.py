"""Importers from real history to a trace or an application: look one up in `HISTORY`, call it with a path."""

from trimtab.core.import_report import ImportReport
from trimtab.pod_autoscaling.history.importers import HISTORY, Importer

__all__ = ["HISTORY", "ImportReport", "Importer"]
