"""`make bench-stream-paper`: the published table of SURE, played again under the published rules.

Everybody meets the same 12 unseen days of each of the six jobs (clock of minutes, batch barrier, a decision
every hour: `simulator.paper`); nobody decides about the first hour. A rule plays all days; each learned
policy was trained three times with other seeds, and the training with seed s plays the days whose number
modulo 3 is s. All were trained alike (`benchmarks.stream_paper_training`) on the two small jobs: on the
others they are strangers, which the paper's are not.

Rewards are lambda x norm(-latency) + (1 - lambda) x norm(utilisation), each normalised to the hours of a
fixed allocation that is half busy on average. How the paper normalises is not published, so its numbers stand
beside ours for order and gaps alone: a row says "reproduced" where ours has the sign of the paper's and its
interval, over days, leaves 0 out. Nothing here has a bar.

Then what the paper shows as figures, on the small jobs: rewards and inference time by size of the subgraphs
(k1 snapshots, k2 neighbours in each), latency and utilisation by weight of latency (lambda).

    make bench-stream-paper ARGS="--seeds 3"    # a trial
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.decima_settings import Numbers, finish_after, reported
from benchmarks.results import ROOT, Row
from benchmarks.stream_paper_rules import GRIDS, USUAL, searched, tuned
from benchmarks.stream_paper_training import LATENCY_WEIGHTS, PREFIX, RIVALS, SEEDS, SIZES
from benchmarks.stream_settings import Contestant, Played, asked_for, same_for_all
from trimtab.benchmark.suite import FIRST_TEST_SEED
from trimtab.core.errors import TrimtabError
from trimtab.core.statistics import Estimate, mean_interval, paired_difference
from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import StreamPolicy
from trimtab.stream_autoscaling.simulator.paper import PaperRules, PaperSimulator
from trimtab.stream_autoscaling.sure.paper.policy import PaperPolicy, load_paper_policy
from trimtab.stream_autoscaling.sure.paper.setting import (
    by_the_minute,
    paper_job,
    play_hours,
    rewards_of,
    scale_of,
)
from trimtab.stream_autoscaling.workload.jobs import FROZEN
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

DAYS = 12
PRACTISED = ("small-1", "small-2")
PUBLISHED = {
    "sure": (0.52, 1.41, 1.19, 1.81, 1.02, 0.95, 1.15),
    "ccrnn": (0.48, 0.97, 0.24, 1.12, -0.57, 0.46, 0.45),
    "tvw-rl": (0.26, 0.66, 0.08, -0.40, 0.95, 0.85, 0.40),
    "dream": (0.50, -0.23, 0.23, -0.11, 0.92, -1.14, 0.03),
    "astgcn": (0.26, -0.66, 0.36, 1.09, -1.24, 0.29, 0.02),
    "deepwave": (-2.77, -1.23, 0.16, -0.97, 0.69, 0.32, -0.63),
    "hpa": (-0.17, 1.16, -2.69, -0.90, -1.28, -2.35, -1.04),
}
"""Table 1 of the paper, best first: six jobs and their mean."""
LEARNED = ("sure", *RIVALS)
OURS = "sure-our-weights"
"""SURE with weights of its lower bound that leave the reward more to say; not in the paper."""
RULES = PaperRules()
TIE = 1e-9
"""Policies that all want more instances than there are do the same."""
REPEATS = 40


def trained(names: Iterable[str], folder: Path) -> dict[str, list[PaperPolicy]]:
    """The trainings of each name; the first that is missing ends the benchmark before anything is played."""
    try:
        return {
            name: [load_paper_policy(folder / f"{PREFIX}{name}-{seed}") for seed in range(SEEDS)]
            for name in names
        }
    except TrimtabError as missing:
        sys.exit(f"error: {str(missing).replace(f'{ROOT}/', '')}")


def rule_contestants() -> list[Contestant]:
    """Rules as they are, rules tuned for each job on training days, and an allocation searched for each."""
    found = [same_for_all(name.partition(":")[0], [make_policy(name)], FROZEN) for name in USUAL]
    found += [
        Contestant(kind, " (tuned)", {job: (tuned(kind, job, RULES),) for job in FROZEN}) for kind in GRIDS
    ]
    fixed: Mapping[str, tuple[StreamPolicy, ...]] = {job: (searched(job, RULES),) for job in FROZEN}
    return [*found, Contestant("fixed", " (searched)", fixed)]


def play(one: Contestant, jobs: Sequence[str], days: int, rules: PaperRules = RULES) -> Played:
    """A contestant on the unseen days of some jobs."""
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + days)
    measured: dict[tuple[str, int], dict[str, float]] = {}
    for name in jobs:
        job = paper_job(name)
        for policy, its in one.shares(name, seeds):
            traces = [draw_trace(TraceSettings(), job, seed=seed, part="test") for seed in its]
            for episode in play_hours(policy, job, traces, rules, seeds=its):
                measured[name, episode.seed] = measures(episode, name, rules)
    names = next(iter(measured.values()))
    values = {key: np.array([[measured[job, seed][key] for seed in seeds] for job in jobs]) for key in names}
    return Played(one.name, one.told, values)


def measures(episode: Episode, name: str, rules: PaperRules) -> dict[str, float]:
    """Means over the hours of a day."""
    return {
        "reward": float(rewards_of(episode, scale_of(name, rules), rules.latency_weight).mean()),
        "latency_min": float(episode.latency_s.mean() / 60),
        "utilisation": float(episode.busy.mean()),
        "rescales": float(episode.rescaled.mean()),
    }


def told(value: Estimate, published: float) -> str:
    """Whether a difference is reproduced: the sign of the paper's, and surely not 0."""
    surely = value.low > 0 if published > 0 else value.high < 0
    return f"none (paper {published:+.2f}: {'reproduced' if surely else 'not reproduced'})"


