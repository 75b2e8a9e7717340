"""Replicas, CPU and memory of services: the pod wing."""
