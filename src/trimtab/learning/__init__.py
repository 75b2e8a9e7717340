"""Algorithms that learn to decide, each generic over wings: they know environments by protocol only."""
