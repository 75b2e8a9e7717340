"""Counts or rates from a CSV: the importer that all wings share."""

from trimtab.rates.csv_counts import import_csv_counts

__all__ = ["import_csv_counts"]
