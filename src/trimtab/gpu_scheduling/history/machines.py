"""Write the machines of a history as a table that `Cluster(table=...)` reads."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.gpu_scheduling.history.jobs import KNOWN_MODELS, gpu_model
from trimtab.gpu_scheduling.history.tables import Reading

__all__ = ["RACK_SIZE", "write_machines"]

RACK_SIZE = 4
"""Machines to a rack, where the history does not tell the network."""


def write_machines(reading: Reading, frame: pl.DataFrame, out: Path) -> None:
    """Write machine, gpus, gpu_type, cpus, memory_gib, rack; machines without GPUs are left out."""
    frame = reading.without(
        frame,
        pl.col("gpus").is_null() | (pl.col("gpus") < 0) | (pl.col("gpus") % 1 != 0),
        "{} GPUs on a machine",
        column="gpus",
    )
    frame = reading.dropping(frame, pl.col("gpus") == 0, "machine without GPUs")
    frame = reading.without(frame, pl.col("gpu_type").is_null(), "a machine with GPUs of no model")
    frame = reading.without(
        frame, ~pl.col("machine").is_first_distinct(), "machine {} stands there twice", column="machine"
    )
    if frame.is_empty():
        raise HistoryError(f"{reading.path}: no machine with GPUs in it; name a list of machines")
    models = {name: gpu_model(name) for name in frame["gpu_type"].unique()}
    for name in sorted(set(models.values()) - set(KNOWN_MODELS)):
        reading.report.assume(
            f"GPU model {name!r} has no known speed; declare it in gpu_types of the cluster"
        )
    reading.report.assume(f"{RACK_SIZE} machines of a model to a rack, because the network is not told")
    table = (
        frame.with_columns(pl.col("gpu_type").replace_strict(models, return_dtype=pl.String))
        .sort("gpu_type", maintain_order=True)
        .with_columns(
            pl.col("gpus").cast(pl.Int64),
            (pl.int_range(pl.len()) // RACK_SIZE).over("gpu_type").alias("_rack"),
        )
        .with_columns((pl.struct("gpu_type", "_rack").rank("dense") - 1).alias("rack"))
        .select("machine", "gpus", "gpu_type", "cpus", "memory_gib", "rack")
    )
    reading.report.count("machines", len(table))
    reading.report.count("GPUs", int(table["gpus"].sum()))
    table.write_csv(out)
