"""Import Slurm's accounting: the output of `sacct -P` (fields separated by |, the first line names them).

    sacct -a -P -S 2024-01-01 -E 2024-04-01 -o JobID,JobName,User,Account,Partition,State,Submit,Start,End,\
Elapsed,NNodes,ReqTRES,AllocTRES

Needed are JobID, Submit, AllocTRES or ReqTRES, and Elapsed or both of Start and End. The arrival is `Submit`.
"""

from __future__ import annotations

import re

import polars as pl

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import gpu_model, workload_from
from trimtab.gpu_scheduling.history.tables import LINE, Reading, parsed, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["count_of", "elapsed_s", "import_slurm_sacct", "memory_mib", "tres"]

WAY_OUT = (
    "export it with sacct -a -P -o JobID,JobName,User,State,Submit,Start,End,Elapsed,NNodes,ReqTRES,AllocTRES"
)
ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?B?", re.IGNORECASE)
MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)([KM]?)", re.IGNORECASE)
UNITS = {"": 1.0, "K": 1024.0, "M": 1024.0**2}
MIG = re.compile(r"\d+g\.\d+gb")
UNFINISHED = (
    "RUNNING",
    "PENDING",
    "SUSPENDED",
    "REQUEUED",
    "RESIZING",
    "CONFIGURING",
    "COMPLETING",
    "STOPPED",
)


