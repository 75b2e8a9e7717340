"""From rows of a history to a workload: what every source has in common.

An importer brings a frame with these columns; those marked * may be missing:

    line         where the row stands
    arrival_s    when the job came
    duration_s   how long it ran
    start_s*     when it began to run
    gpus         GPUs in all, or instances and gpu_milli (of one instance)
    nodes*       machines they were on
    cpus*        CPU cores in all
    memory_mib*  memory in all
    id*, user*, name*
    models*      GPU models it may run on, such as V100|P100
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from trimtab.core.errors import HistoryError, WorkloadError
from trimtab.core.import_report import ImportReport
from trimtab.gpu_scheduling.cluster import MOST_TYPES, TYPES
from trimtab.gpu_scheduling.history.tables import Reading
from trimtab.gpu_scheduling.workload.clusters import TRACE_TYPES
from trimtab.gpu_scheduling.workload.jobs import GROUP_BITS, WHOLE, Workload, make_workload
from trimtab.gpu_scheduling.workload.presets import UNKNOWN

__all__ = ["gpu_model", "group_key", "group_name", "workload_from"]

OPTIONAL: dict[str, pl.DataType | type[pl.DataType]] = {
    "start_s": pl.Float64,
    "nodes": pl.Float64,
    "cpus": pl.Float64,
    "memory_mib": pl.Float64,
    "id": pl.String,
    "user": pl.String,
    "name": pl.String,
    "models": pl.String,
}
TRAILING_NUMBER = re.compile(r"[\s_.\-#:]*\d+$")
SPEEDS = {one.name: one.speed for one in (*TYPES, *TRACE_TYPES)}
KNOWN_MODELS = tuple(SPEEDS)
LONGEST_S = 10 * 366 * 86_400
"""Ten years: a longer job is a wrong unit."""
LATEST_S = 32_503_680_000
"""The year 3000: a later arrival is in milliseconds, which since 1970 are more than a million million."""
MOST = {"gpus": 1e7, "cpus": 1e9, "memory_mib": 1e12}
"""More than any cluster has: a larger amount is a wrong column or unit."""
UNUSUAL_S = 3 * 86_400
"""Half of the jobs of a history are seldom as long; in milliseconds, this would be four minutes."""


def workload_from(
    reading: Reading,
    frame: pl.DataFrame,
    *,
    source: str,
    settings: Mapping[str, object],
    begins_at_0: bool = False,
) -> Workload:
    """Check the rows, leave out what is of no use, and make the workload, re-timed to start at 0.

    `begins_at_0` is for traces whose own clock begins at 0: what comes before that is damage.
    """
    frame = frame.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in OPTIONAL.items() if name not in frame.columns
    )
    if "gpus" not in frame.columns:
        frame = frame.with_columns((pl.col("instances") * pl.col("gpu_milli") / WHOLE).alias("gpus"))
    frame = _checked(reading, frame, begins_at_0)
    frame = _arrived_before_they_started(frame, reading.report)
    if "instances" not in frame.columns:
        frame = _with_instances(frame, reading.report)
    frame = _with_whole_gpus(frame, reading.report)
    if frame.is_empty():
        found = ", ".join(f"{amount} x {reason}" for reason, amount in reading.report.dropped.items())
        raise HistoryError(f"{reading.path}: no usable job in it ({found or 'empty'}); name another history")
    _state_assumptions(reading.report, float(np.median(frame["duration_s"].to_numpy())))
    type_names, allowed = _models(frame["models"], reading.report)
    reading.report.count("jobs", len(frame))
    arrival_ms = (frame["arrival_s"].to_numpy() * 1000).round().astype(np.int64)
    ids = frame["id"]
    try:
        return make_workload(
            arrival_ms - arrival_ms.min(),
            duration_ms=np.maximum((frame["duration_s"].to_numpy() * 1000).round(), 1),
            instances=frame["instances"].to_numpy(),
            gpu_milli=frame["gpu_milli"].to_numpy(),
            cpu_milli=_of_instance(frame, pl.col("cpus") * 1000),
            memory_mib=_of_instance(frame, pl.col("memory_mib")),
            allowed_types=allowed,
            user=_numbered(frame["user"].fill_null("").to_list()),
            group=_groups(frame),
            type_names=type_names,
            ids=() if ids.null_count() else ids.to_list(),
            source=source,
            settings={**settings, UNKNOWN: ["sensitivity", "communication"]},
        )
    except WorkloadError as problem:
        raise HistoryError(f"{reading.path}: {problem}") from None


def _checked(reading: Reading, frame: pl.DataFrame, begins_at_0: bool) -> pl.DataFrame:
    for column in ("arrival_s", "duration_s", "gpus"):
        missing = pl.col(column).is_null() | ~pl.col(column).is_finite()
        frame = reading.without(frame, missing, f"no number in {column}", lost="jobs with unknown numbers")
    frame = reading.without(
        frame, pl.col("gpus") < 0, "{} GPUs", column="gpus", lost="jobs with a negative number of GPUs"
    )
    for column, most in MOST.items():
        frame = reading.without(
            frame,
            pl.col(column) > most,
            f"{column} is {{}}, more than any cluster has",
            column=column,
            lost="jobs larger than any cluster",
        )
    frame = reading.dropping(frame, pl.col("gpus") * WHOLE < 0.5, "job without GPUs")
    frame = reading.without(
        frame,
        pl.col("duration_s") < 0,
        "the job ends before it starts (it takes {} s)",
        column="duration_s",
        lost="jobs that end before they start",
    )
    frame = reading.without(
        frame,
        pl.col("duration_s") > LONGEST_S,
        "a job of {} s; durations are in seconds",
        column="duration_s",
        lost="jobs of more than ten years",
    )
    frame = reading.dropping(frame, pl.col("duration_s") == 0, "job that took no time")
    frame = reading.without(
        frame,
        pl.col("arrival_s") > LATEST_S,
        "the job arrives at {} s, after the year 3000; times are in seconds",
        column="arrival_s",
        lost="jobs that arrive after the year 3000",
    )
    if begins_at_0:
        frame = reading.without(
            frame,
            pl.col("arrival_s") < 0,
            "the job arrives at {} s, before the start of the trace at 0",
            column="arrival_s",
            lost="jobs that arrive before the start",
        )
    again = pl.col("id").is_not_null() & ~pl.col("id").is_first_distinct()
    return reading.without(
        frame, again, "job {} stands there twice", column="id", lost="jobs with the id of another"
    )


def _arrived_before_they_started(frame: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    """A job comes at the latest when it starts, whatever clocks that differ or are put back tell."""
    late = pl.col("arrival_s") > pl.col("start_s")
    report.fill(
        "jobs submitted after they started: they come when they start", frame.select(late.sum()).item()
    )
    return frame.with_columns(pl.when(late).then("start_s").otherwise("arrival_s").alias("arrival_s"))


def _with_instances(frame: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    """A node is an instance if each has as many GPUs; otherwise an instance is one GPU."""
    gpus, nodes = pl.col("gpus"), pl.col("nodes")
    told = nodes.is_not_null() & (nodes >= 1)
    even = told & ((gpus / nodes) % 1 == 0)
    part = gpus < 1
    report.fill(
        "jobs whose GPUs are not even over their nodes: an instance is one GPU",
        frame.select((told & ~even & ~part).sum()).item(),
    )
    one_by_one = frame.select((~told & (gpus > 1)).sum()).item()
    if one_by_one:
        report.assume("where only a number of GPUs is told, they may be spread over machines in any way")
    return frame.with_columns(
        pl.when(part).then(1).when(even).then(nodes).otherwise(gpus.ceil()).alias("instances"),
        pl.when(part)
        .then((gpus * WHOLE).round())
        .when(even)
        .then(WHOLE * gpus / nodes)
        .otherwise(WHOLE)
        .alias("gpu_milli"),
    )


def _with_whole_gpus(frame: pl.DataFrame, report: ImportReport) -> pl.DataFrame:
    milli = pl.col("gpu_milli")
    uneven = (milli > WHOLE) & (milli % WHOLE != 0)
    frame = frame.with_columns(
        pl.when(uneven).then((milli / WHOLE).ceil() * WHOLE).otherwise(milli).alias("gpu_milli")
    )
    more = pl.col("instances") * milli - pl.col("gpus") * WHOLE > 0.5
    report.fill("jobs of one GPU and a part: rounded up to whole GPUs", frame.select(more.sum()).item())
    return frame


def _of_instance(frame: pl.DataFrame, amount: pl.Expr) -> NDArray[np.int64]:
    each = (amount.fill_null(0).fill_nan(0) / pl.col("instances")).ceil().clip(lower_bound=0)
    return frame.select(each.cast(pl.Int64)).to_series().to_numpy()


def _models(wanted: pl.Series, report: ImportReport) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of the GPU models that jobs ask for, and for every job the bits of those it may run on."""
    known = {cell: _model_names(cell) for cell in wanted.unique().drop_nulls()}
    names = tuple(sorted({name for several in known.values() for name in several}))
    if len(names) > MOST_TYPES:
        raise HistoryError(
            f"{report.source}: {len(names)} GPU models such as {names[0]!r} and {names[-1]!r}, and at most "
            f"{MOST_TYPES} can be told apart; is this the column of models? Rename it, or leave it out"
        )
    for name in names:
        if name not in KNOWN_MODELS:
            report.assume(f"GPU model {name!r} has no known speed; declare it in gpu_types of the cluster")
        elif SPEEDS[name] != 1:
            report.assume(
                f"jobs that ask for {name} run there at {SPEEDS[name]:g} times the reference speed; if they "
                f"were recorded there, declare {name} with speed 1 in gpu_types of the cluster"
            )
    bits = {cell: sum(1 << names.index(name) for name in several) for cell, several in known.items()}
    return names, np.array([bits.get(cell, 0) for cell in wanted.to_list()], np.int64)


