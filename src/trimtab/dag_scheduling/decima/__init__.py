"""Decima (SIGCOMM'19): a learned scheduler for DAG jobs."""
