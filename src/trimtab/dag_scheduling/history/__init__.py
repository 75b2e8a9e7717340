"""Importers from real history to a workload: look one up in `HISTORY`, call it with a path."""

from trimtab.dag_scheduling.history.importers import HISTORY, Importer
from trimtab.dag_scheduling.history.report import ImportReport

__all__ = ["HISTORY", "ImportReport", "Importer"]
