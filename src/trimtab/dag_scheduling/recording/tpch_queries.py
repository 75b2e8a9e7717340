"""The 22 TPC-H queries as Spark SQL, with the validation parameters of the public specification."""

from __future__ import annotations

from importlib import resources

from trimtab.dag_scheduling.recording.errors import RecordingError

__all__ = ["QUERY_NUMBERS", "query_text"]

QUERY_NUMBERS = range(1, 23)


def query_text(query: int, *, scale_factor: float) -> str:
    """Return the SQL of one query.

    Only query 11 depends on the scale factor: the specification asks for the fraction 0.0001 / SF,
    so that the share of parts it returns stays the same at every size.

    >>> query_text(6, scale_factor=0.1).splitlines()[0]
    'select sum(l_extendedprice * l_discount) as revenue'
    """
    if query not in QUERY_NUMBERS:
        raise RecordingError(f"TPC-H has queries 1 to 22, not {query}; name only those")
    file = resources.files("trimtab.dag_scheduling.recording") / "queries" / f"q{query:02d}.sql"
    return file.read_text(encoding="utf-8").replace(":fraction", f"{0.0001 / scale_factor:.10f}")
