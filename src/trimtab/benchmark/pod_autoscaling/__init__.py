"""Comparisons of autoscalers for services."""