def import_slurm_sacct(
    path: str, *, keep_going: bool = False, only_completed: bool = False, partition: str | None = None
) -> tuple[Workload, ImportReport]:
    """Read jobs with GPUs; those that failed or were cancelled after they started held their GPUs, too.

    Steps (12.batch, 12.0) are left out, since the job's own line has it all. Tasks of an array (12_3) are
    jobs of their own; parts of a heterogeneous job (12+0, 12+1) are one gang. A GPU model counts as a demand
    only where `ReqTRES` names it.

    >>> from pathlib import Path
    >>> row = "12|2024-01-01T00:00:00|00:10:00|cpu=8,gres/gpu=4,node=2\\n"
    >>> _ = Path("sacct.txt").write_text("JobID|Submit|Elapsed|AllocTRES\\n" + row)
    >>> jobs, report = import_slurm_sacct("sacct.txt")
    >>> jobs.instances.tolist(), jobs.gpu_milli.tolist()
    ([2], [2000])
    """
    reading = Reading(find_file(path, "*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT, separator="|")
    reading.need(frame, ["JobID", "Submit"], WAY_OUT)
    if not {"AllocTRES", "ReqTRES"} & set(frame.columns):
        raise HistoryError(f"{reading.path}: neither AllocTRES nor ReqTRES, so GPUs are not told; {WAY_OUT}")
    if not ("Elapsed" in frame.columns or {"Start", "End"} <= set(frame.columns)):
        raise HistoryError(f"{reading.path}: neither Elapsed nor Start and End; {WAY_OUT}")
    frame = reading.dropping(frame, pl.col("JobID").str.contains(".", literal=True), "step of a job")
    frame = _of_wanted_states(reading, frame, only_completed, partition)
    frame = _with_durations(reading, frame)
    frame = _with_resources(reading, frame)
    frame = _with_whole_heterogeneous_jobs(frame, report)
    settings = {"only_completed": only_completed, "partition": partition}
    return workload_from(reading, frame, source=f"slurm-sacct {reading.path.name}", settings=settings), report


def _of_wanted_states(
    reading: Reading, frame: pl.DataFrame, only_completed: bool, partition: str | None
) -> pl.DataFrame:
    if partition is not None:
        reading.need(frame, ["Partition"], WAY_OUT)
        frame = reading.dropping(frame, pl.col("Partition").ne_missing(partition), "job of another partition")
    if "State" in frame.columns:
        # "CANCELLED by 1000" begins with the state.
        state = pl.col("State").str.split(" ").list.first().str.strip_suffix("+")
        frame = reading.dropping(frame, state == "PENDING", "job that never started")
        frame = reading.dropping(frame, state.is_in(UNFINISHED), "job that still runs")
        if only_completed:
            frame = reading.dropping(frame, state.ne_missing("COMPLETED"), "job that did not complete")
    elif only_completed:
        reading.need(frame, ["State"], WAY_OUT)
    return frame


def _with_durations(reading: Reading, frame: pl.DataFrame) -> pl.DataFrame:
    has_start, has_end = "Start" in frame.columns, "End" in frame.columns
    frame = reading.times(frame, "Submit", "Start", "End")
    frame = reading.without(frame, pl.col("Submit").is_null(), "no time of submission")
    if has_start:
        frame = reading.dropping(frame, pl.col("Start").is_null(), "job that never started")
    if has_end:
        frame = reading.dropping(frame, pl.col("End").is_null(), "job that still runs")
    if has_start and has_end:
        frame = reading.without(
            frame,
            pl.col("End") < pl.col("Start"),
            "job {} ends before it starts",
            column="JobID",
            lost="jobs that end before they start",
        )
    span = pl.col("End") - pl.col("Start")
    if "Elapsed" not in frame.columns:
        return frame.with_columns(span.alias("duration_s"))
    # Elapsed leaves out what a job was suspended for.
    frame = parsed(reading, frame, "Elapsed", elapsed_s, "which is no duration such as 1-02:03:04")
    return frame.with_columns(pl.coalesce("Elapsed", span).alias("duration_s"))


def _with_resources(reading: Reading, frame: pl.DataFrame) -> pl.DataFrame:
    """What a job was given or, where that is not told, what it asked for."""
    nodes = next((name for name in ("NNodes", "AllocNodes", "ReqNodes") if name in frame.columns), None)
    if nodes:
        frame = parsed(reading, frame, nodes, count_of, "which is no number")
    given = [name for name in ("AllocTRES", "ReqTRES") if name in frame.columns]
    cells = frame.select(pl.coalesce(given).fill_null("")).to_series().to_list()
    asked = frame["ReqTRES"].fill_null("").to_list() if "ReqTRES" in frame.columns else [""] * len(frame)
    found = {cell: tres(cell) for cell in {*cells, *asked}}
    for number, cell in zip(frame[LINE].to_list(), cells, strict=True):
        if found[cell] is None:
            reading.refuse(f"line {number}", f"{cell!r} is no list of resources such as cpu=4,gres/gpu=1")
    if any(MIG.search(cell) for cell in cells):
        reading.report.assume("slices of GPUs (MIG) count as whole GPUs")
    known = [found[cell] or {} for cell in cells]
    models = ["|".join(sorted(_models(found[cell] or {}))) or None for cell in asked]
    told_nodes = pl.Series("told_nodes", [one.get("node") for one in known], pl.Float64)
    frame = frame.with_columns(
        pl.Series("gpus", [gpus_of(one) for one in known], pl.Float64),
        pl.Series("cpus", [one.get("cpu") for one in known], pl.Float64),
        pl.Series("memory_mib", [one.get("mem") for one in known], pl.Float64),
        pl.Series("models", models, pl.String),
        told_nodes,
        pl.Series("_sound", [found[cell] is not None for cell in cells], pl.Boolean),
    ).filter("_sound")
    own = pl.col(nodes) if nodes else pl.lit(None, pl.Float64)
    user = [name for name in ("User", "Account") if name in frame.columns]
    return frame.select(
        LINE,
        pl.col("JobID").alias("id"),
        pl.col("Submit").alias("arrival_s"),
        pl.col("Start").alias("start_s"),
        "duration_s",
        "gpus",
        pl.coalesce("told_nodes", own).alias("nodes"),
        "cpus",
        "memory_mib",
        "models",
        (pl.coalesce(user) if user else pl.lit(None, pl.String)).alias("user"),
        (pl.col("JobName") if "JobName" in frame.columns else pl.lit(None, pl.String)).alias("name"),
    )


def _with_whole_heterogeneous_jobs(frame: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    """Parts 12+0 and 12+1 become job 12: all their GPUs at once, as long as the longest."""
    is_part = pl.col("id").str.contains("+", literal=True)
    parts = frame.filter(is_part).with_columns(pl.col("id").str.split("+").list.first())
    if parts.is_empty():
        return frame
    per_node = (pl.col("gpus") / pl.col("nodes")).filter(pl.col("gpus") > 0)
    with_gpus = pl.col("nodes").filter(pl.col("gpus") > 0)
    whole = parts.group_by("id", maintain_order=True).agg(
        pl.col(LINE).first(),
        pl.col("arrival_s").min(),
        pl.col("start_s").min(),
        pl.col("duration_s").max(),
        pl.col("gpus").sum(),
        # Parts of different shapes: every GPU is an instance.
        pl.when(per_node.n_unique() == 1).then(with_gpus.sum()).alias("nodes"),
        pl.col("cpus").sum(),
        pl.col("memory_mib").sum(),
        pl.col("models").drop_nulls().unique(maintain_order=True).str.join("|"),
        pl.col("user").first(),
        pl.col("name").first(),
    )
    report.count("parts of heterogeneous jobs", len(parts))
    whole = whole.with_columns(pl.when(pl.col("models") != "").then(pl.col("models")).alias("models"))
    return pl.concat([frame.filter(~is_part), whole.select(frame.columns)]).sort(LINE)


def elapsed_s(cell: str) -> float | None:
    """Seconds of a duration as Slurm writes it: days-hours:minutes:seconds.

    >>> elapsed_s("1-02:03:04"), elapsed_s("00:05"), elapsed_s("5 min")
    (93784.0, 5.0, None)
    """
    matched = ELAPSED.fullmatch(cell.strip())
    if matched is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in matched.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def memory_mib(cell: str) -> float | None:
    """Memory as Slurm writes it, in MiB; a bare number is MiB.

    >>> memory_mib("1.5G"), memory_mib("2048K"), memory_mib("much")
    (1536.0, 2.0, None)
    """
    matched = MEMORY.fullmatch(cell.strip())
    return None if matched is None else float(matched[1]) * MIB[matched[2].upper()]


def tres(cell: str) -> dict[str, float] | None:
    """The resources of a job by name; None for what is no such list.

    >>> tres("cpu=8,mem=64G,node=2,gres/gpu:v100=4,gres/gpu=4")["gres/gpu:v100"]
    4.0
    """
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in cell.split(","))):
        name, separator, amount = part.partition("=")
        if not separator:
            return None
        if name == "mem":
            value = memory_mib(amount)
        elif name in ("cpu", "node") or name.startswith("gres/gpu"):
            value = count_of(amount)
        else:
            continue
        if value is None:
            return None
        found[name] = value
    return found


def count_of(cell: str) -> float | None:
    """A number as Slurm writes it: from 1024 on, multiples of 512 have a K, which is 1024 for all it counts.

    >>> count_of("1000"), count_of("1.50K"), count_of("many")
    (1000.0, 1536.0, None)
    """
    matched = NUMBER.fullmatch(cell.strip())
    return None if matched is None else float(matched[1]) * UNITS[matched[2].upper()]


def gpus_of(resources: dict[str, float]) -> float:
    """GPUs in all: the plain number, or the sum over models.

    >>> gpus_of({"gres/gpu:v100": 2, "gres/gpu:p100": 1}), gpus_of({"cpu": 4})
    (3, 0)
    """
    plain = resources.get("gres/gpu")
    return (
        plain
        if plain is not None
        else sum(n for name, n in resources.items() if name.startswith("gres/gpu:"))
    )


def _models(resources: dict[str, float]) -> set[str]:
    return {gpu_model(name.split(":", 1)[1]) for name in resources if name.startswith("gres/gpu:")}
