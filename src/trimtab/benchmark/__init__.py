"""Honest comparisons: suites, tables, figures and the report people open."""
