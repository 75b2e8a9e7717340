"""Comparisons of DAG schedulers."""
