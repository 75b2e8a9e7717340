"""Access logs: the importer that all wings share."""

from trimtab.rates.common_log import import_common_log

__all__ = ["import_common_log"]
