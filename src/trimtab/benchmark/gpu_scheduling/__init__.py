"""Comparisons of GPU schedulers."""