def difference_row(name: str, ours: Played, theirs: Played, published: float) -> Row:
    """A gap of the table, paired by day."""
    gap = paired_difference(ours.by_day("reward"), theirs.by_day("reward"), seed=0)
    return Row(name, gap.value, told(gap, published), True, gap.low, gap.high)


def table_rows(found: Mapping[str, Played]) -> list[Row]:
    """Rewards of everybody, over all jobs, then job by job."""
    rows = []
    for label, one in found.items():
        published = f"none (paper {PUBLISHED[label][-1]:+.2f})" if label in PUBLISHED else "none"
        mean = mean_interval(one.by_day("reward"), seed=0)
        rows.append(
            Row(f"table 1: {label}: mean reward, six jobs", mean.value, published, True, mean.low, mean.high)
        )
    for place, job in enumerate(FROZEN):
        for label, one in found.items():
            published = f"none (paper {PUBLISHED[label][place]:+.2f})" if label in PUBLISHED else "none"
            mean = mean_interval(one.values["reward"][place], seed=0)
            rows.append(Row(f"{job}: {label}: mean reward", mean.value, published, True, mean.low, mean.high))
    for label, one in found.items():
        rows.append(reported(f"latency: {label}: min, six jobs", float(one.by_day("latency_min").mean())))
        rows.append(reported(f"utilisation: {label}: six jobs", float(one.by_day("utilisation").mean())))
        rows.append(reported(f"restarts: {label}: share of the hours", float(one.by_day("rescales").mean())))
    return rows


def order_rows(found: Mapping[str, Played]) -> list[Row]:
    """What the published table claims about order and gaps."""
    sure, means = found["sure"], {name: one.values["reward"].mean(1) for name, one in found.items()}
    rows = [
        difference_row(f"gap: sure - {name}", sure, found[name], PUBLISHED["sure"][-1] - PUBLISHED[name][-1])
        for name in PUBLISHED
        if name != "sure"
    ]
    others = np.max([means[name] for name in PUBLISHED if name != "sure"], axis=0)
    first = int((means["sure"] > others + TIE).sum())
    rows.append(Row("order: jobs on which sure is first of the seven", first, _verdict(first, 6), True))
    pairs = [means[high].mean() > means[low].mean() + TIE for high, low in combinations(PUBLISHED, 2)]
    agreeing = int(np.sum(pairs))
    rows.append(
        Row("order: pairs of the seven in the published order", agreeing, _verdict(agreeing, 21), True)
    )
    last = min(PUBLISHED, key=lambda name: float(means[name].mean()))
    rows.append(
        Row("order: hpa is last on average", int(last == "hpa"), _verdict(int(last == "hpa"), 1), True)
    )
    rows += [
        reported(f"small jobs alone: {label}: mean reward", mean_interval(on_small(one), seed=0))
        for label, one in found.items()
    ]
    return rows


