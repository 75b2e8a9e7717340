"""Importers from real history to a workload: look one up in `HISTORY`, call it with a path."""

from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.importers import HISTORY, Importer

__all__ = ["HISTORY", "ImportReport", "Importer"]
