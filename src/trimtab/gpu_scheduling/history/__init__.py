"""Importers from history to a workload of training jobs: look one up in `HISTORY`, call it with a path."""

from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.importers import HISTORY, Importer

__all__ = ["HISTORY", "ImportReport", "Importer"]
