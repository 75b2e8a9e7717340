"""`make bench-stream-learning`: SURE against every rule and its five learned rivals on the six frozen jobs.

Everybody meets the same 10 unseen days of each job with the same luck. A rule plays them all, with the
settings tuned for the job where such are shipped. Each learned policy was trained five times with other
seeds; the training with seed s plays the days whose number modulo 5 is s, so all trainings count alike and
none is picked. The rivals have the features, actions, base rule and training of SURE; only their encoder
differs. The best of rules and rivals is chosen on these very days, which favours it. Means over jobs are
means over the six; their intervals are over days.

SURE is there as a network (`sure`, with a recurrent unit; `sure-sampler`, with the paper's sampler of
subgraphs) and as 155 numbers that evolution found (`sure-compact`): the same gate between
holding and committing, around what the same rule would do. On days of training the compact one costs less, so
the bars are for it, and the same ratios of the network are reported. Beside them play the rule around which
both step (`banded`), both as they are before training, DS2 with its usual settings here (it aims at 75 %
busy, the paper's at 100 %), and the one of the five that is shipped, the best of them on validation days.

Then days of two recordings that nothing was trained or tuned on: the last ten of the tournament from
WorldCup98 (what follows them is near silence) and the last ten of Twitter 2021, scaled so that on average
over these days a job meets its usual rate. A job's tuned DS2 keeps the settings found under the usual trace.
Until November 18 it was the last three of each, too few for a claim; of those there are rows of their own.

    make bench-stream-learning ARGS="--seeds 2"    # a trial; it misses the bars on the number of days
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.decima_settings import (
    Numbers,
    finish_after,
    ratio_reported,
    reported,
    surely_below_one,
)
from benchmarks.results import Row, at_least, shared_data
from benchmarks.stream_settings import (
    MEASURES,
    TRAINING_SEEDS,
    Contestant,
    Played,
    asked_for,
    learned,
    learned_compact,
    play,
    same_for_all,
    started_workers,
    tuned_rule,
)
from trimtab.benchmark.playing import Workers
from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite, JobsSuite
from trimtab.benchmark.suite import FIRST_TEST_SEED, Scenario
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.core.errors import HistoryError
from trimtab.core.statistics import mean_interval, paired_ratio
from trimtab.stream_autoscaling.history.csv_counts import import_csv_counts
from trimtab.stream_autoscaling.job import Job
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.sure.compact import CompactPolicy, first_numbers
from trimtab.stream_autoscaling.sure.policy import SurePolicy
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, find_trace, whole_days
from trimtab.stream_autoscaling.workload.traces import RateTrace, save_trace

DAYS = 10
RULES = ("static", "oracle-static", "reactive", "hpa", "ds2", "flink", "dhalion", "keda-lag", "aws")
RIVALS = ("deepwave", "dream", "tvw-rl", "astgcn", "ccrnn")
OURS, SAMPLER = "sure", "sure-sampler"
COMPACT, UNLEARNED, SHIPPED = "sure-compact", "sure-compact before training", "sure-compact as shipped"
LEARNED = (OURS, SAMPLER, *RIVALS)
BASE, UNTRAINED, USUAL = "banded", "sure without its network", "ds2 with its usual settings"
TABLE_1 = (COMPACT, OURS, *RIVALS, "hpa")
DS2_BARS = {"violation_share": 0.5, "rescales": 0.5, "slot_hours": 1.0}
FLINK_BARS = {"slot_hours": 0.85, "violation_share": 1.0}
WORDS = {"violation_share": "share of the time too late", "rescales": "restarts", "slot_hours": "slot-hours"}
UNSEEN_JOBS = ("small-1", "medium-1", "large-1")
UNSEEN_DAYS, LAST_DAYS = 10, 3


@dataclass(frozen=True)
class Recording:
    """Counts that others recorded, under the shared data."""

    file: str
    read_with: Mapping[str, Any] = field(default_factory=dict)
    end_day: int | None = None
    """The day after the last that is of use, counted from the first midnight before it begins."""

    def last_days(self, number: int) -> RateTrace:
        """So many whole days from its end."""
        trace, _ = import_csv_counts(str(shared_data() / self.file), **self.read_with)
        end_day = self.end_day or whole_days(trace)[1]
        return trace.day(end_day - number, number)


RECORDINGS = {
    # Begins on 30 April; day 73 is 12 July, the final.
    "worldcup98": Recording("worldcup98/worldcup98_per_minute.csv.gz", end_day=74),
    "twitter2021": Recording(
        "twitter2021/twitter_per_10s.csv.gz", {"step_s": 10, "zeros": "gaps", "fill": "interpolate"}
    ),
}


class RecordedSuite(AutoscalingSuite):
    """Every day of a trace file, under the seed of its number."""

    def test_seeds(self) -> range:
        first, last = whole_days(find_trace(self.trace.name))
        return range(FIRST_TEST_SEED + first, FIRST_TEST_SEED + last)

    def draw(self, scenario: Scenario, seed: int) -> tuple[Job, RateTrace]:
        job = make_job(scenario.workload.name)
        return job, find_trace(self.trace.name).scaled(job.usual_rate).day(seed - FIRST_TEST_SEED)


def contestants(
    suite: JobsSuite, trained: Mapping[str, Sequence[SurePolicy]], compact: Sequence[CompactPolicy]
) -> list[Contestant]:
    """Everybody who plays the six jobs."""
    known = shipped_tuned_values()
    teacher = make_policy(trained[OURS][0].design.teacher)
    return [
        *(tuned_ds2(suite) if name == "ds2" else tuned_rule(name, suite, known) for name in (*RULES, BASE)),
        same_for_all(USUAL, [make_policy("ds2")], suite.jobs),
        same_for_all(UNTRAINED, [teacher], suite.jobs),
        same_for_all(COMPACT, compact, suite.jobs),
        same_for_all(UNLEARNED, [CompactPolicy(UNLEARNED, first_numbers())], suite.jobs),
        same_for_all(SHIPPED, [make_policy(COMPACT)], suite.jobs),
        *(same_for_all(name, policies, suite.jobs) for name, policies in trained.items()),
    ]


def tuned_ds2(suite: AutoscalingSuite) -> Contestant:
    """DS2 with settings tuned for every job: rows call it tuned, so usual ones must not stand in for them."""
    found = tuned_rule("ds2", suite, shipped_tuned_values())
    if found.told != " (tuned)":
        sys.exit("error: ds2 was not tuned for every job of this suite; run `trimtab tune`")
    return found


def by_name(played: Iterable[Played]) -> dict[str, Played]:
    """From the cheapest to the dearest."""
    return {one.name: one for one in sorted(played, key=lambda one: one.cost)}


def ratio_row(name: str, ours: Numbers, theirs: Numbers, bar: float) -> Row:
    """Ours over theirs, paired by day: at most the bar. There is no interval if theirs may be 0."""
    if (theirs > 0).all():
        ratio = paired_ratio(ours, theirs, seed=0)
        return Row(name, ratio.value, f"<= {bar:g}", ratio.value <= bar, ratio.low, ratio.high)
    value = ratio_of_means(float(ours.mean()), float(theirs.mean()))
    return Row(name, value, f"<= {bar:g}", value <= bar)


def ratio_of_means(ours: float, theirs: float) -> float:
    """Ours over theirs; two zeros are alike, and anything over zero is beyond every bar.

    >>> ratio_of_means(1, 2), ratio_of_means(0, 0), ratio_of_means(1, 0)
    (0.5, 1.0, inf)
    """
    if theirs > 0:
        return ours / theirs
    return float("inf") if ours > 0 else 1.0


def overview_rows(found: Mapping[str, Played]) -> list[Row]:
    """What everybody cost, and what of."""
    return [
        reported(f"six jobs: {one.label}: {words}", mean_interval(one.by_day(measure), seed=0))
        for one in found.values()
        for measure, words in MEASURES.items()
    ]


def best_rows(found: Mapping[str, Played], name: str, jobs: Sequence[str], *, judged: bool) -> list[Row]:
    """SURE, by one of its names, against the best of rules and rivals, over all jobs and on each."""
    ours, rules = found[name], [found[rule] for rule in (*RULES, BASE)]
    others, rows = [*rules, *(found[rival] for rival in RIVALS)], []
    compared = surely_below_one if judged else ratio_reported
    for whom, those in (("rules", rules), ("rules and rivals", others)):
        best = min(those, key=lambda one: one.cost)
        told = f"{name} / best of {whom}: cost, six jobs; the best is {best.label}"
        rows.append(compared(told, ours.by_day("cost"), best.by_day("cost")))
    by_job, won = job_rows_against(ours, others, jobs)
    told = f"jobs on which {name} is below the best of rules and rivals"
    return [*rows, *by_job, at_least(told, won, 5) if judged else reported(told, won)]


def job_rows_against(ours: Played, others: Sequence[Played], jobs: Sequence[str]) -> tuple[list[Row], int]:
    """Ours over whoever is best on each job, and on how many ours is below."""
    rows, won = [], 0
    for place, job in enumerate(jobs):
        best = min(others, key=lambda one: float(one.values["cost"][place].mean()))
        mine, theirs = (one.values["cost"][place] for one in (ours, best))
        won += bool(mine.mean() < theirs.mean())
        rows.append(ratio_reported(f"{ours.name} / best {best.name} on {job}: cost", mine, theirs))
    return rows, won


def bar_rows(
    told: str, ours: Played, other: Played, bars: Mapping[str, float], *, judged: bool = True
) -> list[Row]:
    """SURE over another, measure by measure; without its bars if it is not judged."""
    rows = [
        ratio_row(f"{told}: {WORDS[measure]}", ours.by_day(measure), other.by_day(measure), bar)
        for measure, bar in bars.items()
    ]
    return rows if judged else [replace(row, bar="none", holds=True) for row in rows]


def slot_rows(ours: Played, other: Played, jobs: Sequence[str]) -> list[Row]:
    """Slot-hours on each job, for information: a ratio over all jobs may be the doing of one."""
    return [
        ratio_reported(
            f"{ours.name} / {other.name} on {job}: slot-hours",
            ours.values["slot_hours"][place],
            other.values["slot_hours"][place],
        )
        for place, job in enumerate(jobs)
    ]


def mean_rows(told: str, ours: Played, theirs: Played, days: int) -> list[Row]:
    """One over another on the last days, for information: there are too few for an interval."""
    found = {name: [float(one.by_day(name)[-days:].mean()) for one in (ours, theirs)] for name in WORDS}
    return [reported(f"{told}: {words}", ratio_of_means(*found[name])) for name, words in WORDS.items()]


def part_rows(found: Mapping[str, Played]) -> list[Row]:
    """What its parts add: training to what it begins from, the sampler to a recurrent unit."""
    pairs = [(OURS, BASE), (OURS, UNTRAINED), (OURS, SAMPLER), (COMPACT, UNLEARNED), (SHIPPED, COMPACT)]
    rows = [
        ratio_reported(
            f"{ours} / {name}: cost, six jobs", found[ours].by_day("cost"), found[name].by_day("cost")
        )
        for ours, name in pairs
    ]
    between = [
        ratio_reported(
            f"{COMPACT} / {OURS}: {words}, six jobs",
            found[COMPACT].by_day(measure),
            found[OURS].by_day(measure),
        )
        for measure, words in {"cost": "cost", **WORDS}.items()
    ]
    return [*rows, *between]


def figure_rows(found: Mapping[str, Played]) -> list[Row]:
    """What the paper shows: rewards as a table, latency and utilisation as figures."""
    shown = {
        "reward": ("table 1", "mean reward, six jobs", TABLE_1),
        "latency_s": ("latency", "mean latency, s", (COMPACT, OURS, *RULES, *RIVALS)),
        "utilisation": ("utilisation", "busy subtasks over all", (COMPACT, OURS, *RULES, *RIVALS)),
    }
    return [
        reported(f"{what}: {found[name].label}: {words}", mean_interval(found[name].by_day(measure), seed=0))
        for measure, (what, words, names) in shown.items()
        for name in names
    ]


def job_rows(
    workers: Workers,
    days: int,
    trained: Mapping[str, Sequence[SurePolicy]],
    compact: Sequence[CompactPolicy],
) -> list[Row]:
    """All that is measured on the six jobs."""
    suite = JobsSuite(seeds=days)
    found = by_name(play(workers, suite, contestants(suite, trained, compact)))
    rows = [
        at_least("training seeds of each learned policy", min(TRAINING_SEEDS, days), 5),
        at_least("unseen days of each job", days, DAYS),
        *overview_rows(found),
    ]
    for name, judged in ((COMPACT, True), (OURS, False)):
        ours = found[name]
        rows += best_rows(found, name, suite.jobs, judged=judged)
        rows += bar_rows(f"{name} / {USUAL}", ours, found[USUAL], DS2_BARS, judged=judged)
        rows += bar_rows(f"{name} / ds2 tuned", ours, found["ds2"], DS2_BARS, judged=judged)
        rows += bar_rows(f"{name} / flink", ours, found["flink"], FLINK_BARS, judged=judged)
        rows += slot_rows(ours, found["flink"], suite.jobs)
    return [*rows, *part_rows(found), *figure_rows(found)]


def unseen_rows(
    workers: Workers, days: int, trained: Sequence[SurePolicy], compact: Sequence[CompactPolicy]
) -> list[Row]:
    """SURE and DS2 on days of two recordings."""
    try:
        traces = {name: recording.last_days(days) for name, recording in RECORDINGS.items()}
    except (HistoryError, SystemExit) as missing:  # without the folder `shared_data` exits
        print(missing)
        return [at_least("unseen traces: not measured", 0, UNSEEN_DAYS)]
    rows = [at_least("unseen traces: days of each", days, UNSEEN_DAYS)]
    home = JobsSuite(jobs=UNSEEN_JOBS)
    players = [
        tuned_ds2(home),
        same_for_all(USUAL, [make_policy("ds2")], UNSEEN_JOBS),
        same_for_all(OURS, trained, UNSEEN_JOBS),
        same_for_all(COMPACT, compact, UNSEEN_JOBS),
    ]
    for name, trace in traces.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.trace"
            save_trace(trace, path)
            suite = RecordedSuite(jobs=UNSEEN_JOBS, trace=TraceSettings(name=str(path)))
            found = by_name(play(workers, suite, players))
        for ours, judged in ((COMPACT, True), (OURS, False)):
            for told, other in ((USUAL, USUAL), ("ds2 tuned", "ds2")):
                begun, bars = f"unseen traces: {name}: {ours} / {told}", dict.fromkeys(WORDS, 1.0)
                rows += bar_rows(begun, found[ours], found[other], bars, judged=judged)
                if judged:
                    last = f"{begun}, the last three days alone"
                    rows += mean_rows(last, found[ours], found[other], LAST_DAYS)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for("SURE against rules and learned rivals.", DAYS, arguments)
    started = time.perf_counter()
    trained, compact = learned(LEARNED, asked.bundles), learned_compact(COMPACT, asked.bundles)
    with started_workers() as workers:
        rows = job_rows(workers, asked.seeds, trained, compact)
        rows += unseen_rows(workers, min(UNSEEN_DAYS, asked.seeds), trained[OURS], compact)
    finish_after("stream-learning", rows, started)


if __name__ == "__main__":
    main()
