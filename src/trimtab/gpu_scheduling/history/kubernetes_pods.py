"""Import pods with GPUs from a CSV, as a monitoring database or a watch on the API server writes it.

The first line names the columns, in any order and case:

    name        of the pod
    created     its creationTimestamp
    started     when its containers began to run
    finished    when the last of them ended
    gpus        nvidia.com/gpu; may be a part of one, such as 0.5
    namespace   (may be missing, like all below)
    owner       name of the Job, PyTorchJob, MPIJob ...
    group       pod group; where there is none, the owner
    user        where there is none, the namespace
    cpu         4 or 500m
    memory      16Gi, 512M or bytes
    gpu_model   models it may run on: V100, or V100|P100
    phase       Succeeded, Failed, Running, Pending

Times are ISO 8601 or seconds. Pods of one namespace and group (or owner) that ran at the same time are a
gang; those that ran after all of these had ended (a retry, the next of a ReplicaSet) are a job of their own.
"""

from __future__ import annotations

import math
import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.history.jobs import workload_from
from trimtab.gpu_scheduling.history.tables import LINE, Reading, parsed, read_table
from trimtab.gpu_scheduling.workload import Workload
from trimtab.rates.reading import find_file

__all__ = ["import_kubernetes_pods", "quantity"]

NEEDED = ("name", "created", "started", "finished", "gpus")
WAY_OUT = "give a CSV with columns name, created, started, finished and gpus"
QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d{1,2})|([numkKMGTPE]|[KMGTPE]i))?", re.ASCII)
RUN = ["namespace", "_gang", "_run"]
SMALL = {None: 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3}
DECIMAL = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
FACTORS = SMALL | DECIMAL | {f"{prefix}i": 2.0 ** (10 * (n + 1)) for n, prefix in enumerate("KMGTPE")}


def import_kubernetes_pods(
    path: str, *, keep_going: bool = False, gangs: bool = True, only_completed: bool = False
) -> tuple[Workload, ImportReport]:
    """Read pods and put them together to gangs; with `gangs=False` every pod is a job of its own.

    A gang comes when its first pod was created and runs from the first start to the last end. It is as large
    as when it held most GPUs: a pod that took over from another does not count beside it. Pods without GPUs
    (launchers) are left out.

    >>> from pathlib import Path
    >>> head = "name,owner,created,started,finished,gpus\\n"
    >>> _ = Path("pods.csv").write_text(head + "a,bert,0,5,65,4\\nb,bert,1,5,60,4\\n")
    >>> jobs, report = import_kubernetes_pods("pods.csv")
    >>> jobs.instances.tolist(), jobs.duration_ms.tolist()
    ([2], [60000])
    """
    reading = Reading(find_file(path, "*.csv*", WAY_OUT), keep_going=keep_going)
    report = reading.report
    frame = read_table(reading, way_out=WAY_OUT, lower=True)
    reading.need(frame, (*NEEDED, "phase") if only_completed else NEEDED, WAY_OUT)
    texts = ("namespace", "owner", "group", "user", "gpu_model", "phase")
    frame = frame.with_columns(
        pl.lit(None, pl.String).alias(name) for name in (*texts, "cpu", "memory") if name not in frame.columns
    )
    frame = reading.without(frame, pl.col("name").is_null(), "a pod without a name")
    for column in ("gpus", "cpu", "memory"):
        frame = parsed(reading, frame, column, quantity, "which is no quantity such as 2, 500m or 16Gi")
    frame = reading.times(frame, "created", "started", "finished")
    frame = reading.dropping(frame, pl.col("gpus").fill_null(0) == 0, "pod without GPUs")
    frame = reading.without(
        frame,
        ~pl.struct("namespace", "name", "created").is_first_distinct(),
        "pod {} stands there twice",
        column="name",
        lost="pods with the name of another",
    )
    frame = reading.without(
        frame,
        pl.col("finished") < pl.col("started"),
        "pod {} ends before it starts",
        column="name",
        lost="pods that end before they start",
    )
    own = pl.concat_str(pl.col("name"), pl.lit("@"), pl.col("created").cast(pl.String), ignore_nulls=True)
    key = pl.coalesce("group", "owner", own) if gangs else own
    jobs = _gangs(_with_runs(frame.with_columns(key.alias("_gang"))))
    jobs = reading.dropping(jobs, pl.col("waiting"), "job with a pod that never started")
    jobs = reading.dropping(jobs, pl.col("running"), "job with a pod that still runs")
    if only_completed:
        jobs = reading.dropping(jobs, pl.col("unsuccessful"), "job with a pod that did not complete")
    report.count("pods", len(frame))
    _tell(jobs, report)
    settings = {"gangs": gangs, "only_completed": only_completed}
    source = f"kubernetes-pods {reading.path.name}"
    return workload_from(reading, jobs, source=source, settings=settings), report


def _with_runs(pods: pl.DataFrame) -> pl.DataFrame:
    """Number the runs of a gang: a new one begins with the first pod after all before it have ended.

    Pods that still run have no end.
    """
    pods = pods.with_columns(
        pl.when(pl.col("phase") == "Running").then(None).otherwise(pl.col("finished")).alias("finished")
    )
    pods = pods.with_columns(
        pl.coalesce("started", "created", pl.lit(-math.inf)).alias("_begin"),
        pl.col("finished").fill_null(math.inf).alias("_end"),
    )
    pods = _beside_a_run(pods.sort("_begin", maintain_order=True))
    pods = pods.sort("_begin", -pl.col("_end"), maintain_order=True)
    all_ended = pl.col("_begin") >= pl.col("_end").cum_max().shift(1)
    pods = pods.with_columns(all_ended.fill_null(False).cum_sum().over("namespace", "_gang").alias("_run"))
    return _with_holders(pods).sort(LINE)


