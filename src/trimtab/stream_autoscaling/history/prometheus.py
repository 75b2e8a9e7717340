"""A rate from Prometheus: the importer that all wings share."""

from trimtab.rates.prometheus import import_prometheus

__all__ = ["import_prometheus"]
