"""Importers from real history to a rate trace or a job: look one up in `HISTORY`, call it with a path."""

from trimtab.core.import_report import ImportReport
from trimtab.stream_autoscaling.history.importers import HISTORY, Importer

__all__ = ["HISTORY", "ImportReport", "Importer"]