def _model_names(cell: str) -> list[str]:
    return sorted({gpu_model(name) for name in cell.split("|") if name.strip()})


def gpu_model(name: str) -> str:
    """The name of a GPU model as clusters know it, however a system spells it; others in capitals.

    >>> gpu_model("tesla_v100-sxm2-32gb"), gpu_model("NVIDIA-A100-SXM4-80GB"), gpu_model("rtx3090")
    ('V100', 'A100', 'RTX3090')
    """
    spelt = name.strip().upper()
    words = re.split(r"[^A-Z0-9]+", spelt)
    return next((model for model in KNOWN_MODELS if model in words), spelt)


def group_name(name: str) -> str:
    """The name of a job without the number at its end.

    >>> group_name("train-bert_12"), group_name("eval"), group_name("2024")
    ('train-bert', 'eval', '2024')
    """
    return TRAILING_NUMBER.sub("", name) or name


def _groups(frame: pl.DataFrame) -> NDArray[np.int64]:
    users, names = frame["user"].fill_null("").to_list(), frame["name"].fill_null("").to_list()
    pairs = list(zip(users, names, strict=True))
    keys = {(user, name): group_key(user, group_name(name)) for user, name in set(pairs)}
    return np.array([keys[pair] for pair in pairs], np.int64)


def group_key(user: str, name: str) -> int:
    """A number for the jobs of a user and name, the same in every history and on every machine.

    >>> group_key("ann", "bert") == group_key("ann", "bert") != group_key("bob", "bert")
    True
    """
    digest = hashlib.blake2b(f"{user}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> (64 - GROUP_BITS)


def _numbered(things: list[str]) -> NDArray[np.int64]:
    """Numbers in order of first appearance."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], np.int64)


def _state_assumptions(report: ImportReport, median_s: float) -> None:
    if median_s > UNUSUAL_S:
        report.assume(
            f"durations are seconds, though half of the jobs take more than {median_s / 86_400:.1f} days; "
            "if they are milliseconds, divide them by 1000"
        )
    report.assume("durations are as on GPUs of the reference speed")
    report.assume(
        "how jobs disturb each other and what spreading costs is not told: it is made up when jobs are drawn"
    )