def on_small(one: Played) -> Numbers:
    """Rewards of each day on the jobs that were practised."""
    return one.values["reward"][: len(PRACTISED)].mean(0)


def _verdict(value: int, published: int) -> str:
    return f"none (paper {published}: {'reproduced' if value == published else 'not reproduced'})"


def rule_rows(found: Mapping[str, Played]) -> list[Row]:
    """The paper has one rule; the bar of a user is the best."""
    learned = max((found[name] for name in (*LEARNED, OURS)), key=_mean)
    rows = []
    for label, one in found.items():
        if label not in (*LEARNED, OURS):
            gap = paired_difference(learned.by_day("reward"), one.by_day("reward"), seed=0)
            rows.append(reported(f"rules: best learned ({learned.name}) - {label}", gap))
            gap = paired_difference(on_small(learned), on_small(one), seed=0)
            rows.append(reported(f"rules: best learned ({learned.name}) - {label}, small jobs alone", gap))
    return rows


def _mean(one: Played) -> float:
    return float(one.values["reward"].mean())


def weight_rows(sweeps: Mapping[str, Sequence[PaperPolicy]], days: int) -> list[Row]:
    """Latency and utilisation of SURE by the weight it was trained with, on the jobs it practised."""
    rows = []
    for weight in sorted({*LATENCY_WEIGHTS, RULES.latency_weight}):
        name = "sure" if weight == RULES.latency_weight else f"sure-lambda-{weight:g}"
        rules = PaperRules(latency_weight=weight)
        one = play(same_for_all(name, sweeps[name], PRACTISED), PRACTISED, days, rules)
        for measure in ("latency_min", "utilisation", "reward"):
            mean = mean_interval(one.by_day(measure), seed=0)
            rows.append(reported(f"lambda = {weight:g}: {measure.replace('_', ', ')}", mean))
    return rows


def size_rows(sweeps: Mapping[str, Sequence[PaperPolicy]], days: int) -> list[Row]:
    """Reward and inference time of SURE by the size of its subgraphs, on the jobs it practised."""
    rows = []
    for name in ("sure", *(f"sure-{size}" for size in SIZES)):
        design = sweeps[name][0].design
        label = f"k1 = {design.snapshots}, k2 = {design.neighbours}"
        one = play(same_for_all(name, sweeps[name], PRACTISED), PRACTISED, days)
        rows.append(reported(f"{label}: mean reward", mean_interval(one.by_day("reward"), seed=0)))
        rows.append(reported(f"{label}: ms a decision, 14 tasks", inference_ms(sweeps[name][0])))
    return rows


def inference_ms(policy: PaperPolicy) -> float:
    """Median time of a decision about one job, of the processor alone: others may be at work on it."""
    job = paper_job(PRACTISED[0])
    day = draw_trace(TraceSettings(), job, seed=FIRST_TEST_SEED, part="test")
    simulator = PaperSimulator([job], [day], RULES, seeds=[0])
    simulator.step(simulator.snapshot().parallelism)
    decider, snapshot = policy.begin(simulator.graph), by_the_minute(simulator.snapshot())
    took = []
    for _ in range(REPEATS):
        started = time.process_time()
        decider.decide(snapshot)
        took.append(time.process_time() - started)
    return 1000 * float(np.median(took))


def main(arguments: Sequence[str] | None = None) -> None:
    asked = asked_for("The published table under the published rules.", DAYS, arguments)
    started = time.perf_counter()
    learned = trained((*LEARNED, OURS), asked.bundles)
    names = [f"lambda-{weight:g}" for weight in LATENCY_WEIGHTS] + list(SIZES)
    sweeps = trained([f"sure-{name}" for name in names], asked.bundles) | {"sure": learned["sure"]}
    contestants = [same_for_all(name, its, FROZEN) for name, its in learned.items()] + rule_contestants()
    found = {one.label: play(one, FROZEN, asked.seeds) for one in contestants}
    rows = [
        reported("training seeds of each learned policy", SEEDS),
        reported("unseen days of each job", asked.seeds),
        reported("decisions of each training", learned["sure"][0].bundle.manifest["trained"]["decisions"]),
        *table_rows(found),
        *order_rows(found),
        *rule_rows(found),
        *weight_rows(sweeps, asked.seeds),
        *size_rows(sweeps, asked.seeds),
    ]
    finish_after("stream-paper", rows, started)


if __name__ == "__main__":
    main()