def _beside_a_run(pods: pl.DataFrame) -> pl.DataFrame:
    """Put a pod that never started to the first run it waited beside, for a moment: it joins no two runs.

    It waits from its creation on, for ever where no end is told. Where nothing ran meanwhile it stays alone.
    """
    ran = pl.col("started").is_not_null()
    last_end = pl.when(ran).then("_end").cum_max().forward_fill().over("namespace", "_gang")
    next_begin = pl.when(ran).then("_begin").backward_fill().over("namespace", "_gang")
    moment = (
        pl.when(last_end > pl.col("_begin")).then("_begin").when(next_begin < pl.col("_end")).then(next_begin)
    )
    kept = ran | moment.is_null()
    return pods.with_columns(
        pl.when(kept).then(name).otherwise(moment).alias(name) for name in ("_begin", "_end")
    )


def _with_holders(pods: pl.DataFrame) -> pl.DataFrame:
    """Mark the pods of the moment at which a run held most GPUs; mostly these are all of them."""
    takes_turns = ((pl.col("_begin").max() >= pl.col("_end").min()) & (pl.len() > 1)).over(RUN)
    pods = pods.with_columns(takes_turns.alias("_takes_turns"), pl.lit(True).alias("_held"))
    in_turns = [
        run.with_columns(pl.Series("_held", _held_at_most(run)))
        for run in pods.filter("_takes_turns").partition_by(RUN)
    ]
    return pl.concat([pods.filter(~pl.col("_takes_turns")), *in_turns])


def _held_at_most(run: pl.DataFrame) -> NDArray[np.bool_]:
    """The pods of a run, in order of their begin, that held GPUs when most were held at once."""
    begin, end, gpus = (run[name].to_numpy() for name in ("_begin", "_end", "gpus"))
    order = np.argsort(end)
    let_go = np.concatenate([[0.0], np.cumsum(gpus[order])])[np.searchsorted(end[order], begin, "right")]
    moment = begin[np.argmax(np.cumsum(gpus) - let_go)]
    return (begin <= moment) & (end > moment)


def _gangs(pods: pl.DataFrame) -> pl.DataFrame:
    held = pl.col("_held")
    each = pl.col("gpus").filter(held)
    of_gang = pl.concat_str(pl.col("namespace"), pl.col("_gang"), separator="/", ignore_nulls=True).first()
    run = pl.col("_run").first()
    jobs = pods.group_by(RUN, maintain_order=True).agg(
        pl.col(LINE).first(),
        pl.when(run > 0).then(pl.format("{}#{}", of_gang, run + 1)).otherwise(of_gang).alias("id"),
        pl.coalesce("user", "namespace").first().alias("user"),
        pl.coalesce("group", "owner", "name").first().alias("name"),
        pl.col("created").min().alias("arrival_s"),
        pl.col("started").min().alias("start_s"),
        (pl.col("finished").max() - pl.col("started").min()).alias("duration_s"),
        each.sum().alias("gpus"),
        # Pods of different sizes: every GPU is an instance.
        pl.when(each.n_unique() == 1).then(each.len()).otherwise(each.sum().ceil()).alias("instances"),
        pl.when(each.n_unique() == 1).then((each.first() * 1000).round()).otherwise(1000).alias("gpu_milli"),
        pl.col("cpu").filter(held).sum().alias("cpus"),
        (pl.col("memory").filter(held).sum() / 2**20).alias("memory_mib"),
        pl.col("gpu_model").drop_nulls().unique(maintain_order=True).alias("models"),
        pl.col("started").is_null().any().alias("waiting"),
        pl.col("finished").is_null().any().alias("running"),
        pl.col("phase").ne_missing("Succeeded").any().alias("unsuccessful"),
        (~held).any().alias("took_over"),
    )
    return jobs.with_columns(
        (pl.col("_run").max().over("namespace", "_gang") > 0).alias("one_of_several"),
        (pl.col("models").list.len() > 1).alias("differ"),
        pl.when(pl.col("models").list.len() > 0).then(pl.col("models").list.join("|")).alias("models"),
    )


def _tell(jobs: pl.DataFrame, report: ImportReport) -> None:
    told = {
        "one_of_several": "jobs of an owner whose pods ran one after another: each run is a job",
        "took_over": "jobs with pods that took over from others: as large as when most GPUs were held",
        "differ": "jobs whose pods ask for different GPU models: any of these will do",
    }
    for column, sentence in told.items():
        report.fill(sentence, int(jobs[column].sum()))


def quantity(cell: str) -> float | None:
    """A quantity as Kubernetes writes it: with a suffix, with an exponent, or with neither.

    >>> quantity("500m"), quantity("16Ki"), quantity("2"), quantity("1e3"), quantity("two")
    (0.5, 16384.0, 2.0, 1000.0, None)
    """
    matched = QUANTITY.fullmatch(cell.strip())
    return None if matched is None else float(matched[1] + (matched[2] or "")) * FACTORS[matched[3]]
