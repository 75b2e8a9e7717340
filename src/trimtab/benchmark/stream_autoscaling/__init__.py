"""Comparisons of autoscalers for streaming jobs."""
