"""Import what came for a Flink job over time: a rate trace from the answers that tell of the job itself.

Sources count what they send. Between two answers about one run that number grew evenly, as far as anybody
knows; what falls into a step of the trace over the time of it that was watched is its rate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta

import numpy as np

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.counting import LATEST_S, LONGEST, Fill, Series, check_offset, mended
from trimtab.rates.traces import RateTrace
from trimtab.stream_autoscaling.history.flink_answers import answers_of
from trimtab.stream_autoscaling.history.flink_samples import WRITTEN, pairs_of, plan_of
from trimtab.stream_autoscaling.problem import Floats

__all__ = ["import_flink_rates"]

LEAST_WATCHED = 0.5
"""Share of a step that must have been watched; a restart of some seconds leaves no gap in minutes."""


def import_flink_rates(
    source: str,
    *,
    keep_going: bool = False,
    fill: Fill | None = None,
    job: str | None = None,
    step_s: float = 60.0,
    utc_offset_hours: float = 0.0,
    samples: int = 13,
    every_s: float = 10.0,
    timeout_s: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[RateTrace, ImportReport]:
    """Records per second that all sources of a job sent, in steps of `step_s`.

    `source` is a folder of saved answers of `/jobs/<id>`, or the address of a JobManager, which is asked
    `samples` times. What waits before the sources is not told there, so what they sent counts as what came.
    """
    if not 0 < step_s < math.inf:
        raise HistoryError(f"{source}: steps of {step_s} s; give a length above 0")
    check_offset(source, utc_offset_hours)
    report = ImportReport(source)
    answers = answers_of(
        source,
        keep_going=keep_going,
        job=job,
        samples=samples,
        every_s=every_s,
        timeout_s=timeout_s,
        sleep=sleep,
        report=report,
    )
    plan = plan_of(answers.details[-1], source)
    spans = np.array(
        [
            (before.now_ms / 1000, after.now_ms / 1000, grown[WRITTEN, plan.is_source].sum())
            for before, after, grown in pairs_of(answers.details, plan, source=source, report=report)
        ]
    )
    if not spans[:, 2].any():
        raise HistoryError(
            f"{source}: sources sent nothing between the answers; record while data flows, a job of one "
            "chain with pipeline.operator-chaining.enabled: false"
        )
    rates, begin_s = _in_steps(source, spans, step_s)
    begins = datetime(1970, 1, 1) + timedelta(seconds=begin_s + 3600 * utc_offset_hours)
    report.assume("what sources sent is what came: what waits before them, or is read again, is not told")
    report.assume(f"the time of day is that of universal time {utc_offset_hours:+g} h")
    series = Series(f"flink {plan.job_name}", rates, step_s, begins)
    settings = {"job": job, "step_s": step_s, "fill": fill}
    return mended(series, fill=fill, keep_going=keep_going, report=report, settings=settings), report


def _in_steps(source: str, spans: Floats, step_s: float) -> tuple[Floats, float]:
    """Rates of steps of the clock from rows of (begin, end, records) in the order of time; NaN: unknown.

    >>> rates, begin_s = _in_steps("job", np.array([[90.0, 120.0, 300.0], [120.0, 180.0, 1200.0]]), 60.0)
    >>> rates.tolist(), begin_s
    ([10.0, 20.0], 60.0)
    """
    first, last = np.floor(spans[0, 0] / step_s), np.ceil(spans[-1, 1] / step_s)
    if last - first > LONGEST or not np.abs(spans[:, :2]).max() < LATEST_S:
        raise HistoryError(
            f"{source}: {last - first:,.0f} steps of {step_s:g} s; some answer has a wrong time, remove it, "
            "or give a longer step_s"
        )
    edges = step_s * np.arange(first, last + 1)
    moments = spans[:, :2].ravel()
    # Both grow from the begin of a span to its end, and stand still until the next begins.
    watched_s, records = (
        np.diff(np.interp(edges, moments, _ramps(amounts)))
        for amounts in (spans[:, 1] - spans[:, 0], spans[:, 2])
    )
    known = watched_s >= LEAST_WATCHED * step_s
    return np.where(known, records / np.where(known, watched_s, 1.0), np.nan), float(edges[0])


def _ramps(amounts: Floats) -> Floats:
    """The sum up to the begin and to the end of every span, one after the other."""
    sums = np.concatenate([[0.0], np.cumsum(amounts)])
    return np.column_stack([sums[:-1], sums[1:]]).ravel()
